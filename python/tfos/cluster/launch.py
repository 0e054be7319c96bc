"""Starting one node: what a launch task does on an executor (or a thread on the driver)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from tfos.base import child, control_message, executable, gpu
from tfos.base.environment import without_spark_secrets
from tfos.base.programs import program_result
from tfos.errors import TfosError
from tfos.files import hadoop_settings
from tfos.spark import executor

logger = logging.getLogger(__name__)

_LOOK_AT_PARENT_SECONDS = 1.0
#: How long it is tried in a row to start a lost node again. The driver waits for that, too, where
#: the other programs have returned, and not much longer (tfos.cluster.closing).
_RETRY_SECONDS = 60.0
#: Before another try, and as much longer after each.
_PAUSE_SECONDS = 2.0

PROTOCOL = 1
#: The path of TensorBoard's page at the coordinator.
TENSORBOARD_PATH = "/tensorboard"

#: Belong to the Spark worker, not to the node, beside Spark's secrets.
_WORKER_ONLY = (
    "PYTHON_WORKER_FACTORY_PORT",
    "PYTHON_WORKER_FACTORY_SOCK_DIR",
    "PYTHON_WORKER_FACTORY_SOCK_PATH",
    "SPARK_BUFFER_SIZE",
    "SPARK_REUSE_WORKER",
    "SPARK_AUTH_SOCKET_TIMEOUT",
)

#: Where glibc's allocator gets to by itself once a program has freed a block of 32 MiB. Until then
#: it gives the memory of each batch of strings back to the kernel and gets it as fresh pages for
#: the next one, which costs as much as copying them.
NODE_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}


@dataclass(frozen=True)
class LaunchPlan:
    """What every launch task of a cluster needs. Travels to executors inside the Spark job; the
    keys it holds are kept out of its text form."""

    cluster_id: str
    #: By purpose: join, feed, tensors, parameters.
    keys: dict[str, str] = field(repr=False)
    #: As ``spark.tfos.encrypt`` has it.
    encrypt: str
    coordinator_address: str
    coordinator_port: int
    #: Passed to ``tfos.node`` as they are.
    node: dict[str, Any]
    #: Pickled ``(main, args)``.
    payload: bytes = field(repr=False)
    #: True in InputMode.TENSORFLOW: the task lasts as long as its node.
    stay: bool
    registration_timeout_ms: int
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    #: 0: no limit.
    answer_timeout_ms: int
    advertised_address: str
    #: Empty: the advertised one.
    bind_address: str
    ports: str
    python: str
    keep_omp_num_threads: bool
    gpu_count: int
    #: Instead of `gpu_count` where that is 0 and the host has GPUs.
    gpu_count_if_any: int
    gpu_fraction: float
    #: Parameter servers and evaluators.
    nodes_without_gpus: frozenset[int]
    #: How many nodes, counted from node 0, are native parameter servers.
    parameter_servers: int
    #: How many nodes, counted from node 0, are restarted when they are lost.
    returning_nodes: int
    log_level: str
    #: Directory for TensorBoard, or None for the node's working directory.
    log_dir: str | None
    #: Environment variables for Hadoop's client; its properties may be secrets.
    hadoop_environment: dict[str, str] = field(repr=False)
    #: Of those that Spark gave to executors: what nodes had there, where a node comes again.
    gpus_of_executors: dict[str, list[str]] = field(default_factory=dict)


def launch_task(plan: LaunchPlan, node_ids: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
    """Body of a Spark launch task: starts the node of each id in its partition (one each). Yields
    the id, and with ``plan.stay`` what the program returned: ``program_result`` says how."""
    from pyspark import TaskContext

    context = TaskContext.get()
    resources = context.resources()
    gpus = list(resources["gpu"].addresses) if "gpu" in resources else []
    for node_id in node_ids:
        with _until_the_node_ends(plan):
            result = launch(
                plan, node_id, executor_id=executor.executor_id(), watch_pid=-1, gpus=gpus
            )
        yield node_id, result


def _until_the_node_ends(plan: LaunchPlan) -> contextlib.AbstractContextManager[None]:
    """Has the task of an elastic node end after its executor, whose end is then named as the cause
    of the node's loss."""
    stays = plan.stay and plan.node["elastic"]
    return executor.outliving_the_daemon() if stays else contextlib.nullcontext()


