"""The driver's part: which run it is, and what all nodes report."""

from __future__ import annotations

import functools
import os
import pathlib
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from tfos.errors import BadInputError
from tfos.mlflow.chief import run_program
from tfos.mlflow.nodes import NodeMeter
from tfos.mlflow.tracking import HOW_TO_INSTALL, Target, Tracking
from tfos.mlflow.writer import Writer, log_metrics

#: What nodes get from the driver without being asked: none of them is a secret.
_OPEN = (
    "DO_NOT_TRACK",
    "MLFLOW_ALLOW_FILE_STORE",
    "MLFLOW_DISABLE_TELEMETRY",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES",
    "MLFLOW_HTTP_REQUEST_TIMEOUT",
    "MLFLOW_TRACKING_INSECURE_TLS",
)
_SQLITE = "sqlite:///"
_FILE = "file:"


class TrackedRun:
    """The run of MLflow that a cluster is in. The driver program begins and ends it.

    Owner and lifetime: made before the cluster, which ends it with ``finish``. Threads: any, and
    one of its own. Errors: of a server that can't be reached none, see :class:`Writer`.
    """

    def __init__(self, target: Target, interval: float):
        self._target = target
        self._interval = interval
        self._ended = threading.Event()
        self._writer: Writer | None = None

    def on_nodes(self, main: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The program, in nodes that know the run."""
        return functools.partial(run_program, main, self._target)

    def follow(self, nodes: Callable[[], list[dict[str, Any]]]) -> None:
        """Writes what the nodes report from now on. ``nodes``: see ``Coordinator.nodes``."""
        self._nodes = nodes
        self._meter = NodeMeter()
        self._writer = Writer(self._target, "the driver")
        self._follower = threading.Thread(
            target=self._follow, args=(self._writer,), name="tfos-mlflow-nodes", daemon=True
        )
        self._follower.start()

    def finish(self) -> None:
        """The cluster has ended. Returns when all is written, or can't be. The second call does
        nothing."""
        if self._writer is None or self._ended.is_set():
            return
        self._ended.set()
        self._follower.join()
        self._writer.close()

    def _follow(self, writer: Writer) -> None:
        """Body of the thread. The last look is the one at the end."""
        ended = False
        while not ended:
            ended = self._ended.wait(self._interval)
            if points := self._meter.look(self._nodes()):
                moment = time.time_ns() // 1_000_000
                writer.submit(functools.partial(log_metrics, self._target.run_id, moment, points))


def begin(asked: Any) -> TrackedRun | None:
    """What ``tfos.run(mlflow=...)`` asks for. Raises :class:`BadInputError` where MLflow is not
    installed, where no run is active, and for variables that the driver hasn't."""
    if asked is None or asked is False:
        return None
    if asked is not True and not isinstance(asked, Tracking):
        raise BadInputError(f"mlflow={asked!r}: True, or a tfos.mlflow.Tracking")
    tracking = Tracking() if asked is True else asked
    try:
        import mlflow
    except ImportError as error:
        raise BadInputError(
            f"mlflow={asked!r}: MLflow can't be imported ({error}). Install it here and for the "
            f"Python of the executors: {HOW_TO_INSTALL}"
        ) from error
    run = mlflow.active_run()
    if run is None:
        raise BadInputError(
            f"mlflow={asked!r}: no run of MLflow is active in this thread. Call tfos.run within "
            "`with mlflow.start_run():`"
        )
    missing = [name for name in tracking.environment if name not in os.environ]
    if missing:
        raise BadInputError(
            f"environment: the driver has no variable {missing[0]!r}. Set it, or leave it out"
        )
    asked_for = {name: os.environ[name] for name in tracking.environment}
    target = Target(
        uri=_for_other_processes(mlflow.get_tracking_uri()),
        run_id=run.info.run_id,
        experiment_id=run.info.experiment_id,
        log_model=tracking.log_model,
        environment={name: os.environ[name] for name in _OPEN if name in os.environ} | asked_for,
        secrets=tuple(asked_for.values()),
    )
    return TrackedRun(target, tracking.interval)


def _for_other_processes(uri: str) -> str:
    """Without what depends on the driver's directory."""
    if uri.startswith(_SQLITE):
        return _SQLITE + os.path.abspath(uri.removeprefix(_SQLITE))
    if uri.startswith(_FILE) and not uri.startswith(f"{_FILE}/"):
        path = urllib.parse.unquote(uri.removeprefix(_FILE))
        return pathlib.Path(path).absolute().as_uri()
    if ":" not in uri and uri != "databricks":
        return pathlib.Path(uri).absolute().as_uri()
    return uri
