"""Counters of a node as rates: what its metrics become where they are drawn as curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

#: Counters by what they grow by in a second. Of seconds of waiting, that is a share of the time.
RATES = {
    "rows": "rows_per_second",
    "step": "steps_per_second",
    "feed_bytes": "feed_bytes_per_second",
    "feed_node_wait_seconds": "share_waiting_for_rows",
    "feed_feeder_wait_seconds": "share_feeders_waiting",
    "cpu_seconds": "cpu_cores",
}
#: The same for collective operations. Nodes report these rates themselves, and keep the counters.
OF_COLLECTIVES = {
    "collective_seconds": "share_in_collectives",
    "collective_wait_seconds": "share_waiting_for_nodes",
    "collective_bytes": "collective_bytes_per_second",
}
_ALL = RATES | OF_COLLECTIVES
#: Metrics of tfos that are of no use as a curve, or sums whose rates say more.
LEFT_OUT = {
    *("asked_for_more", "batches", "cache_file_bytes", "cache_memory_bytes", "epoch", "epochs"),
    *("feed_chunks", "feed_memory_bytes", "feed_sessions", "items_delivered", "items_replayed"),
    *("items_unread", "metrics_left_out", "parameter_bytes", "parameter_bytes_combined"),
    *("parameter_bytes_received", "parameter_bytes_sent", "parameter_pushes", "parameter_workers"),
    *("result_rows", "rows_dropped", "rows_passed_on", "rows_read_elsewhere", "rows_taken_over"),
    *("seconds_without_answer", "steps_passed_over", "stopped_early"),
}
#: By the words that nodes send for them, as JSON has no such numbers. The same object each time:
#: then two looks at a NaN are equal.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Rates:
    """What the metrics of one node become between two looks at them. Threads: one at a time.

    A rate is over the time since the counters of the rates before came. Metrics come with
    heartbeats, so there may be several looks between two of them, which find nothing new.
    """

    def __init__(
        self, now: float, metrics: Mapping[str, Any] | None = None, least_seconds: float = 1.0
    ):
        """``now``: seconds of the clock of all looks, when the counters were those of ``metrics``;
        without it they were zero. Looks that follow on that, or on the last rates, sooner than
        after ``least_seconds`` give no rates, as these would say little. The next ones have what
        has grown meanwhile."""
        self._last = now
        self._least_seconds = least_seconds
        self._before = _numbers(metrics or {})

    def look(self, metrics: Mapping[str, Any], now: float) -> dict[str, float]:
        """Rates of the counters, and other numbers as they are. Nothing where nothing is new."""
        numbers = _numbers(metrics)
        before, seconds = self._before, now - self._last
        if numbers == before:
            return {}
        rates = {}
        if seconds > self._least_seconds:
            self._before, self._last = numbers, now
            rates = {
                _ALL[name]: (value - before.get(name, 0)) / seconds
                for name, value in numbers.items()
                # Less than before: it is another process.
                if name in _ALL
                and value >= before.get(name, 0)
                # A program that goes on, or joins others, does not count its steps from zero.
                and (name != "step" or name in before)
            }
        levels = {
            name: float(value)
            for name, value in numbers.items()
            if name not in _ALL and name not in LEFT_OUT
        }
        return rates | levels


def _numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: value for name, value in metrics.items() if _is_number(value)}
    # A loss that diverges must not stay at its last finite number.
    if (loss := _NOT_FINITE.get(str(metrics.get("loss")))) is not None:
        numbers["loss"] = loss
    return numbers


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
