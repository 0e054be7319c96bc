"""Injects failures into a running cluster: processes are killed, by Spark or by others, or something
fails for a while."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable

import by_spark
import psutil
import ways

from spark_cluster import Host
from support import namespaces

#: Seconds without an answer after which a node that stands still is lost.
ANSWER_TIMEOUT = 5
_SHORT, _LONG = 1.5, 3.0 * ANSWER_TIMEOUT
_POLL_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Way:
    """What fails, and how: a process by its role, the other ``host``, or the ``disk`` of executors,
    or what Spark is to kill: an ``executor of Spark``, or a ``task`` there. ``during`` is one of
    :mod:`ways`, or None for a kill. ``loses``: nodes may be gone after it. ``seen``: a program may
    see it, and fail."""

    target: str
    during: Callable | None = None
    seconds: float = 0
    loses: bool = False
    seen: bool = False


#: By group, so that a run may choose.
GROUPS = {
    "processes": {
        "kill of the node": Way("node", loses=True),
        "kill of the agent": Way("agent", loses=True),
        "kill of the executor": Way("executor", loses=True),
        "kill of the coordinator": Way("coordinator"),
        "kill of a Python worker": Way("python worker"),
        "short stop of the node": Way("node", ways.stopped, _SHORT),
        "short stop of the agent": Way("agent", ways.stopped, _SHORT),
        "short stop of the executor": Way("executor", ways.stopped, _SHORT),
        "long stop of the node": Way("node", ways.stopped, _LONG, loses=True),
    },
    "network": {
        "short cut of the other host": Way("host", namespaces.cut_off, _SHORT),
        "long cut of the other host": Way("host", namespaces.cut_off, _LONG, loses=True),
        "short silence towards the other host": Way("host", namespaces.unheard_by, _SHORT),
        "long silence towards the other host": Way(
            "host", namespaces.unheard_by, _LONG, loses=True
        ),
    },
    "resources": {
        "full disk of the executors": Way("disk", ways.full_disk, _SHORT),
        "no descriptor for the node": Way("node", ways.without_descriptors, _SHORT, seen=True),
        "no descriptor for the agent": Way("agent", ways.without_descriptors, _SHORT),
        "no descriptor for the coordinator": Way("coordinator", ways.without_descriptors, _SHORT),
        "no memory for the node": Way("node", ways.without_memory, _SHORT, loses=True, seen=True),
    },
    "spark": {
        "Spark's kill of the executor": Way("executor of Spark", loses=True),
        "Spark's kill of a task": Way("task", loses=True),
    },
}
FAILURES = {what: way for group in GROUPS.values() for what, way in group.items()}
#: Those that no cluster survives.
DEADLY = {"kill of the coordinator"}


@dataclasses.dataclass(frozen=True)
class Site:
    """Where the cluster of Spark is: the ``host`` that is not ours, and the ``disk`` of logs and of
    executors' files."""

    host: Host
    disk: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Failure:
    """``what`` of FAILURES, which befalls node ``node`` when so many rows were read."""

    what: str
    node: int
    rows: int

    def __str__(self) -> str:
        return f"{self.what} {self.node} at {self.rows} rows"


@dataclasses.dataclass(frozen=True)
class Injected:
    """``names``: by which of these words an error may name it. ``lost``: the nodes that may be lost
    by it: those beside an executor are, with it, and all of a host."""

    failure: Failure
    names: list[str]
    lost: list[int]


class Nemesis:
    """A thread that injects ``failures``, in order, while a cluster runs on ``site``.

    Owner and lifetime: a context manager; at its end all processes run again, and what was not
    injected is not injected any more. ``done`` has what was injected, and ``error`` why the thread
    itself has failed.
    """

    def __init__(self, cluster, failures: list[Failure], directory: str, site: Site):
        self.done: list[Injected] = []
        self.error: Exception | None = None
        self._cluster = cluster
        self._failures = failures
        self._directory = pathlib.Path(directory)
        self._site = site
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Nemesis:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._inject_all()
        except Exception as error:
            self.error = error

    def _inject_all(self) -> None:
        for failure in self._failures:
            while self._rows() < failure.rows:
                if self._ended.wait(_POLL_SECONDS):
                    return
            with contextlib.suppress(psutil.NoSuchProcess):
                self._inject(failure)

    def _rows(self) -> int:
        return sum(
            len(line.split())
            for path in self._directory.glob("node-*")
            for line in path.read_text().splitlines()
            if not line.startswith("epoch")
        )

    def _inject(self, failure: Failure) -> None:
        way = FAILURES[failure.what]
        nodes = self._cluster.status()
        status = next(node for node in nodes if node.node_id == failure.node)
        target, hit, names = self._targets(way, status, nodes)
        if target is None or self._ended.is_set():
            return
        for node in hit:
            names += [node.name, str(node.pid), str(node.agent_pid)]
        lost = [node.node_id for node in hit] if way.loses else []
        self.done.append(Injected(failure, names, lost))
        if way.during is None:
            target.kill()
            return
        with way.during(target):
            self._ended.wait(way.seconds)

    def _targets(self, way: Way, status, nodes) -> tuple:
        """What is to fail, or None if it is not there, the nodes that this concerns, and names."""
        if way.target == "host":
            host = self._site.host
            return host, [node for node in nodes if node.address == host.address], [host.address]
        if way.target == "disk":
            return self._site.disk, nodes, ["No space left"]
        beside = [node for node in nodes if node.executor_id == status.executor_id]
        if way.target == "executor of Spark":
            executor = by_spark.Executor(self._cluster.spark_context, status.executor_id)
            return executor, beside, ["executor"]
        if way.target == "task":
            task = by_spark.running_task(self._cluster.spark_context, status.executor_id)
            return task, beside, []
        process = _process_of(way.target, status)
        if process is None:
            return None, [], []
        names = [str(process.pid), *([way.target] if way.target in _SAID_BY_ROLE else [])]
        return process, beside if way.target in _OF_EXECUTORS else [status], names


#: What errors may name by its role alone.
_SAID_BY_ROLE = ("coordinator", "executor")
#: What concerns all nodes beside an executor.
_OF_EXECUTORS = ("executor", "python worker")


def _process_of(role, status) -> psutil.Process | None:
    """None where there is none now."""
    if role in ("node", "agent"):
        pid = status.pid if role == "node" else status.agent_pid
        return psutil.Process(pid) if pid and status.state == "running" else None
    if role == "coordinator":
        return next((p for p in psutil.Process().children() if "coordinator" in p.cmdline()), None)
    executor = next(
        (p for p in executors() if _word_after(p, "--executor-id") == status.executor_id), None
    )
    if role == "executor" or executor is None:
        return executor
    return next(
        (
            p
            for p in executor.children(recursive=True)
            if "pyspark.daemon" in p.cmdline() and p.ppid() != executor.pid
        ),
        None,
    )


def executors() -> list[psutil.Process]:
    """The executors of Workers that this process has started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                found.append(process)
    return found


def _word_after(process, option) -> str | None:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, ValueError, IndexError):
        words = process.cmdline()
        return words[words.index(option) + 1]
    return None


def wait_until(condition, seconds: float) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
