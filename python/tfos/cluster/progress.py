"""The driver's progress line: how far the training is, and what every node is doing, while the
driver waits."""

from __future__ import annotations

import io
import logging
import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TextIO

from tfos.base.printable import printable
from tfos.cluster.coordinator import FINAL_STATES
from tfos.cluster.ledger import Ledger

logger = logging.getLogger(__name__)

#: That are named, each with what it does; of more, their states are counted.
_MOST_NODES = 8
#: Of a node's time.
_MOSTLY = 0.5
#: A second: less would be 0.0 MB.
_SMALL_BYTES = 0.05e6
#: The width of a terminal that does not say.
_COLUMNS = 80
#: What a terminal does with the rest of a line: it forgets it.
_ERASE = "\x1b[K"
#: In place of a standard error that was closed when Python started.
_NOWHERE = io.StringIO()
_NOWHERE.close()


class Told(NamedTuple):
    """What there is to say, in the parts of a line."""

    seconds: float  #: since the start
    doing: str
    sums: list[str]  #: of the training, and of all nodes
    nodes: list[str]

    def line(self) -> str:
        return stamped(self.seconds, " | ".join([self.doing, *self.sums, *self.nodes]))


class View(Protocol):
    """What shows the progress better than a line: see :class:`tfos.cluster.notebook.LiveView`."""

    def show(self, told: Told, progress: dict[str, Any] | None) -> None: ...

    def settle(
        self, how: str, newer: Told | None = None, progress: dict[str, Any] | None = None
    ) -> None: ...