def launch(
    plan: LaunchPlan,
    node_id: int,
    *,
    executor_id: str,
    watch_pid: int,
    gpus: list[str],
    is_over: Callable[[], bool] = lambda: False,
) -> bytes | None:
    """Starts an agent for ``node_id`` and follows it: until the cluster has formed, or with
    ``plan.stay`` until the node has ended: then returns what its program has returned.

    ``watch_pid`` is the process the node must not outlive (-1: the executor JVM above this
    process). Raises :class:`tfos.errors.TfosError` when the node failed before the cluster had
    formed, as the coordinator may not know of it. A later failure is not raised: the coordinator
    has it from the agent. Where another attempt has the node, it waits for Spark to end this one.
    With ``plan.stay`` a node that may come again when it is lost is started again here, as long as
    the coordinator takes it, and until ``is_over``. Else the driver has that done in a job of its
    own.
    """
    parent = os.getppid()

    def goes_on() -> bool:
        # The executor of a task whose parent has ended, ends too.
        return not is_over() and (watch_pid != -1 or os.getppid() == parent)

    result, is_lost = _launch_once(
        plan, node_id, executor_id=executor_id, watch_pid=watch_pid, gpus=gpus
    )
    tries, until = 0, 0.0
    while is_lost and plan.stay and goes_on():
        try:
            result, is_lost = _launch_once(
                plan, node_id, executor_id=executor_id, watch_pid=watch_pid, gpus=gpus
            )
            tries = 0
        except TfosError as error:
            # Its host may be cut off for a while, or the GPUs of the lost one are not free yet.
            tries += 1
            if tries == 1:
                until = time.monotonic() + _RETRY_SECONDS
            if time.monotonic() >= until:
                logger.warning("a lost node is given up after %d attempts: %s", tries, error)
                return None
            pause = tries * _PAUSE_SECONDS
            logger.warning("a lost node is tried again in %g s: %s", pause, error)
            _pause(pause, goes_on)
    return result


def _pause(seconds: float, goes_on: Callable[[], bool]) -> None:
    """Waits, but no longer than it ``goes_on``."""
    until, never = time.monotonic() + seconds, threading.Event()
    while goes_on() and (left := until - time.monotonic()) > 0:
        never.wait(min(left, _LOOK_AT_PARENT_SECONDS))


def _launch_once(
    plan: LaunchPlan, node_id: int, *, executor_id: str, watch_pid: int, gpus: list[str]
) -> tuple[bytes | None, bool]:
    """What the program has returned, and whether the node was lost where the others may go on."""
    with program_result.open_file() if plan.stay else contextlib.nullcontext() as result_file:
        result_fd = None if result_file is None else result_file.fileno()
        bootstrap = _bootstrap(plan, node_id, executor_id, watch_pid, gpus, result_fd)
        told = _follow_agent(plan, node_id, bootstrap, result_fd)
        result = None if result_file is None else program_result.read(result_file)
    if told.detached:
        return None, False
    failure = told.failure
    refused = not told.formed and failure is not None and failure["step"] == "register"
    returns = node_id < plan.returning_nodes
    may_come_again = returns or plan.node["late"]
    if refused and (returns or plan.node["elastic"]):
        # A copy that stood by may come in place of the one that had the node.
        return None, told.stands_by and may_come_again
    lost = (
        failure is None
        or failure.get("lost", False)
        # The coordinator has not heard of it for too long.
        or failure["step"] == "follow the coordinator"
    )
    if told.formed and not told.done and lost and may_come_again:
        return None, True
    if told.stands_by and not refused:
        _wait_for_the_end_of_this_attempt()
    if not told.formed:
        why = (
            f"{failure['step']}: {failure['message']}"
            if failure
            else (
                "its supervisor (the process `tfos agent`) ended before it said why; the "
                "executor's log has its last lines, and `tfos doctor` on that host finds what is "
                "missing there"
            )
        )
        raise TfosError(f"node {node_id} on {socket.gethostname()} did not start: {why}")
    return result, False


