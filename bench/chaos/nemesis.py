"""Injects failures into a running cluster: processes are killed, or stand still for a while."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import signal
import threading
import time

import psutil

#: Seconds without an answer after which a node that stands still is lost.
ANSWER_TIMEOUT = 5
_POLL_SECONDS = 0.02

#: What may fail: the process, and for how many seconds it stands still; None if it is killed.
FAILURES = {
    "kill of the node": ("node", None),
    "kill of the agent": ("agent", None),
    "kill of the executor": ("executor", None),
    "kill of the coordinator": ("coordinator", None),
    "kill of a Python worker": ("python worker", None),
    "short stop of the node": ("node", 1.5),
    "short stop of the agent": ("agent", 1.5),
    "short stop of the executor": ("executor", 1.5),
    "long stop of the node": ("node", 3.0 * ANSWER_TIMEOUT),
}
#: Those after which the node may be gone.
LOSSES = {
    "kill of the node",
    "kill of the agent",
    "kill of the executor",
    "long stop of the node",
}
#: Those that no cluster survives.
DEADLY = {"kill of the coordinator"}


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
    by it: those beside an executor are, with it."""

    failure: Failure
    names: list[str]
    lost: list[int]


class Nemesis:
    """A thread that injects ``failures``, in order, while a cluster runs.

    Owner and lifetime: a context manager; at its end all processes run again, and what was not
    injected is not injected any more. ``done`` has what was injected.
    """

    def __init__(self, cluster, failures: list[Failure], directory: str):
        self.done: list[Injected] = []
        self._cluster = cluster
        self._failures = failures
        self._directory = pathlib.Path(directory)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Nemesis:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
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
        role, seconds = FAILURES[failure.what]
        nodes = self._cluster.status()
        status = next(node for node in nodes if node.node_id == failure.node)
        process = _process_of(role, status)
        if process is None or self._ended.is_set():
            return
        beside = [node for node in nodes if node.executor_id == status.executor_id]
        hit = beside if role == "executor" else [status]
        names = [str(process.pid), *([role] if role in ("coordinator", "executor") else [])]
        for node in hit:
            names += [node.name, str(node.pid), str(node.agent_pid)]
        lost = [node.node_id for node in hit] if failure.what in LOSSES else []
        self.done.append(Injected(failure, names, lost))
        if seconds is None:
            process.kill()
            return
        process.send_signal(signal.SIGSTOP)
        try:
            self._ended.wait(seconds)
        finally:
            # Its agent may have ended it meanwhile.
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


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