class Progress:
    """Writes one line about the training and the nodes.

    On a terminal the line stays where it is, and is as long as there is room. With a ``view`` that
    has it, until it fails. Elsewhere there is a new line every ``quiet`` seconds. There is one
    earlier, at most every ``interval`` seconds, when one of these has changed: a node's state, what
    the driver does, whether a node gives a sign of life, or whether each loss is a number.

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
        view: View | None = None,
    ):
        self._view = view
        self._enabled = enabled
        self._interval = interval
        self._quiet = quiet
        self._stream = stream
        self._clock = clock
        self._last_look = -math.inf
        self._last_shown = -math.inf
        self._last_mark: Any = None
        self._doing = ""
        self._open = False  # A line stands on the terminal, and the cursor at its end.
        self._lost = False  # Nothing can be written any more.
        self._started = clock()
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
            self._last_look, self._doing = now, doing
            # The last look comes at any moment, so it gives no rate.
            told = self._tell(now, nodes, doing, text, with_rates=not last)
            if self._with_view(lambda view: view.show(told, progress)):
                return
            if self._on_terminal():
                self._write_in_place(short_line(nodes, doing, text), told if last else None)
            else:
                diverges = bool((progress or {}).get("bad_loss"))
                mark = (doing, [_mark(node) for node in nodes], diverges)
                if last or mark != self._last_mark or now - self._last_shown >= self._quiet:
                    self._print(self._begin() + told.line())
                    self._last_mark, self._last_shown = mark, now

    def show_line(self, nodes: list[dict[str, Any]], doing: str, text: str) -> None:
        """A whole line while the driver waits for nothing, where that is a line. This waits for
        nobody either: neither for other threads, nor for a terminal that stands still."""
        if not self._enabled or self._view is not None or not self._lock.acquire(blocking=False):
            return
        try:
            if not self._lost and not self._open and _takes_more(self._out):
                told = self._tell(self._clock(), nodes, doing, text, with_rates=False)
                self._print(self._begin() + told.line())
        finally:
            self._lock.release()

    @contextmanager
    def waiting(
        self,
        look: Callable[[], tuple[list[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> Iterator[None]:
        """While the driver waits. What it prints afterwards begins on a line of its own.
        ``look``: at the nodes and the PROGRESS. What stays is as they are at the end."""
        how = "stopped"
        try:
            yield
            how = "done"
        finally:
            nodes, progress = look() if look is not None else (None, None)
            with self._lock:
                told = None if nodes is None else self._told_at_last(nodes, progress)
                self._with_view(lambda view: view.settle(how, told, progress))
                if self._open:
                    if nodes is not None:
                        text = (progress or {}).get("text") or ""
                        self._write_in_place(short_line(nodes, self._doing, text), None)
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

    def _with_view(self, do: Callable[[View], None]) -> bool:
        """False where there is none, or none any more."""
        if self._view is None:
            return False
        try:
            do(self._view)
        except Exception as error:  # the notebook's, and the training is worth more
            logger.warning("the progress is shown as text from here on: %s", error)
            self._view = None
        return self._view is not None

    @property
    def _out(self) -> TextIO:
        return self._stream or sys.stderr or _NOWHERE

    def _on_terminal(self) -> bool:
        try:
            return self._out.isatty()
        # It was closed, or is an object of a notebook's that can only be written to.
        except (AttributeError, ValueError):
            return False

    def _print(self, text: str, end: str = "\n") -> None:
        if self._lost:
            return
        try:
            print(text, end=end, file=self._out, flush=hasattr(self._out, "flush"))
        except (OSError, ValueError):  # ValueError: it was closed.
            self._lost = True

    def _begin(self) -> str:
        """What comes before a whole line: away with the one that is open, or with Spark's bar."""
        self._open = False
        return f"\r{_ERASE}" if self._on_terminal() else ""

    def _stamped(self, line: str) -> str:
        return stamped(self._clock() - self._started, line)

    def _write(self, line: str) -> None:
        self._print(self._begin() + self._stamped(line))

    def _write_in_place(self, line: str, last: Told | None) -> None:
        if last is not None:
            self._print(self._begin() + last.line())
            return
        shown = self._stamped(line)[: columns_of(self._out) - 1]
        self._print(f"\r{shown}{_ERASE}", end="")
        self._open = True

    def say_ledger(self, ledger: Ledger, cut_short: bool, stopped: bool = False) -> None:
        """What happened to the rows that were fed. cut_short: whether nodes were ended. stopped:
        whether somebody has ended the cluster, so that programs left rows."""
        for line in ledger.lines():
            self.say(line)
        if ledger.lines() and cut_short:
            self.say(
                "ledger | not all nodes have ended by themselves: their counts may be incomplete"
            )
        # More epochs would not have been fed, either, once the feed was cut short.
        if ledger.asked_for_more and not (ledger.cut_short or stopped):
            logger.warning(
                "%s asked for an epoch that was not fed, and got one without rows: give train() as "
                "many epochs as the program reads",
                ", ".join(sorted(ledger.asked_for_more)),
            )
        if ledger.ended_early and not (cut_short or stopped):
            logger.warning(
                '%s ended before all rows that were fed had been read ("left unread" in the '
                "ledger): give fit() as many epochs as train()",
                ", ".join(ledger.ended_early),
            )
        complaint = ledger.complaint()
        if complaint and not cut_short:
            logger.warning("the feed's counts do not add up: %s", complaint)

    def _told_at_last(self, nodes: list[dict[str, Any]], progress: dict[str, Any] | None) -> Told:
        """What there is to say of what was shown last, as it is now."""
        text = (progress or {}).get("text") or ""
        return self._tell(self._clock(), nodes, self._doing, text, with_rates=False)

    def _tell(
        self, now: float, nodes: list[dict[str, Any]], doing: str, text: str, *, with_rates: bool
    ) -> Told:
        nodes = [node | {"metrics": _without_program_rows(node)} for node in nodes]
        running = [node for node in nodes if node["state"] not in FINAL_STATES]
        sums = [text] if text else []
        if rows := _sum(nodes, "rows") + _rows_before(nodes):
            # Spark may send rows long before the programs read them.
            sent = sum(_rate(node, "feed_bytes") or 0.0 for node in running) if with_rates else 0
            shown = f", {sent / 1e6:,.1f} MB/s from Spark" if sent >= _SMALL_BYTES else ""
            sums.append(f"{rows:,.0f} rows read{shown}")
            # What ended nodes held is gone.
            if running:
                sums.append(f"queue {_sum(running, 'feed_queued_bytes') / 1e6:,.1f} MB")
        if len(nodes) > _MOST_NODES:
            return Told(now - self._started, doing, sums, counts_of_states(nodes))
        # With one node, the sums say it all. Which side waits, the text says: the coordinator has
        # measured it, and a queue's size does not tell.
        several = sum("rows" in node["metrics"] for node in nodes) > 1
        told = []
        for node in nodes:
            told.append(describe(node))
            if several and node["metrics"].get("rows"):
                rate = _rate(node, "rows") if with_rates else None
                words = [] if rate is None else [f"{rate:,.0f} rows/s"]
                if node["state"] not in FINAL_STATES:
                    queued = counted(node["metrics"], "feed_queued_bytes")
                    words.append(f"queue {queued / 1e6:,.1f} MB")
                told[-1] += f" ({', '.join(words)})" if words else ""
        return Told(now - self._started, doing, sums, told)


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