@dataclass
class _Told:
    """What an agent has told its launch task."""

    formed: bool = False
    #: The task has left it, as planned.
    detached: bool = False
    done: bool = False
    stands_by: bool = False
    failure: dict[str, Any] | None = None


def _follow_agent(plan: LaunchPlan, node_id: int, bootstrap: str, result_fd: int | None) -> _Told:
    """Starts the agent and listens to it until it has ended, or may be left."""
    process, to_agent, from_agent = child.start(
        [executable.path(), "agent"],
        keep_fds=() if result_fd is None else (result_fd,),
        environment=_environment(),
    )
    with from_agent, contextlib.ExitStack() as closing:
        # A pipe that broke keeps what it could not take, and would raise again here.
        closing.callback(child.end_input, to_agent)
        try:
            to_agent.write(bootstrap.encode() + b"\n" + _payload(plan, node_id))
            to_agent.flush()
        except BrokenPipeError as error:
            raise TfosError(
                f"node {node_id} on {socket.gethostname()} did not start: "
                f"{executable.path()} agent "
                f"ended at once with code {process.wait()}; run `tfos doctor` there"
            ) from error
        # What was started is only the agent's first half; the agent itself has left for a session
        # of its own, so that no zombie of it stays behind in a reused Spark worker.
        process.wait()
        told = _Told()
        for line in from_agent:
            if not line.endswith(b"\n"):
                break  # The agent was killed in the middle of it.
            message = json.loads(line)
            if message["type"] == "formed":
                told.formed = True
                if not plan.stay and _detach(to_agent):
                    told.detached = True
                    break
            elif message["type"] == "state":
                told.done = message["state"] == "done"
            elif message["type"] == "stand_by":
                told.stands_by = True
            elif message["type"] == "failed":
                told.failure = message["failure"]
    return told


def _detach(to_agent: IO[bytes]) -> bool:
    """Leaves the agent as planned. False if it has ended: then its last lines say why, and the
    coordinator knows of it, as the cluster had formed."""
    try:
        to_agent.write(b'{"type":"detach"}\n')
        to_agent.flush()
    except BrokenPipeError:
        return False
    return True


def _wait_for_the_end_of_this_attempt() -> None:
    """Spark started a copy of a task that runs, and kills it once that has ended. If the copy
    returned, Spark would kill the other attempt and its node. If it failed, Spark would count that
    and start another copy, until it gives the job up. If its executor ends, nobody kills it."""
    parent, never = os.getppid(), threading.Event()
    while os.getppid() == parent:
        never.wait(_LOOK_AT_PARENT_SECONDS)


