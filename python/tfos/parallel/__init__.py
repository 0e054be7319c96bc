"""Independent instances of a program, one in each Spark task.

Unlike the nodes of a cluster they don't know each other and are fed nothing: a parameter search, or
inference over files that each instance picks for itself.

They reach HDFS as nodes do, with the session's settings.

They run in the Spark task's own process. One that has GPUs runs in a fresh process that ends with
it, so that its GPUs are free then; accumulators of Spark don't count there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import cloudpickle

from tfos.base import gpu
from tfos.base.programs import program_pickle
from tfos.base.quantities import whole_number
from tfos.errors import BadInputError, TfosError
from tfos.files import hadoop_settings, paths
from tfos.parallel import hadoop, process
from tfos.parallel.outcome import outcome_of
from tfos.settings import Settings
from tfos.spark import allocation, executor, failures, slots
from tfos.spark.sessions import spark_context_of

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Instance:
    """What one instance knows about itself.

    ``hosts`` are the hosts of all instances by index when they run in a barrier stage, else empty.
    ``gpus`` are the indices that CUDA_VISIBLE_DEVICES was set to.
    """

    index: int
    count: int
    gpus: tuple[str, ...]
    default_fs: str
    working_dir: str
    hosts: tuple[str, ...] = ()


def run(
    spark: Any,
    main: Callable[[Instance], Any],
    *,
    instances: int,
    gpu_count: int | None = None,
    barrier: bool = True,
) -> list[Any]:
    """Runs ``main(instance)`` in ``instances`` Spark tasks; returns what each returned, by index.

    In a barrier stage all run at the same time, and too few slots for that are an error before
    anything starts (BadInputError; ``spark.tfos.slots.timeout`` says how long executors may take to
    register, the first one ten minutes). With dynamic allocation Spark refuses barrier stages, so
    the call raises BadInputError. With ``barrier=False`` instances run as slots become free.

    GPUs are those that Spark assigned to the task, or others of its executor in place of those that
    nodes of a cluster have. If Spark manages none, each instance gets ``gpu_count`` of its
    host, by default one where there is one. It waits until as many are free; in a barrier stage for
    ``spark.tfos.slots.timeout`` at most (TfosError). If a host of a barrier stage has too few for
    all of its instances, they share them, and its log has a warning. Where Spark's tasks share a
    GPU (``spark.task.resource.gpu.amount`` below 1), so do instances, and nobody waits.

    A failing instance fails the call with its traceback (TfosError), after the retries that
    ``spark.task.maxFailures`` allows. ``spark`` is a SparkSession or SparkContext.
    """
    instances = whole_number("instances", instances)
    if instances < 1:
        raise BadInputError(f"{instances} instances were asked for: at least 1 is needed")
    spark_context = spark_context_of(spark)
    settings = Settings.resolve(spark_context.getConf().get, {})
    if barrier:
        if allocation.is_dynamic(spark_context):
            raise BadInputError(
                f"{instances} instances at the same time need a barrier stage, which Spark refuses "
                "with dynamic allocation: pass barrier=False, so that they run as slots become "
                "free, or set spark.dynamicAllocation.enabled=false"
            )
        slots.wait_for_slots(
            spark_context,
            instances,
            settings.slots_timeout,
            while_waiting=functools.cache(functools.partial(logger.warning, "%s")),  # Each once.
            what="instances",
        )
    task = _Task(
        main,
        instances,
        gpu_count,
        barrier,
        paths.default_fs(spark_context),
        settings.slots_timeout,
        float(spark_context.getConf().get("spark.task.resource.gpu.amount") or 1) < 1,
        hadoop_settings.environment(spark_context.getConf(), settings),
    )
    indices = spark_context.parallelize(range(instances), instances)
    stage = indices.barrier() if barrier else indices
    try:
        returned = stage.mapPartitionsWithIndex(executor.SameVersion(task)).collect()
    except Exception as error:
        explained = failures.explained(error)
        # Spark's own errors say more than the first of their lines.
        cause = None if isinstance(explained, TfosError) else error
        raise TfosError(f"an instance failed: {_remote_traceback(error, explained)}") from cause
    return [cloudpickle.loads(pickled) for pickled in returned]


def prepare_process(gpu_count: int, index: int = -1, hosts: Sequence[str] = ()) -> None:
    """Makes this process see ``gpu_count`` GPUs, or none on a host that has no GPU for it. Its
    TensorFlow reaches ``hdfs://``, as in nodes.

    The GPUs are those of its Spark task, if Spark has assigned some. Else ``hosts`` are those of
    all instances, of which this is number ``index``: instances on the same host get different GPUs.
    BadInputError says how many there are when they are fewer than ``gpu_count``.
    """
    hadoop.offer_to_tensorflow()
    indices = _gpus_of_task()
    if indices is None:
        count = gpu_count if gpu_count > 0 and gpu.visible_gpus() else 0
        indices = gpu.pick(count, _position_on_host(index, hosts))
    elif len(indices) < gpu_count:
        raise BadInputError(
            f"{gpu_count} GPU(s) were asked for and Spark assigned {len(indices)} to the task: "
            "raise spark.task.resource.gpu.amount"
        )
    os.environ.update(gpu.environment(indices[:gpu_count]))


class _Task:
    """What Spark runs for each partition; pickled to the executors."""

    def __init__(
        self,
        main: Callable[[Instance], Any],
        count: int,
        gpu_count: int | None,
        barrier: bool,
        default_fs: str,
        gpu_timeout: float,
        tasks_share_gpus: bool,
        hadoop_environment: dict[str, str],
    ):
        self._main = main
        self._count = count
        self._gpu_count = gpu_count
        self._barrier = barrier
        self._default_fs = default_fs
        self._gpu_timeout = gpu_timeout
        self._tasks_share_gpus = tasks_share_gpus
        self._hadoop_environment = hadoop_environment

    def __getstate__(self) -> dict[str, Any]:
        # Not before: Spark takes the broadcast variables that are pickled together with the task.
        return {**vars(self), "_main": program_pickle.dumps(self._main)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._program: bytes = state.pop("_main")
        vars(self).update(state)

    def __call__(self, index: int, rows: Iterable[int]) -> Iterator[bytes]:
        hosts = _barrier_hosts() if self._barrier else ()
        assigned = _assigned_gpus(self._tasks_share_gpus, self._gpu_timeout if hosts else math.inf)
        found = assigned or _gpus(self._gpu_count, index, hosts, self._gpu_timeout)
        with found as gpus:
            instance = Instance(
                index, self._count, tuple(gpus.indices), self._default_fs, os.getcwd(), tuple(hosts)
            )
            if gpus.indices:
                outcome = process.run(
                    self._program, instance, gpus.descriptors, self._hadoop_environment
                )
            else:
                hadoop.adopt(self._hadoop_environment)
                with _no_gpus():
                    outcome = outcome_of(self._program, instance)
        if outcome.failure:
            raise TfosError(
                f"instance {index} on {socket.gethostname()}:\n"
                f"{failures.MARK}\n{outcome.failure}{failures.MARK}"
            )
        yield outcome.pickled


def _remote_traceback(error: Exception, explained: Exception) -> str:
    text = str(error)
    before, mark, rest = text.partition(failures.MARK)
    if not mark:
        return str(explained)
    where = before.rstrip().rpartition("instance ")[2]
    return f"instance {where}\n{rest.partition(failures.MARK)[0].strip()}"


def _barrier_hosts() -> list[str]:
    from pyspark import BarrierTaskContext

    return [info.address.rpartition(":")[0] for info in BarrierTaskContext.get().getTaskInfos()]


def _assigned_gpus(
    tasks_share: bool, timeout: float
) -> contextlib.AbstractContextManager[gpu.Leased] | None:
    """Those that Spark gave to this task, or as many others of its executor where nodes have them.
    None where Spark manages no GPUs."""
    assigned = _gpus_of_task()
    if assigned is None:
        return None
    if tasks_share:
        return contextlib.nullcontext(gpu.Leased(assigned))
    return gpu.leased(
        len(assigned), timeout=timeout, assigned=assigned, of_executor=executor.gpus()
    )


def _gpus_of_task() -> list[str] | None:
    """What Spark assigned to the task that this process runs; None outside of tasks, and where it
    manages no GPUs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    resource = None if context is None else context.resources().get("gpu")
    return None if resource is None else list(resource.addresses)