def seconds_without_step(node: dict[str, Any]) -> float:
    """How long a node that was making steps has made none, which is said by the coordinator; 0 as
    long as that is usual, and once the node has ended."""
    if node["state"] in FINAL_STATES:
        return 0
    return counted(node["metrics"], "seconds_without_step")


def _waits_for_others(node: dict[str, Any]) -> bool:
    """Most of the time, in collective operations (WaitsForOthers of control/messages/progress)."""
    return counted(node["metrics"], "share_waiting_for_nodes") >= _MOSTLY


def _clock(seconds: float) -> str:
    """``1:10``, ``2:00:05``."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _mark(node: dict[str, Any]) -> tuple[Any, ...]:
    """What of a node is told at once when it changes."""
    return (
        node["state"],
        node.get("detail"),
        seconds_silent(node) > 0,
        seconds_without_step(node) > 0,
    )


def _without_program_rows(node: dict[str, Any]) -> dict[str, Any]:
    """Rows are counted where a feed counts them; without one the name is the program's."""
    metrics: dict[str, Any] = node["metrics"]
    if node.get("feed"):
        return metrics
    return {name: value for name, value in metrics.items() if name != "rows"}


def _rows_before(nodes: list[dict[str, Any]]) -> float:
    """What lost nodes had read that others have come in place of, which have no feed at first."""
    if not any(node.get("feed") for node in nodes):
        return 0
    return sum(
        counted(metrics, "rows") for node in nodes for metrics in node.get("metrics_before", [])
    )


def _rate(node: dict[str, Any], name: str) -> float | None:
    """What a counter grows by in a second. It is measured with the rates of the PROGRESS: of others
    the line would contradict itself."""
    rates: dict[str, float] = node.get("rates", {}) if node.get("feed") else {}
    return rates.get(name)


def _sum(nodes: list[dict[str, Any]], name: str) -> float:
    return sum(counted(node["metrics"], name) for node in nodes)


def stamped(seconds: float, line: str) -> str:
    return f"tfos {seconds:6.1f} s  {line}"


def counts_of_states(nodes: list[dict[str, Any]]) -> list[str]:
    """``12 nodes: 10 running, 2 done``, and those without a sign of life or without steps."""
    states = [node["state"] for node in nodes]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    silent = [describe(node) for node in nodes if seconds_silent(node)]
    stuck = [node for node in nodes if seconds_without_step(node)]
    # Those that hold up the others say more than those that wait for them.
    silent += [describe(node) for node in [n for n in stuck if not _waits_for_others(n)] or stuck]
    several = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    return [f"{several}: {counts}", *silent[:_MOST_NODES]]


def short_line(nodes: list[dict[str, Any]], doing: str, text: str) -> str:
    """What fits in a terminal's line, the most important first."""
    parts = [doing, text, *(counts_of_states(nodes) if nodes else [])]
    return " | ".join(part for part in parts if part)


def _takes_more(stream: TextIO) -> bool:
    """False where a terminal stands still, or nobody empties a pipe that is full."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        return bool(poll.poll(0))
    except (AttributeError, TypeError, OSError, ValueError):  # No descriptor, or it was closed.
        return True


def columns_of(stream: TextIO) -> int:
    """How many characters a line of the terminal has."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (AttributeError, OSError, ValueError):
        return _COLUMNS


def job_and_task(node: dict[str, Any]) -> str:
    return f"{node['job_name']}:{node['task_index']}"


def describe(node: dict[str, Any]) -> str:
    """``worker:0 running step=3 loss=0.1234``."""
    words = [job_and_task(node), node["state"]]
    if node["state"] not in FINAL_STATES and node.get("detail"):
        words.append(f"({node['detail']})")
    if node.get("leaving"):
        words.append(f"({node['leaving']})")
    metrics = node["metrics"]
    words += [f"{name}={number(metrics[name])}" for name in ("step", "loss") if name in metrics]
    if silent := seconds_silent(node):
        words.append(f"(no sign of life on {node['host']} for {silent:.0f} s)")
    elif stuck := seconds_without_step(node):
        waits = ", waits for other nodes" if _waits_for_others(node) else ""
        words.append(f"(no step for {_clock(stuck)}{waits})")
    return printable(" ".join(words))


def number(value: Any) -> str:
    """A metric as people read it."""
    if not isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return str(value)
    if value.is_integer():
        return f"{value:.0f}" if abs(value) < 1e15 else f"{value:g}"
    return f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.3g}"
