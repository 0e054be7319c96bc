"""Writing into a run without waiting for its server."""

from __future__ import annotations

import hashlib
import logging
import posixpath
import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tfos.mlflow.tracking import Target

logger = logging.getLogger(__name__)

#: That wait for a server; more are lost.
_MOST_WAITING = 1000
#: That MLflow takes at once.
_MOST_METRICS = 1000
#: For the last ones to be written, at the end.
_CLOSE_SECONDS = 30.0

#: What it does not take in the name of a metric, and how many characters it takes.
_MOST_CHARACTERS = 250
_NOT_OF_NAMES = re.compile(r"[^\w\-. :/]")

_told_elsewhere = threading.local()


class _NotTold(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_told_elsewhere, "here", False)


_NOT_TOLD = _NotTold()


@contextmanager
def without_retries_told() -> Iterator[None]:
    """The client of MLflow would warn of each request that it repeats, in this thread."""
    logging.getLogger("urllib3.connectionpool").addFilter(_NOT_TOLD)
    _told_elsewhere.here = True
    try:
        yield
    finally:
        _told_elsewhere.here = False


class Point(NamedTuple):
    """A point of a curve."""

    name: str
    value: float
    step: int


def name_for_mlflow(metric: str, above: str = "") -> str:
    """``recall_5`` for ``recall@5``: a metric of a program may have any name, and MLflow refuses
    all points that come with one that it does not take. ``above``: what the name begins with."""
    cleaned = posixpath.normpath(_NOT_OF_NAMES.sub("_", metric)).lstrip("/.")
    name = above + (cleaned or "_")
    if len(name) <= _MOST_CHARACTERS:
        return name
    # Two long ones stay apart.
    digest = hashlib.sha256(metric.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{name[: _MOST_CHARACTERS - 1 - len(digest)]}_{digest}"


def log_metrics(run_id: str, moment: int, points: list[Point], client: Any) -> None:
    """Writes the points of one ``moment``, in milliseconds since 1970."""
    from mlflow.entities import Metric

    metrics = [Metric(point.name, point.value, moment, point.step) for point in points]
    for first in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[first : first + _MOST_METRICS])


class Writer:
    """Hands writes to a thread of its own, which does one after the other.

    Owner and lifetime: the driver's cluster, or the chief's program; ``close`` ends it. Threads:
    any. Errors: none. A write that fails is lost: the first one is a warning, which names the
    writer, the server and the reason, and the next ones are tried as if nothing had happened.
    """

    def __init__(self, target: Target, who: str):
        """``who`` writes, for people: ``chief:0 on host a``."""
        self._target = target
        self._who = who
        self._waiting: queue.SimpleQueue[Callable[[Any], None] | None] = queue.SimpleQueue()
        self._complained = False
        self._closing = False
        self._lock = threading.Lock()  # of `_complained`
        self._thread = threading.Thread(target=self._write, name="tfos-mlflow", daemon=True)
        self._thread.start()

    def submit(self, write: Callable[[Any], None]) -> None:
        """Has ``write(client)`` called, with a client of MLflow."""
        if self._waiting.qsize() >= _MOST_WAITING:
            self.complain(TimeoutError(f"{_MOST_WAITING} writes wait already"))
            return
        self._waiting.put(write)

    def complain(self, error: BaseException, lost: str = "") -> None:
        """Warns, once. ``lost``: what is not in the run because of it; that is worth a warning each
        time."""
        with self._lock:
            complained, self._complained = self._complained, True
        if lost or not complained:
            logger.warning(
                "%s can't write %s into run %s of MLflow at %s: %s. The training goes on",
                self._who,
                lost or "its metrics",
                self._target.run_id,
                self._target.place,
                self._target.readable(error),
            )

    def close(self, timeout: float = _CLOSE_SECONDS) -> None:
        """Returns when all is written, or can't be. May be called twice."""
        self._closing = True
        self._waiting.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.complain(TimeoutError(f"no answer for {timeout:g} s"))

    def _write(self) -> None:
        """Body of the thread."""
        client = None
        gone = False
        while (write := self._waiting.get()) is not None:
            if gone and self._closing:
                continue  # Each would wait for the same server.
            try:
                with without_retries_told():
                    if client is None:
                        import mlflow

                        client = mlflow.MlflowClient(tracking_uri=self._target.uri)
                    write(client)
            except Exception as error:  # Whatever it is, the training is worth more.
                gone = self._closing
                self.complain(error)