@contextlib.contextmanager
def _gpus(
    wanted: int | None, index: int, hosts: Sequence[str], timeout: float
) -> Iterator[gpu.Leased]:
    """GPUs of its host for one instance while it runs. ``hosts`` are those of all that run with it,
    and may wait for it: ``timeout`` seconds are then the most that it waits for GPUs."""
    if wanted is None:
        wanted = 1 if gpu.visible_gpus() else 0
    beside = hosts.count(hosts[index]) if hosts else 0
    if wanted * beside > (there := len(gpu.visible_gpus()) if wanted else 0):
        logger.warning(
            "%d instances run on this host at the same time, with %d GPU(s) each, and it has %d: "
            "they share these, and each library may take all memory of a GPU. Ask for fewer "
            "instances, or pass barrier=False",
            beside,
            wanted,
            there,
        )
        yield gpu.Leased(gpu.pick(wanted, _position_on_host(index, hosts)))
        return
    # Instances of a barrier stage wait for each other, and some of them may have their GPUs.
    with gpu.leased(wanted, timeout=timeout if hosts else math.inf) as leased:
        yield leased


def _position_on_host(index: int, hosts: Sequence[str]) -> int:
    """Which of its host's instances ``index`` is; without ``hosts`` the caller's index must
    tell."""
    return hosts[:index].count(hosts[index]) if 0 <= index < len(hosts) else index


@contextlib.contextmanager
def _no_gpus() -> Iterator[None]:
    """Hides all GPUs from one instance: Spark reuses the process for other tasks."""
    variables = gpu.environment(())
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)  # The program may have removed it.
        os.environ.update(before)
