"""What the node's collective operations take: counters so far, and rates of the last seconds."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from tfos.keras.rates import OF_COLLECTIVES

#: That rates are of, where there was as much.
_SECONDS = 10.0
#: Between two looks that are kept.
_STEP_SECONDS = 0.5
#: Rates that are shares of the time.
_SHARES = frozenset({"share_in_collectives", "share_waiting_for_nodes"})


def counters() -> dict[str, float]:
    """What operations took so far, also the one that goes on, and what of that was waiting for
    other nodes; the bytes of the tensors of those that have ended. Nothing before the first of
    them. Neither imports TensorFlow nor waits for other nodes."""
    group = getattr(sys.modules.get("tfos.collective"), "_group", None)
    if group is None:
        return {}
    seconds, waited = group.seconds
    return {
        "collective_seconds": seconds,
        # Read one after the other, while an operation may end.
        "collective_wait_seconds": min(waited, seconds),
        "collective_bytes": float(group.bytes),
    }


class Recent:
    """Rates of those counters over the last ten seconds. Threads: one at a time."""

    def __init__(
        self,
        read: Callable[[], dict[str, float]] = counters,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._read = read
        self._clock = clock
        self._looks: deque[tuple[float, dict[str, float]]] = deque()

    def look(self) -> dict[str, float]:
        """By the names of :data:`OF_COLLECTIVES`; nothing at the first look that finds counters."""
        read = self._read()
        if not read:
            return {}
        now = self._clock()
        # The oldest that stays is the last one from before these seconds.
        while len(self._looks) > 1 and now - self._looks[1][0] >= _SECONDS:
            self._looks.popleft()
        if not self._looks or now - self._looks[-1][0] >= _STEP_SECONDS:
            self._looks.append((now, read))
        begin, before = self._looks[0]
        if now <= begin:
            return {}
        rates = {
            OF_COLLECTIVES[name]: (value - before[name]) / (now - begin)
            for name, value in read.items()
        }
        # The counters are read a moment before the clock.
        return {
            name: min(1.0, max(0.0, rate)) if name in _SHARES else rate
            for name, rate in rates.items()
        }
