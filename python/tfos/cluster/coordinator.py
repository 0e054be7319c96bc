"""The driver's side of the coordinator (docs/formats/control-protocol.md)."""

from __future__ import annotations

import _thread
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from tfos.base import control_message
from tfos.base.printable import printable
from tfos.cluster.coordinator_process import CoordinatorProcess
from tfos.cluster.losses import ExecutorLosses
from tfos.errors import ClusterStoppedError, FeedError, NodeFailedError, NodeLostError
from tfos.spark.failures import explained

logger = logging.getLogger(__name__)

_FAILED_LINGER_SECONDS = 30.0

FINAL_STATES = frozenset({"done", "failed", "lost", "stopped"})


#: A failure is raised as it is if Spark has not said more by then.
_EXPLAIN_SECONDS = 10.0
#: The cluster that somebody stops has ended by then, or its driver hears of it elsewhere.
_STOP_SECONDS = 120.0
#: Is said to stop the cluster where ``Cluster.stop`` does.
_PROGRAM = "the driver program"


def _without_doing(progress: dict[str, Any]) -> dict[str, Any]:
    """What nodes do comes with their next metrics. Beside newer words of a node, it would say that
    the node does two things."""
    doing = progress.get("nodes") or ""
    if not doing:
        return progress
    part = rf"(^|, ){re.escape(doing)}(?=, |$)"
    text = re.sub(part, "", progress.get("text") or "", count=1).removeprefix(", ")
    return progress | {"nodes": "", "text": text}


def _how_to_stop(by: str) -> str:
    return "cluster.stop()" if by == _PROGRAM else "tfos stop"


def node_name(node: Mapping[str, Any]) -> str:
    """How messages call a node: ``worker:1 (node 2 on host-a)``."""
    return (
        f"{node['job_name']}:{node['task_index']} (node {node['node_id']} on {node['host'] or '?'})"
    )


class Channel(Protocol):
    """The way to a coordinator: a :class:`CoordinatorProcess` of this host, or with Spark Connect
    :class:`tfos.cluster.connect.RemoteCoordinator`. Their methods are described there."""

    @property
    def pid(self) -> int: ...

    @property
    def name(self) -> str: ...

    def listen(self, start: dict[str, Any]) -> dict[str, Any]: ...

    def send(self, line: str) -> None: ...

    def lines(self) -> Iterator[str | bytes]: ...

    def kill(self) -> None: ...

    def how_it_ended(self) -> str: ...

    def await_end(self, timeout: float) -> None: ...

    def close(self) -> None: ...


