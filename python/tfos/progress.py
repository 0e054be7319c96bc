"""The driver's progress line: what every node is doing, while the driver waits."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

class Progress:
    """Writes one line about the nodes when something changed, at most every ``interval`` seconds.

    Owner and lifetime: one cluster. Threads: one at a time.
    """

    def __init__(self, enabled: bool, interval: float = 2.0, stream: TextIO | None = None):
        self._enabled = enabled
        self._interval = interval
        self._stream = stream
        self._last_line = ""
        self._last_time = 0.0
        self._started = time.monotonic()
        self._rows: tuple[float, float] = (0.0, 0.0)

    def show(self, nodes: list[dict[str, Any]], doing: str) -> None:
        now = time.monotonic()
        if not self._enabled or now - self._last_time < self._interval:
            return
        line = self._line(nodes, doing, now)
        if line != self._last_line:
            elapsed = now - self._started
            print(f"tfos {elapsed:6.1f} s  {line}", file=self._stream or sys.stderr, flush=True)
            self._last_line = line
        self._last_time = now

    def _line(self, nodes: list[dict[str, Any]], doing: str, now: float) -> str:
        total = sum(node["metrics"].get("rows", 0) for node in nodes)
        then, before = self._rows
        self._rows = (now, total)
        parts = [doing]
        if total:
            rate = (total - before) / (now - then) if total > before else 0.0
            parts.append(f"{total:,.0f} rows fed, {rate:,.0f} rows/s")
        parts += [describe(node) for node in nodes]
        return " | ".join(parts)


def describe(node: dict[str, Any]) -> str:
    """``worker:0 running step=3 loss=0.1234``."""
    words = [f"{node['job_name']}:{node['task_index']}", node["state"]]
    if node["state"] in ("expected", "registered") and node.get("detail"):
        words.append(f"({node['detail']})")
    metrics = node["metrics"]
    words += [f"{name}={_number(metrics[name])}" for name in ("step", "loss") if name in metrics]
    return " ".join(words)


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) and value != int(value) else f"{value:g}" \
        if isinstance(value, (int, float)) else str(value)
