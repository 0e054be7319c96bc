"""Clusters in Spark's UI and in its event log: what the driver posts there
(docs/formats/spark-event.md). The tab that shows it is in the jar (tfos.internal.ui)."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tfos.spark.ui_channel import UiChannel, channel_to

logger = logging.getLogger(__name__)

#: Between two looks at the cluster.
_LOOK_SECONDS = 1.0
#: At least between two events in which nothing but numbers differs.
_NUMBERS_SECONDS = 10.0
#: And between two that are the same, which say that the driver is alive.
_SAME_SECONDS = 60.0
#: An event log of a large cluster must not grow without measure: so much of it a second, at most.
_BYTES_PER_SECOND = 2_000
#: While states change, which soon ends.
_BYTES_PER_SECOND_OF_CHANGES = 20_000
#: The most characters of a text such as a failure's message.
_MOST_CHARACTERS = 4_000
#: The most lines of the ledger: the first is about all nodes, and each other one about a node.
_MOST_LINES = 50
#: For the last event, where Spark's JVM may be gone or busy.
_LAST_POST_SECONDS = 10.0
#: States of a node whose program runs.
_RUNNING = frozenset({"running", "draining"})
#: Over less, a rate says nothing.
_LEAST_RATE_SECONDS = 5.0


class Counts(Protocol):
    """What happened to the rows: a :class:`tfos.Ledger`."""

    def lines(self, *, is_last: bool) -> list[str]: ...


class Watched(Protocol):
    """What is known of a cluster: a :class:`tfos.cluster.coordinator.Coordinator`."""

    def nodes(self) -> list[dict[str, Any]]: ...

    @property
    def formed(self) -> bool: ...

    @property
    def progress(self) -> dict[str, Any]: ...

    @property
    def failure(self) -> dict[str, Any] | None: ...

    @property
    def was_stopped(self) -> bool: ...


class ClusterTab:
    """Tells Spark how one cluster is, where the session has the jar and a UI or an event log. Has
    Spark's UI pass on the cluster's page.

    Owner and lifetime: the driver's :class:`tfos.Cluster`, which ends it with ``finish`` and then
    ``close``. Threads: any, and one of its own, which alone calls Spark. Errors: none. Where Spark
    does not take it, nothing is shown from then on: the training is worth more.
    """

    def __init__(
        self,
        sc: Any,
        cluster_id: str,
        page: str,
        page_from_driver: str,
        cluster: Watched,
        ledger: Callable[[], Counts],
        show_link: Callable[[str], None],
    ):
        """``page``: the page's address without its key, as others may read event logs.
        ``page_from_driver``: the same, as the driver reaches it. ``show_link``: is told the address
        at which Spark's UI passes the page on, without a key, if it does."""
        self._sc = sc
        self._id = cluster_id
        self._page_from_driver = page_from_driver
        self._show_link = show_link
        self._events = EventMaker(cluster_id, page, cluster, ledger)
        self._ended = threading.Event()
        self._told = threading.Event()  # of the end, or that nobody wants to know
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfos-spark-ui", daemon=True)
        self._thread.start()

    def finish(self, failure: dict[str, Any] | None = None) -> None:
        """The cluster has ended. Returns when Spark knows, or has taken too long. ``failure``: of
        the driver's program, of which the cluster itself knows nothing; as a cluster's."""
        self._events.failure_of_driver = failure
        self._ended.set()
        self._told.wait(_LAST_POST_SECONDS)

    def close(self) -> None:
        """The coordinator has ended, after ``finish``. Until now, pages may have asked it how the
        cluster has ended."""
        self._closed.set()
        if self._told.is_set():  # Nobody waits twice for a Spark that is busy.
            self._thread.join(_LAST_POST_SECONDS)

    def _run(self) -> None:
        """Body of the thread."""
        try:
            channel = channel_to(self._sc, self._id, self._page_from_driver)
            if channel is None:
                return
            self._pass_on(channel)
            if self._post_all(channel):
                self._told.set()
                self._closed.wait()
                channel.close()
        except Exception as error:  # a thread's boundary, and the training is worth more
            logger.info("Spark's UI does not show the cluster any more: %s", error)
        finally:
            self._told.set()

    def _pass_on(self, channel: UiChannel) -> None:
        """The tab is worth having without the page."""
        try:
            if link := channel.open():
                self._show_link(link)
        except Exception as error:  # the tab's boundary
            logger.info("Spark's UI does not pass on the cluster's page: %s", error)

    def _post_all(self, channel: UiChannel) -> bool:
        """Posts events up to the one of the last look, at the end. False where nobody sees them."""
        pace = Pace()
        over = False
        while not over:
            over = self._ended.is_set()
            event = self._events.look(over)
            text = json.dumps(event)
            if (over or pace.is_due(event, len(text))) and not channel.post(text):
                return False
            # To make an event costs something, too, and of a large cluster none is due sooner.
            self._ended.wait(max(_LOOK_SECONDS, len(text) / _BYTES_PER_SECOND_OF_CHANGES))
        return True


