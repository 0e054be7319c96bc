"""The driver's progress line: what every node is doing, while the driver waits."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from typing import Any, TextIO

from tfos.cluster.coordinator import FINAL_STATES
from tfos.cluster.ledger import Ledger

logger = logging.getLogger(__name__)

#: From this share of their memory on, feeders are about to wait for the nodes.
_FULL = 0.5


class Progress:
    """Writes one line about the nodes: when something changed at most every ``interval`` seconds,
    and every ``quiet`` seconds in any case.

    Owner and lifetime: one cluster. Threads: any.
    """

    def __init__(
        self,
        enabled: bool,
        interval: float = 2.0,
        quiet: float = 10.0,
        stream: TextIO | None = None,
    ):
        self._enabled = enabled
        self._interval = interval
        self._quiet = quiet
        self._stream = stream
        self._last_line = ""
        self._last_time = 0.0  # looked
        self._last_shown = 0.0
        self._started = time.monotonic()
        self._before: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()  # of the fields above, and a line is written whole

    def show(self, nodes: list[dict[str, Any]], doing: str, *, last: bool = False) -> None:
        with self._lock:
            self._show(nodes, doing, last)

    def _show(self, nodes: list[dict[str, Any]], doing: str, last: bool) -> None:
        now = time.monotonic()
        if not self._enabled or (now - self._last_time < self._interval and not last):
            return
        # The last look comes at any moment, so it gives no rate.
        line = self._line(nodes, doing, None if last else now - (self._last_time or self._started))
        if line != self._last_line or now - self._last_shown >= self._quiet:
            elapsed = now - self._started
            stream = self._stream or sys.stderr
            # Spark's own progress bar may have left its line open.
            begin = "\r" if stream.isatty() else ""
            print(f"{begin}tfos {elapsed:6.1f} s  {line}", file=stream, flush=True)
            self._last_line = line
            self._last_shown = now
        self._last_time = now

    def say(self, line: str) -> None:
        """One more line, in its own right."""
        if self._enabled:
            elapsed = time.monotonic() - self._started
            with self._lock:
                print(f"tfos {elapsed:6.1f} s  {line}", file=self._stream or sys.stderr, flush=True)

    def say_ledger(self, ledger: Ledger, failed: bool) -> None:
        """What happened to the rows that were fed. failed: whether the cluster did."""
        for line in ledger.lines():
            self.say(line)
        # Of a cluster that failed, nodes may have ended without a last word.
        if ledger.lines() and failed:
            self.say("ledger | the cluster failed: counts may be incomplete")
        if ledger.asked_for_more:
            logger.warning(
                "%s asked for an epoch that was not fed, and got one without rows: give train() as "
                "many epochs as the program reads",
                ", ".join(sorted(ledger.asked_for_more)),
            )
        if ledger.ended_early and not failed:
            logger.warning(
                '%s ended before all rows that were fed had been read ("left unread" in the '
                "ledger): give fit() as many epochs as train()",
                ", ".join(ledger.ended_early),
            )
        complaint = ledger.complaint()
        if complaint and not failed:
            logger.warning("the feed's counts do not add up: %s", complaint)

    def _line(self, nodes: list[dict[str, Any]], doing: str, seconds: float | None) -> str:
        """``seconds`` since the last one; rates are shown only with them."""
        nodes = [node | {"metrics": _without_program_rows(node)} for node in nodes]
        running = [node for node in nodes if node["state"] not in FINAL_STATES]
        grown = {
            name: [self._grown(node, name) / (seconds or 1) for node in nodes]
            for name in ("rows", "feed_bytes")
        }
        self._before = {
            (job_and_task(node), name): counted(node["metrics"], name)
            for node in nodes
            for name in grown
        }
        # What one that stands still holds up says nothing about the others, nor about Spark.
        judged = "" if any(map(seconds_silent, nodes)) else doing
        parts = [doing]
        if rows := _sum(nodes, "rows"):
            rates = ""
            if seconds and sum(grown["rows"]):
                rates = (
                    f", {sum(grown['rows']):,.0f} rows/s, "
                    f"{sum(grown['feed_bytes']) / 1e6:,.1f} MB/s"
                )
            parts.append(f"{rows:,.0f} rows read{rates}")
            # What ended nodes held is gone.
            if running:
                parts.append(_queue(running, judged))
        # Of one node, the sums say it all.
        several = sum("rows" in node["metrics"] for node in nodes) > 1
        for node, rows_a_second in zip(nodes, grown["rows"], strict=True):
            parts.append(describe(node))
            if several and node["metrics"].get("rows"):
                words = [f"{rows_a_second:,.0f} rows/s"] if seconds else []
                if node["state"] not in FINAL_STATES:
                    words.append(_queue([node], judged))
                parts[-1] += f" ({', '.join(words)})" if words else ""
        return " | ".join(parts)

    def _grown(self, node: dict[str, Any], name: str) -> float:
        return counted(node["metrics"], name) - self._before.get((job_and_task(node), name), 0)


def counted(metrics: dict[str, Any], name: str) -> float:
    """A counter of the feed; 0 where there is none, or a program reports something else by its
    name."""
    value = metrics.get(name)
    return value if isinstance(value, int | float) else 0


def seconds_silent(node: dict[str, Any]) -> float:
    """How long a node's process has given no sign of life; 0 while it answers its agent, and once
    the node has ended."""
    if node["state"] in FINAL_STATES:
        return 0
    return counted(node["metrics"], "seconds_without_answer")


def _without_program_rows(node: dict[str, Any]) -> dict[str, Any]:
    """Rows are counted where a feed counts them; without one the name is the program's."""
    metrics: dict[str, Any] = node["metrics"]
    if node.get("feed"):
        return metrics
    return {name: value for name, value in metrics.items() if name != "rows"}


def _sum(nodes: list[dict[str, Any]], name: str) -> float:
    return sum(counted(node["metrics"], name) for node in nodes)


def _queue(nodes: list[dict[str, Any]], doing: str) -> str:
    """How much is queued for the nodes, and which side of the feed holds the other up: nothing is
    queued, or most of the memory that feeders hold is full."""
    feeding = doing == "feeding"
    several = sum("rows" in node["metrics"] for node in nodes) > 1
    queued, memory = (_sum(nodes, name) for name in ("feed_queued_bytes", "feed_memory_bytes"))
    waits = ""
    if feeding and queued == 0:
        waits = f", the {'nodes are' if several else 'node is'} waiting for rows"
    elif feeding and queued > _FULL * memory:
        waits = f", Spark is waiting for the {'nodes' if several else 'node'}"
    return f"queue {queued / 1e6:,.1f} MB{waits}"


def job_and_task(node: dict[str, Any]) -> str:
    return f"{node['job_name']}:{node['task_index']}"


def describe(node: dict[str, Any]) -> str:
    """``worker:0 running step=3 loss=0.1234``."""
    words = [job_and_task(node), node["state"]]
    if node["state"] in ("expected", "registered") and node.get("detail"):
        words.append(f"({node['detail']})")
    if node.get("leaving"):
        words.append(f"({node['leaving']})")
    metrics = node["metrics"]
    words += [f"{name}={number(metrics[name])}" for name in ("step", "loss") if name in metrics]
    if silent := seconds_silent(node):
        words.append(f"(no sign of life on {node['host']} for {silent:.0f} s)")
    return " ".join(words)


def number(value: Any) -> str:
    """A metric as people read it."""
    if not isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    if value.is_integer():
        return f"{value:.0f}" if abs(value) < 1e15 else f"{value:g}"
    return f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.3g}"