def _bootstrap(
    plan: LaunchPlan,
    node_id: int,
    executor_id: str,
    watch_pid: int,
    gpus: list[str],
    result_fd: int | None,
) -> str:
    python = plan.python or sys.executable
    tensorboard = [
        python,
        "-P",  # In the working directory only where this process looks, as PYTHONPATH says.
        "-m",
        "tfos.node.tensorboard",
        "--port",
        "PORT",
        "--reuse_port",  # The agent holds it, so that nobody else can take it.
        "true",
        "--host",
        "127.0.0.1",  # It asks nobody for a key; the coordinator shows it.
        "--path_prefix",
        TENSORBOARD_PATH,
        "--logdir",
        plan.log_dir or os.getcwd(),
    ]
    native = node_id < plan.parameter_servers
    server = (executable.path(), "parameter-server")
    command = server if native else (python, "-P", "-m", "tfos.node")
    environment = _node_environment(plan.keep_omp_num_threads, plan.hadoop_environment)
    if result_fd is not None:
        environment[program_result.VARIABLE] = str(result_fd)
    as_bytes = control_message.as_bytes
    return control_message.encode(
        "bootstrap",
        protocol=PROTOCOL,
        cluster_id=plan.cluster_id,
        keys=plan.keys,
        encrypt=plan.encrypt,
        coordinator={"address": plan.coordinator_address, "port": plan.coordinator_port},
        node_id=node_id,
        executor_id=executor_id,
        watch_pid=watch_pid,
        python=[as_bytes(word) for word in command],
        cwd=as_bytes(os.getcwd()),
        environment=[as_bytes(f"{name}={value}") for name, value in environment.items()],
        advertised_address=plan.advertised_address,
        bind_address=plan.bind_address,
        ports=plan.ports,
        gpus=_gpu_request(plan, node_id, executor_id, gpus),
        log_level=plan.log_level,
        node=plan.node,
        result_fd=-1 if result_fd is None else result_fd,
        tensorboard=[as_bytes(word) for word in tensorboard],
        registration_timeout_ms=plan.registration_timeout_ms,
        heartbeat_interval_ms=plan.heartbeat_interval_ms,
        heartbeat_timeout_ms=plan.heartbeat_timeout_ms,
        answer_timeout_ms=plan.answer_timeout_ms,
        payload_bytes=len(_payload(plan, node_id)),
    )


def _payload(plan: LaunchPlan, node_id: int) -> bytes:
    """What the node is sent: a parameter server runs no program."""
    return b"" if node_id < plan.parameter_servers else plan.payload


def _gpu_request(
    plan: LaunchPlan, node_id: int, executor_id: str, assigned: list[str]
) -> dict[str, Any]:
    """What the agent is to get: Spark's GPUs first, nothing for nodes that only serve."""
    if node_id in plan.nodes_without_gpus:
        return {"assigned": [], "count": 0, "fraction": 0.0}
    count = plan.gpu_count or len(assigned) or int(plan.gpu_fraction > 0)
    if count == 0 and plan.gpu_count_if_any > 0 and gpu.visible_gpus():
        count = plan.gpu_count_if_any
    of_executor = []
    if assigned:
        # Spark may have assigned what another node has: its task ended when its cluster formed.
        of_executor = executor.gpus() or plan.gpus_of_executors.get(executor_id, [])
    return {
        "assigned": assigned,
        "count": count,
        "fraction": plan.gpu_fraction,
        "of_executor": of_executor,
        "may_share": not (plan.gpu_count or plan.gpu_count_if_any or plan.gpu_fraction),
    }


def _environment() -> dict[str, str]:
    """This process's, except that it sees the GPUs that the executor does."""
    environment = dict(os.environ)
    for name, value in gpu.variables_of_executor().items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return environment


def _node_environment(keep_omp_num_threads: bool, hadoop: dict[str, str]) -> dict[str, str]:
    environment = {k: v for k, v in _environment().items() if k not in _WORKER_ONLY}
    environment = hadoop_settings.without_adopted(without_spark_secrets(environment))
    environment.update(hadoop)
    # The program may want handlers of signals that Java, once a path of Hadoop's is used, needs.
    preloaded = [environment.get("LD_PRELOAD", ""), hadoop_settings.signal_chain(environment)]
    if any(preloaded):
        environment["LD_PRELOAD"] = ":".join(filter(None, preloaded))
    if not keep_omp_num_threads:
        # Spark chose it for NumPy. It would starve TensorFlow.
        environment.pop("OMP_NUM_THREADS", None)
    environment["PYTHONPATH"] = executor.python_path()
    environment["PYTHONUNBUFFERED"] = "1"
    for name, value in NODE_MALLOC.items():
        environment.setdefault(name, value)
    return environment
