"""Which executor a Spark task runs in, as its Python worker can tell, where Python finds modules
there, and whether that executor has the same tfos."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from tfos._version import __version__


def executor_id() -> str:
    """Spark's id of this task's executor, such as ``3``.

    Spark tells its Python workers no executor id, except on Kubernetes, in SPARK_EXECUTOR_ID.
    Elsewhere the command line of the JVM above the worker (and its daemon) has it. That of a local
    master has none: then it is ``process 1234``.
    """
    given = os.environ.get("SPARK_EXECUTOR_ID")
    if given:
        return given
    pid = executor_pid()
    return _option(Path(f"/proc/{pid}/cmdline").read_bytes(), b"--executor-id") or f"process {pid}"


def executor_pid() -> int:
    """The executor's JVM above this task's Python worker, on this host; its parent where there is
    none."""
    # Here, as `tfos doctor` must also run where the extension does not load.
    from tfos import _native

    parent = os.getppid()
    return _native.find_executor_jvm(parent) or parent


def gpus() -> list[str]:
    """Spark's names of all GPUs that it gave to this task's executor, as far as the executor's
    command line leads to them: that of a standalone Worker names a file. Else none."""
    command_line = Path(f"/proc/{executor_pid()}/cmdline").read_bytes()
    path = _option(command_line, b"--resourcesFile")
    if path is None or not os.path.exists(path):
        return []
    given = json.loads(Path(path).read_text())
    named = [each["addresses"] for each in given if each["id"]["resourceName"] == "gpu"]
    return list(itertools.chain(*named))


@contextlib.contextmanager
def outliving_the_daemon() -> Iterator[None]:
    """In the block, this worker stays where its executor is told to end, until that has ended.

    Such an executor first ends pyspark's daemon, which sends HUP to all workers: on YARN, when the
    container is preempted. Spark's own way to end one task is KILL.
    """
    before = signal.signal(signal.SIGHUP, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


class SameVersion:
    """A Spark task that executors unpickle only with the version of tfos that has pickled it: what
    it is made of may be missing in another one. There it fails with a
    :class:`tfos.errors.TfosError` that names both."""

    def __init__(self, task: Callable[..., Iterable[Any]]):
        self._task = task

    def __call__(self, *arguments: Any) -> Iterable[Any]:
        return self._task(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickler(), (__version__, cloudpickle.dumps(self._task))


def _unpickler() -> Callable[[str, bytes], Any]:
    """A function of its own, so that Spark pickles it whole: other versions may lack it."""

    def unpickle(version: str, pickled: bytes) -> Any:
        import pickle
        import socket
        import sys

        from tfos._version import __version__ as found
        from tfos.errors import TfosError

        if found != version:
            raise TfosError(
                f"{sys.executable} on {socket.gethostname()} has tfos {found}, and the driver has "
                f"tfos {version}: install the same version on all hosts (`tfos doctor --cluster "
                "MASTER` compares them)"
            )
        return pickle.loads(pickled)

    return unpickle


def python_path() -> str:
    """PYTHONPATH for a fresh interpreter (``-P``) that is to find what this one finds, and nothing
    else: in the working directory only where this one looks there. Entries of a worker's sys.path
    are relative to directories of Spark's."""
    return os.pathsep.join(dict.fromkeys(map(os.path.abspath, sys.path)))


def _option(command_line: bytes, option: bytes) -> str | None:
    """What follows ``option`` in a command line whose words end with a zero byte."""
    words = command_line.split(b"\0")
    for name, value in itertools.pairwise(words):
        if name == option:
            return os.fsdecode(value)
    return None