class Coordinator:
    """A running ``tfos coordinator`` and the last it said about the cluster.

    Owner and lifetime: the driver's :class:`tfos.Cluster`; ``close`` ends the process. When the
    driver dies instead, the process stops every node and exits.
    Threads: one reader thread updates the state; all methods may be called from any thread.
    Errors: after the first failure of the cluster, ``wait`` raises it as
    :class:`tfos.errors.NodeFailedError`, and once somebody has stopped it with ``tfos stop`` or
    ``Cluster.stop`` :class:`tfos.errors.ClusterStoppedError`.
    """

    def __init__(
        self,
        start: dict[str, Any],
        on_failure: Callable[[], None],
        channel: Callable[[], Channel] = CoordinatorProcess,
        on_stop: Callable[[str, float], None] = lambda reason, timeout: None,
        losses: ExecutorLosses | None = None,
    ):
        """Starts it through the ``channel`` and waits until it listens. ``on_failure`` is called
        once, from the reader thread, at the first failure. ``on_stop`` is called once, from a
        thread of its own, when somebody asks for the cluster's end: with a sentence that says so,
        and the seconds in which programs may return. It returns when the cluster has ended.
        ``losses`` knows more of executors that are lost."""
        self._changed = threading.Condition()
        self._on_failure = on_failure
        self._on_stop = on_stop
        self._stop_asked = False
        self._stopped = ""  # what is raised from then on
        #: Is called in the reader thread, when metrics have come.
        self.on_metrics: Callable[[], None] = lambda: None
        #: Is called in a thread of its own, before a coordinator ends that nobody has closed.
        self.before_end: Callable[[], None] = lambda: None
        self._may_lose_nodes = any(
            start.get(name, 0) > 0 for name in ("max_lost_nodes", "min_nodes", "returning_nodes")
        )
        self._nodes: dict[int, dict[str, Any]] = {}
        self._metrics: dict[int, dict[str, Any]] = {}
        self._rates: dict[str, dict[str, float]] = {}
        #: The last of each process that a node had before, in whose place another came.
        self._metrics_before: dict[int, list[dict[str, Any]]] = {}
        self._terminated: set[int] = set()
        self._turned_away: set[int] = set()
        self._failure: dict[str, Any] | None = None
        self._losses = losses
        #: Whether the failure is raised later, with more words.
        self._explaining = False
        self._waits = ""
        self._drained = 0
        self._begun = 0
        self._progress: dict[str, Any] = {}
        self._formed = False
        self._finished = False
        self._ended = False
        self._closing = False
        self._channel = channel()
        first = self._channel.listen(start)
        self.address: str = first["address"]
        self.port: int = first["port"]
        #: Spark's id of the executor that it runs beside; None on the driver's host.
        self.executor_id: str | None = first.get("executor")
        self._reader = threading.Thread(
            target=self._read_events, name="tfos-coordinator-events", daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        """The id of its process, on the host that it runs on."""
        return self._channel.pid

    @property
    def formed(self) -> bool:
        """Whether the cluster has formed: with ``late_nodes`` some nodes may come later."""
        with self._changed:
            return self._formed

    @property
    def finished(self) -> bool:
        """Whether every node is done, failed, lost or stopped."""
        with self._changed:
            return self._finished

    @property
    def failure(self) -> dict[str, Any] | None:
        with self._changed:
            return self._failure

    def nodes(self) -> list[dict[str, Any]]:
        """A copy of what is known of every node, with its latest ``metrics``, its ``rates``, and in
        ``metrics_before`` the last ones of each that was lost and that it came in place of."""
        with self._changed:
            return [
                {
                    **node,
                    "metrics": dict(self._metrics.get(node_id, {})),
                    "rates": dict(self._rates.get(str(node_id), {})),
                    "metrics_before": list(self._metrics_before.get(node_id, [])),
                }
                for node_id, node in sorted(self._nodes.items())
            ]

    @property
    def waits(self) -> str:
        """Which nodes that train wait for others, for people; empty if none does."""
        with self._changed:
            return self._waits

    @property
    def drained(self) -> int:
        """The number of the last question ``ask_drained`` that was answered; 0: none."""
        with self._changed:
            return self._drained

    @property
    def begun(self) -> int:
        """The number of the last ``begin_epoch`` that was answered; 0: none."""
        with self._changed:
            return self._begun

    @property
    def progress(self) -> dict[str, Any]:
        """The PROGRESS of docs/formats/control-protocol.md; empty before the first."""
        with self._changed:
            return self._progress

    def terminated_nodes(self) -> set[int]:
        """Nodes that asked for no more rows."""
        with self._changed:
            return set(self._terminated)

    def turned_away_nodes(self) -> set[int]:
        """Nodes that did not come again, or late, as they came to a host that is avoided."""
        with self._changed:
            return set(self._turned_away)

    def send(self, message_type: str, **fields: Any) -> None:
        """Sends one message. A coordinator that is gone is not an error here: the reader thread
        reports it."""
        self._channel.send(control_message.encode(message_type, **fields))

    def fail(self, step: str, message: str, traceback: str = "") -> None:
        """Makes a failure that the driver saw the cluster's failure."""
        self.send("fail", node=-1, step=step, message=message, traceback=traceback)

    def ask_to_stop(self, timeout: float) -> None:
        """Asks for the cluster's end, as ``tfos stop`` does, and returns at once; ``timeout``: as
        for ``on_stop``. A signal handler may call it, which may have interrupted a holder of any
        lock, ``send``'s and those of :class:`threading.Thread` too. So it waits for none."""
        fields = {"by": _PROGRAM, "timeout_ms": round(timeout * 1000)}
        _thread.start_new_thread(self.send, ("stop_asked",), fields)

    def wait(
        self,
        condition: Callable[[], bool],
        timeout: float | None,
        *,
        while_waiting: Callable[[], None] | None = None,
        interval: float = 1.0,
    ) -> bool:
        """Waits until ``condition()`` holds; False after ``timeout`` seconds (None: no limit).

        The condition is evaluated at every event. Raises the cluster's failure as soon as there
        is one. ``while_waiting`` is called about every ``interval`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                self.raise_failure()
                # While somebody stops the cluster, all waits are for its end.
                if not self._stop_asked and condition():
                    return True
                left = interval if deadline is None else min(interval, deadline - time.monotonic())
                if left <= 0:
                    return False
                self._changed.wait(left)
            if while_waiting is not None:
                while_waiting()

    def wait_quietly(self, condition: Callable[[], bool], timeout: float) -> bool:
        """As ``wait``, for the end of a cluster: neither a failure nor the process's own
        end is an error."""
        with self._changed:
            return self._changed.wait_for(lambda: condition() or self._ended, timeout)

    def notify(self) -> None:
        """Wakes every ``wait``, so that conditions which don't come from events are looked at."""
        with self._changed:
            self._changed.notify_all()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody has stopped the cluster."""
        with self._changed:
            return bool(self._stopped)

    def raise_failure(self) -> None:
        """Raises the cluster's first failure, if there is one, or that it was stopped."""
        with self._changed:
            if self._stopped:
                raise ClusterStoppedError(self._stopped)
            if self._failure is not None:
                self._changed.wait_for(lambda: not self._explaining, _EXPLAIN_SECONDS)
                raise NodeFailedError.from_message(self._failure)

    def failure_behind(self, error: BaseException) -> NodeFailedError | ClusterStoppedError | None:
        """The cluster's first failure, where an error of the driver's program is what came of it: a
        task of Spark's that infers knows only that no node answers, if nobody tells it why."""
        if not isinstance(error, Exception):
            return None
        if not isinstance(explained(error), (FeedError, NodeLostError)):
            return None
        with self._changed:
            self._changed.wait_for(lambda: not self._explaining, _EXPLAIN_SECONDS)
            # Nodes end before the cluster that somebody stops.
            self._changed.wait_for(
                lambda: not self._stop_asked or self._failure is not None, _STOP_SECONDS
            )
            failure, stopped = self._failure, self._stopped
        if stopped:
            return ClusterStoppedError(stopped)
        if failure is None:
            return None
        return NodeFailedError.from_message(failure)

    def close(self, timeout: float = 15.0) -> None:
        """Ends the process; after ``timeout`` seconds by force."""
        with self._changed:
            self._closing = True
        self.send("exit")
        self._channel.await_end(timeout)
        # It may be in a call to Spark that never comes back.
        self._reader.join(timeout)
        if self._reader.is_alive():
            logger.warning("the cancellation of Spark's jobs has not ended; it is left alone")
            return
        self._channel.close()

    def _read_events(self) -> None:
        """Body of the reader thread. However it ends, whoever waits for the cluster hears of it."""
        trouble = ""
        try:
            for line in self._channel.lines():
                self._take_event(line)
        except Exception as error:  # a thread's boundary: it becomes the cluster's failure
            logger.exception("an event of the coordinator could not be handled")
            trouble = f"sent an event that can't be handled ({type(error).__name__}: {error})"
            self._channel.kill()  # Its events are not read any more.
        finally:
            self._take_end(trouble)

    def _take_event(self, line: str | bytes) -> None:
        event = json.loads(line)
        with self._changed:
            failed_before = self._failure is not None
            self._apply(event)
            failed_now = self._failure is not None
            is_first = failed_now and not failed_before
            self._explaining = is_first and self._may_explain()
            self._changed.notify_all()
            is_over = failed_now and self._finished and not self._closing
        if is_first:
            try:
                self._on_failure()
            finally:
                self._explain()
        if event["type"] == "metrics":
            self.on_metrics()
        if event["type"] == "stop_asked":
            self._begin_to_stop(event)
        if is_over:
            self._end_later()

    def _may_explain(self) -> bool:
        losses, failure = self._losses, self._failure
        return losses is not None and failure is not None and losses.may_explain(failure)

    def _explain(self) -> None:
        """Adds what Spark says of it to the failure, which is raised then."""
        failure = self._failure
        if self._losses is not None and failure is not None:
            failure = self._losses.explained(failure)
        with self._changed:
            self._failure, self._explaining = failure, False
            self._changed.notify_all()

    def _begin_to_stop(self, event: dict[str, Any]) -> None:
        with self._changed:
            asked_before, self._stop_asked = self._stop_asked, True
        if not asked_before:
            arguments = (event["by"], event["timeout_ms"] / 1000)
            threading.Thread(
                target=self._stop, args=arguments, name="tfos-stop", daemon=True
            ).start()

    def _stop(self, by: str, timeout: float) -> None:
        """Body of the thread that stops the cluster. However that goes, all waits raise it then,
        unless the cluster has failed before."""
        message = f"{by} has stopped the cluster with `{_how_to_stop(by)}`"
        try:
            self._on_stop(message, timeout)
        finally:
            with self._changed:
                if self._failure is None:
                    self._stopped = message
                    self._failure = {"node_id": -1, "step": "run", "message": message}
                self._changed.notify_all()
                closing = self._closing
            if not closing:
                self._end_later()

    def _take_end(self, trouble: str) -> None:
        """No event comes any more: the process has ended, or sent something else (`trouble`)."""

        def is_unexpected() -> bool:
            return not self._closing and self._failure is None and not self._finished

        with self._changed:
            unexpected = is_unexpected()
        # That may take seconds, in which others look at the cluster.
        what = trouble or (self._channel.how_it_ended() if unexpected else "")
        with self._changed:
            unexpected = is_unexpected()
            if unexpected:
                self._failure = {
                    "node_id": -1,
                    "step": "coordinate the cluster",
                    "message": f"the coordinator ({self._channel.name}) "
                    f"{what}; all nodes stop with it. Start the cluster "
                    "again from the last checkpoint",
                }
            self._ended = True
            self._changed.notify_all()
        if unexpected:
            self._on_failure()

    def _end_later(self) -> None:
        """A failed cluster whose driver does not shut it down leaves no process behind. Not at
        once: tasks that lost their node still ask why."""
        timer = threading.Timer(_FAILED_LINGER_SECONDS, self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        try:
            self.before_end()
        finally:
            self.send("exit")

    def _apply(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "node":
                node = event["node"]
                before = self._nodes.get(node["node_id"], {})
                # One without a host has never come, and nothing was lost with it.
                newly_lost = node["state"] == "lost" != before.get("state") and node["host"]
                if newly_lost and self._may_lose_nodes:
                    logger.warning("%s is lost: %s", node_name(node), printable(node["detail"]))
                    if self._losses is not None:
                        self._losses.tell(node)
                self._note_another(node)
                if node["detail"] != before.get("detail"):
                    self._progress = _without_doing(self._progress)
                self._nodes[node["node_id"]] = node
            case "formed":
                self._nodes.update({node["node_id"]: node for node in event["nodes"]})
                self._formed = True
            case "failed":
                self._failure = self._failure or event["failure"]
            case "metrics":
                self._metrics.update({n["node_id"]: n["metrics"] for n in event["nodes"]})
                self._progress = event.get("progress") or {}
                self._rates = event.get("rates") or {}
            case "feed_terminated":
                self._terminated.add(event["node_id"])
            case "epoch_drained":
                self._drained = event["number"]
            case "epoch_begins":
                self._begun = event["number"]
            case "turned_away":
                self._turned_away.add(event["node_id"])
                name = node_name(self._nodes[event["node_id"]])
                logger.warning("%s was turned away: %s", name, printable(event["reason"]))
            case "waiting":
                self._waits = event["reason"]
            case "finished":
                self._finished = True
            case "stop_asked":
                by = event["by"]
                logger.warning("%s asks for the cluster's end with `%s`", by, _how_to_stop(by))
            case "fatal":
                self._failure = self._failure or {
                    "node_id": -1,
                    "step": "coordinate the cluster",
                    "message": event["message"],
                }
            case other:
                logger.debug("ignored coordinator event %s", other)

    def _note_another(self, node: dict[str, Any]) -> None:
        """What is known of a lost node is not of the one that has come in its place."""
        node_id = node["node_id"]
        before = self._nodes.get(node_id, {}).get("state")
        if node["state"] == "registered":
            self._turned_away.discard(node_id)
        if before == "lost" and node["state"] == "registered":
            self._terminated.discard(node_id)
            metrics = self._metrics.pop(node_id, {})
            self._metrics_before.setdefault(node_id, []).append(metrics)
