"""The driver's progress line: what every node is doing, while the driver waits."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

#: From this share of their memory on, feeders are about to wait for the nodes.
_FULL = 0.5


class Progress:
    """Writes one line about the nodes: when something changed at most every ``interval`` seconds, and
    every ``quiet`` seconds in any case.

    Owner and lifetime: one cluster. Threads: one at a time.
    """

    def __init__(self, enabled: bool, interval: float = 2.0, quiet: float = 10.0,
                 stream: TextIO | None = None):
        self._enabled = enabled
        self._interval = interval
        self._quiet = quiet
        self._stream = stream
        self._last_line = ""
        self._last_time = 0.0  # looked
        self._last_shown = 0.0
        self._started = time.monotonic()
        self._before: dict[str, float] = {}

    def show(self, nodes: list[dict[str, Any]], doing: str, *, last: bool = False) -> None:
        now = time.monotonic()
        if not self._enabled or (now - self._last_time < self._interval and not last):
            return
        line = self._line(nodes, doing, now - (self._last_time or self._started))
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
            print(f"tfos {elapsed:6.1f} s  {line}", file=self._stream or sys.stderr, flush=True)

    def _line(self, nodes: list[dict[str, Any]], doing: str, seconds: float) -> str:
        sums = {name: sum(node["metrics"].get(name, 0) for node in nodes)
                for name in ("rows", "feed_bytes", "feed_queued_bytes", "feed_memory_bytes")}
        grown = {name: value - self._before.get(name, 0) for name, value in sums.items()}
        self._before = sums
        parts = [doing]
        if sums["rows"]:
            rates = ""
            if grown["rows"]:
                rates = (f", {grown['rows'] / seconds:,.0f} rows/s, "
                         f"{grown['feed_bytes'] / seconds / 1e6:,.1f} MB/s")
            parts.append(f"{sums['rows']:,.0f} rows fed{rates}")
            queued = sums["feed_queued_bytes"]
            waits = _who_waits(queued, sums["feed_memory_bytes"]) if doing == "feeding" else ""
            parts.append(f"queue {queued / 1e6:,.1f} MB{waits}")
        parts += [describe(node) for node in nodes]
        return " | ".join(parts)


def _who_waits(queued: float, memory: float) -> str:
    """Which side of the feed holds the other up, as the queue tells: empty, or most of the memory
    that feeders hold."""
    if queued == 0:
        return ", nodes wait for rows"
    return ", Spark waits for nodes" if queued > _FULL * memory else ""


def describe(node: dict[str, Any]) -> str:
    """``worker:0 running step=3 loss=0.1234``."""
    words = [f"{node['job_name']}:{node['task_index']}", node["state"]]
    if node["state"] in ("expected", "registered") and node.get("detail"):
        words.append(f"({node['detail']})")
    metrics = node["metrics"]
    words += [f"{name}={number(metrics[name])}" for name in ("step", "loss") if name in metrics]
    return " ".join(words)


def number(value: Any) -> str:
    """A metric as people read it."""
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.4f}" if isinstance(value, float) and value != int(value) else f"{value:g}"
