"""What the driver tells of its cluster: on its own progress line, and to the coordinator's page."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES, Coordinator
from tfos.cluster.progress import Progress, counted

logger = logging.getLogger(__name__)

#: An inference that is over sooner is not shown.
_SHORT_SECONDS = 5.0
#: Between two lines of one.
_QUIET_SECONDS = 30.0
#: After so long without an answer, the next one belongs to another inference. Spark may need
#: seconds between two stages.
_GAP_SECONDS = 10.0
#: As in the text of PROGRESS.
_WAITS = {"nodes": "nodes wait for rows", "spark": "Spark waits for nodes"}


class Teller:
    """Shows what the driver does, and tells the coordinator, for its page.

    Spark computes an inference in an action of the program's, and nothing of tfos waits for it. So
    this looks at the nodes' metrics whenever they come, and writes a line now and then while rows
    are answered and nothing else is shown. It counts all answers so far, so it never needs to know
    when an inference ends.

    Owner and lifetime: the cluster, as long as it runs. Threads: any; metrics come in the one that
    reads what the coordinator says, which waits for nobody. Errors: none.

    counts: what the driver alone knows of the rows, as in the message ``activity``.
    """

    def __init__(
        self,
        progress: Progress,
        coordinator: Coordinator,
        counts: Callable[[], dict[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._progress = progress
        self._coordinator = coordinator
        self._counts = counts
        self._clock = clock
        self._told: dict[str, Any] = {}
        self._expects_inference = False
        self._waits = 0  # of the driver, that go on
        self._lock = threading.Lock()  # of the field above
        # Of the thread that brings metrics:
        self._answered = 0.0  # rows, at the latest look
        self._had_answers = False  # at that look
        self._since = self._latest = self._last_line = -math.inf
        coordinator.on_metrics = self._metrics_came

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

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While the driver waits. What is shown of that stays as it is at the end."""
        self._count_waits(1)
        try:
            with self._progress.waiting(
                lambda: (self._coordinator.nodes(), self._coordinator.progress)
            ):
                yield
        finally:
            self._count_waits(-1)

    def _count_waits(self, more: int) -> None:
        with self._lock:
            self._waits += more

    def expect_inference(self) -> None:
        """From now on Spark may compute one at any time."""
        self._expects_inference = True

    def _metrics_came(self) -> None:
        if not self._expects_inference:
            return
        try:
            self._look_for_inference()
        except Exception as error:  # a thread's boundary, and the cluster is worth more
            logger.warning("inference is not shown any more: %s", error)
            self._expects_inference = False

    def _look_for_inference(self) -> None:
        now, nodes = self._clock(), self._coordinator.nodes()
        before, self._answered = self._answered, sum(map(_rows_answered, nodes))
        had_answers, self._had_answers = self._had_answers, self._answered > before
        if not self._had_answers:
            return
        # Looks may be further apart than that.
        if now - self._latest >= _GAP_SECONDS and not had_answers:
            self._since = now
        self._latest = now
        # Once all are answered, the program prints something itself.
        if self._waits or not any(map(_is_being_fed, nodes)):
            return
        if now - self._since >= _SHORT_SECONDS and now - self._last_line >= _QUIET_SECONDS:
            self._last_line = now
            self._progress.show_line(nodes, "inferring", self._text())

    def _text(self) -> str:
        """The part of PROGRESS that is about an inference: the nodes may still have the epoch and
        the loss of a training."""
        progress = self._coordinator.progress
        rate, waits = progress.get("rows_per_second"), progress.get("waits")
        return ", ".join(
            part
            for part in (
                f"{self._answered:,.0f} rows answered",
                f"{rate:,.0f} rows/s" if rate is not None else "",
                _WAITS.get(waits or ""),
                *map(progress.get, ("nodes", "silent", "stuck")),
            )
            if part
        )


def _rows_answered(node: dict[str, Any]) -> float:
    """Also by those of which one was lost."""
    if not node.get("feed"):  # The name is the program's.
        return 0.0
    return sum(
        counted(metrics, "result_rows")
        for metrics in [node["metrics"], *node.get("metrics_before", [])]
    )


def _is_being_fed(node: dict[str, Any]) -> bool:
    running = bool(node.get("feed")) and node["state"] not in FINAL_STATES
    return running and counted(node["metrics"], "feed_sessions") > 0
