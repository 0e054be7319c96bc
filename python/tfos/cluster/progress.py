"""The driver's progress line: how far the training is, and what every node is doing, while the
driver waits."""

from __future__ import annotations

import io
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tfos.cluster.coordinator import FINAL_STATES, Coordinator
from tfos.cluster.ledger import Ledger

logger = logging.getLogger(__name__)

#: From this share of their memory on, feeders are about to wait for the nodes.
_FULL = 0.5
#: That are named, each with what it does; of more, their states are counted.
_MOST_NODES = 8
#: Of a terminal that does not say.
_COLUMNS = 80
#: What a terminal does with the rest of a line: it forgets it.
_ERASE = "\x1b[K"
#: In place of a standard error that was closed when Python started.
_NOWHERE = io.StringIO()
_NOWHERE.close()


class Progress:
    """Writes one line about the training and the nodes.

    On a terminal the line stays where it is, and is as long as there is room. Elsewhere there is a
    new one when a node's state or what the driver does has changed, at most every ``interval``
    seconds, and in any case every ``quiet`` seconds.

    Owner and lifetime: one cluster. Threads: any. Errors: none. Where nothing can be written any
    more, as the terminal is gone or nobody reads the pipe, nothing is shown from then on: the
    training is worth more.
    """

    def __init__(
        self,
        enabled: bool,
        interval: float = 2.0,
        quiet: float = 30.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._enabled = enabled
        self._interval = interval
        self._quiet = quiet
        self._stream = stream
        self._clock = clock
        self._last_look = -math.inf
        self._last_shown = -math.inf
        self._last_mark: Any = None
        self._open = False  # A line stands on the terminal, and the cursor at its end.
        self._lost = False  # Nothing can be written any more.
        self._started = clock()
        self._before: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()  # of the fields above, and a line is written whole

    def show(
        self,
        nodes: list[dict[str, Any]],
        doing: str,
        progress: dict[str, Any] | None = None,
        *,
        last: bool = False,
    ) -> None:
        """``progress``: the PROGRESS of docs/formats/control-protocol.md. The last line stays."""
        with self._lock:
            now = self._clock()
            shown = self._enabled and not self._lost
            if not shown or (now - self._last_look < self._interval and not last):
                return
            text = (progress or {}).get("text") or ""
            # The last look comes at any moment, so it gives no rate.
            since = max(self._last_look, self._started)
            line = self._line(nodes, doing, text, None if last else now - since)
            if self._on_terminal():
                self._write_in_place(short_line(nodes, doing, text), line if last else None)
            else:
                mark = (doing, [(node["state"], node.get("detail")) for node in nodes])
                if last or mark != self._last_mark or now - self._last_shown >= self._quiet:
                    self._write(line)
                    self._last_mark, self._last_shown = mark, now
            self._last_look = now

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While the driver waits. What it prints afterwards begins on a line of its own."""
        try:
            yield
        finally:
            with self._lock:
                if self._open:
                    self._open = False
                    self._print("")

    def say(self, line: str) -> None:
        """One more line, in its own right."""
        if self._enabled:
            with self._lock:
                self._write(line)

    def show_output(self, lines: list[str]) -> None:
        """What nodes have written. It is shown where no progress is, too."""
        with self._lock:
            begin = self._begin()
            self._print(begin + "\n".join(lines))

    @property
    def _out(self) -> TextIO:
        return self._stream or sys.stderr or _NOWHERE

    def _on_terminal(self) -> bool:
        try:
            return self._out.isatty()
        except ValueError:  # It was closed.
            return False

    def _print(self, text: str, end: str = "\n") -> None:
        if self._lost:
            return
        try:
            print(text, end=end, file=self._out, flush=True)
        except (OSError, ValueError):  # ValueError: it was closed.
            self._lost = True

    def _begin(self) -> str:
        """What comes before a whole line: away with the one that is open, or with Spark's bar."""
        self._open = False
        return f"\r{_ERASE}" if self._on_terminal() else ""

    def _stamped(self, line: str) -> str:
        return f"tfos {self._clock() - self._started:6.1f} s  {line}"

    def _write(self, line: str) -> None:
        self._print(f"{self._begin()}{self._stamped(line)}")

    def _write_in_place(self, line: str, last: str | None) -> None:
        if last is not None:
            self._write(last)
            return
        shown = self._stamped(line)[: columns_of(self._out) - 1]
        self._print(f"\r{shown}{_ERASE}", end="")
        self._open = True

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

    def _line(
        self, nodes: list[dict[str, Any]], doing: str, text: str, seconds: float | None
    ) -> str:
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
        parts = [doing, text] if text else [doing]
        if rows := _sum(nodes, "rows"):
            rate = f", {sum(grown['feed_bytes']) / 1e6:,.1f} MB/s" if sum(grown["rows"]) else ""
            parts.append(f"{rows:,.0f} rows read{rate if seconds else ''}")
            # What ended nodes held is gone.
            if running:
                parts.append(f"queue {_sum(running, 'feed_queued_bytes') / 1e6:,.1f} MB")
        if len(nodes) > _MOST_NODES:
            return " | ".join([*parts, counts_of_states(nodes)])
        # What one that stands still holds up says nothing about the others, nor about Spark.
        judged = "" if any(map(seconds_silent, nodes)) else doing
        # Of one node, the sums say it all.
        several = sum("rows" in node["metrics"] for node in nodes) > 1
        for node, rows_a_second in zip(nodes, grown["rows"], strict=True):
            parts.append(describe(node))
            if several and node["metrics"].get("rows"):
                words = [f"{rows_a_second:,.0f} rows/s"] if seconds else []
                if node["state"] not in FINAL_STATES:
                    words.append(_queue(node, judged))
                parts[-1] += f" ({', '.join(words)})" if words else ""
        return " | ".join(parts)

    def _grown(self, node: dict[str, Any], name: str) -> float:
        return counted(node["metrics"], name) - self._before.get((job_and_task(node), name), 0)


class Teller:
    """Shows what the driver does, and tells the coordinator, for its page.

    Owner and lifetime: the cluster, as long as it runs. Threads: any.

    counts: what the driver alone knows of the rows, as in the message ``activity``.
    """

    def __init__(
        self, progress: Progress, coordinator: Coordinator, counts: Callable[[], dict[str, Any]]
    ):
        self._progress = progress
        self._coordinator = coordinator
        self._counts = counts
        self._told: dict[str, Any] = {}

    def __call__(self, doing: str, *, last: bool = False) -> None:
        coordinator = self._coordinator
        waits = coordinator.waits
        if waits and not last:  # Nobody waits any more at the end.
            doing = f"{doing}: {waits}"
        self._progress.show(coordinator.nodes(), doing, coordinator.progress, last=last)
        activity = {"doing": doing, **self._counts()}
        if last or activity != self._told:
            self._told = activity
            coordinator.send("activity", **activity)


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


def _queue(node: dict[str, Any], doing: str) -> str:
    """How much is queued for one of several nodes, and which side of its feed holds the other up
    now: nothing is queued, or most of the memory that feeders hold is full."""
    feeding = doing == "feeding"
    queued = counted(node["metrics"], "feed_queued_bytes")
    memory = counted(node["metrics"], "feed_memory_bytes")
    waits = ""
    if feeding and queued == 0:
        waits = ", the node is waiting for rows"
    elif feeding and queued > _FULL * memory:
        waits = ", Spark is waiting for the node"
    return f"queue {queued / 1e6:,.1f} MB{waits}"


def counts_of_states(nodes: list[dict[str, Any]]) -> str:
    """``12 nodes: 10 running, 2 done``, and those without a sign of life."""
    states = [node["state"] for node in nodes]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    silent = [describe(node) for node in nodes if seconds_silent(node)]
    several = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    return " | ".join([f"{several}: {counts}", *silent[:_MOST_NODES]])


def short_line(nodes: list[dict[str, Any]], doing: str, text: str) -> str:
    """What fits in a terminal's line, the most important first."""
    parts = [doing, text, counts_of_states(nodes) if nodes else ""]
    return " | ".join(part for part in parts if part)


def columns_of(stream: TextIO) -> int:
    """How many characters a line of the terminal has."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS


def job_and_task(node: dict[str, Any]) -> str:
    return f"{node['job_name']}:{node['task_index']}"


def describe(node: dict[str, Any]) -> str:
    """``worker:0 running step=3 loss=0.1234``."""
    words = [job_and_task(node), node["state"]]
    if node["state"] in ("expected", "registered", "running") and node.get("detail"):
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