class Pace:
    """Says when an event is worth its place in an event log. Threads: one at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._when = -math.inf
        self._told: Mapping[str, Any] | None = None

    def is_due(self, event: Mapping[str, Any], size: int) -> bool:
        """``size``: of its text. The caller posts it when it is due."""
        now = self._clock()
        if self._told is None or _marks(event) != _marks(self._told):
            wait = size / _BYTES_PER_SECOND_OF_CHANGES
        elif _without_time(event) != _without_time(self._told):
            wait = max(_NUMBERS_SECONDS, size / _BYTES_PER_SECOND)
        else:
            wait = max(_SAME_SECONDS, size / _BYTES_PER_SECOND)
        if now - self._when < wait:
            return False
        self._when, self._told = now, event
        return True


def _marks(event: Mapping[str, Any]) -> Any:
    """What is told soon when it has changed."""
    return (
        event["state"],
        event["progress"].get("epoch"),
        [(node["name"], node.get("host"), node["state"]) for node in event["nodes"]],
    )


def _without_time(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "time_ms"}


class EventMaker:
    """Makes the events of one cluster. Threads: one at a time.

    clock: says when, in seconds since 1970. ticks: never jumps, for rates.
    """

    def __init__(
        self,
        cluster_id: str,
        page: str,
        cluster: Watched,
        ledger: Callable[[], Counts],
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ):
        self._id = cluster_id
        self._page = page
        self._cluster = cluster
        self._ledger = ledger
        self._clock = clock
        self._ticks = ticks
        self._began = clock()
        #: Why the driver's program has ended the cluster, once it has failed.
        self.failure_of_driver: dict[str, Any] | None = None
        #: By node and metric: when it was looked at for a rate, the node's metrics then, and the
        #: rate.
        self._rates: dict[tuple[str, str], tuple[float, Mapping[str, Any], float | None]] = {}

    def look(self, over: bool) -> dict[str, Any]:
        """How the cluster is now. ``over``: it has ended, and this is the last word."""
        now, ticks = self._clock(), self._ticks()
        failure = self._cluster.failure or self.failure_of_driver
        if self._cluster.was_stopped:
            state = "stopped"
        elif failure is not None:
            state = "failed"
        elif over:
            state = "ended"
        else:
            state = "running" if self._cluster.formed else "starting"
        progress = self._cluster.progress
        return {
            "id": self._id,
            "began_ms": int(self._began * 1000),
            "time_ms": int(now * 1000),
            "state": state,
            "page": self._page,
            "progress": _known({name: progress.get(name) for name in _OF_PROGRESS}),
            "failure": None if failure is None else _failure(failure),
            "ledger": [
                line.removeprefix("ledger | ")
                for line in self._ledger().lines(is_last=over)[:_MOST_LINES]
            ],
            "nodes": [self._node(node, ticks, over) for node in self._cluster.nodes()],
        }

    def _node(self, node: Mapping[str, Any], now: float, over: bool) -> dict[str, Any]:
        metrics = node["metrics"]
        name = f"{node['job_name']}:{node['task_index']}"
        known: dict[str, Any] = {
            "name": name,
            "host": node.get("host"),
            "executor": node.get("executor_id"),
            "state": node["state"],
            "detail": (node.get("detail") or "")[:_MOST_CHARACTERS],
            "step": metrics.get("step"),
            "loss": metrics.get("loss"),
            # Where nobody feeds, the name is the program's.
            "rows": metrics.get("rows") if node.get("feed") else None,
        }
        for of, rate in (("step", "steps_per_second"), ("rows", "rows_per_second")):
            runs = not over and node["state"] in _RUNNING
            if runs and isinstance(known[of], (int, float)):
                known[rate] = self._rate(name, of, metrics, now)
        return _known(known)

    def _rate(self, node: str, of: str, metrics: Mapping[str, Any], now: float) -> float | None:
        """What it grows by in a second, since the look before; None where that is not known. The
        same until a heartbeat has brought new metrics."""
        since, before, rate = self._rates.get((node, of), (now, metrics, None))
        if now - since >= _LEAST_RATE_SECONDS and metrics != before:
            then = before.get(of)
            grown = metrics[of] - then if isinstance(then, (int, float)) else 0.0
            since, before, rate = now, metrics, max(0.0, grown / (now - since))
        self._rates[node, of] = (since, before, rate)
        return rate


#: What of the PROGRESS of docs/formats/control-protocol.md.
_OF_PROGRESS = (
    "epoch",
    "epochs",
    "step",
    "done",
    "loss",
    "steps_per_second",
    "rows_per_second",
    "text",
)


def _failure(failure: Mapping[str, Any]) -> dict[str, str]:
    """Without traceback and log, which are on the cluster's own page."""
    message = str(failure.get("message") or "")
    if len(message) > _MOST_CHARACTERS:
        message = f"{message[:_MOST_CHARACTERS]} ..."
    of_a_node = failure.get("node_id", -1) >= 0
    return {
        "node": f"{failure['job_name']}:{failure['task_index']}" if of_a_node else "",
        "host": str(failure.get("host") or ""),
        "step": str(failure.get("step") or ""),
        "message": message,
    }


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody knows. JSON has no NaN and no infinity, so these become texts."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
        if value is not None and value != ""
    }
