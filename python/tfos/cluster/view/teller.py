"""What the driver tells of its cluster: on its own progress line, and to the coordinator's page."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES, Coordinator
from tfos.cluster.progress import Progress, counted

logger = logging.getLogger(__name__)

#: An inference that is over sooner is not shown.
_SHORT_SECONDS = 3.0
#: Without an answer or a partition that is being fed, for so long, one is over. Spark may need as
#: long between two stages.
_GAP_SECONDS = 4.0
_INFERRING = "inferring"
#: Nothing is known of the epochs and rows of a training that was before.
_NO_TRAINING = {"epoch": 0, "epochs": 0, "epoch_fed": 0.0, "items_before": 0, "items_planned": 0}


@dataclass
class Inference:
    """One that goes on, as far as the nodes' metrics tell. Units: seconds of the clock, rows."""

    since: float
    latest: float  #: when it was still going on
    before: float  #: rows that had been answered before it
    place: Any  #: where it is shown
    left: float | None = None  #: when something else began there
    shown: bool = False

    def is_over(self, now: float, goes_on: bool) -> bool:
        if self.left is not None and (not goes_on or now - self.left >= _GAP_SECONDS):
            return True
        return now - self.latest >= _GAP_SECONDS


class Teller:
    """Shows what the driver does, and tells the coordinator, for its page.

    Spark computes an inference in an action of the program's, and nothing of tfos waits for it. So
    this looks at the nodes' metrics whenever they come, and shows an inference while nothing else
    is.

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
        self._inference: Inference | None = None
        self._answered = 0.0  # rows, at the latest look
        self._waits = 0  # of the driver, that go on
        self._lock = threading.Lock()  # of the fields above
        coordinator.on_metrics = self._metrics_came

    def __call__(self, doing: str, *, last: bool = False) -> None:
        coordinator = self._coordinator
        with self._lock:
            self._end_inference(may_wait=True)
        waits = coordinator.waits
        if waits and not last:  # Nobody waits any more at the end.
            doing = f"{doing}: {waits}"
        self._progress.show(coordinator.nodes(), doing, coordinator.progress, last=last)
        self._tell_page({"doing": doing, **self._counts()}, last)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While the driver waits. What is shown of that stays as it is at the end."""
        with self._lock:
            self._end_inference(may_wait=True)
            self._waits += 1
        try:
            with self._progress.waiting(
                lambda: (self._coordinator.nodes(), self._coordinator.progress)
            ):
                yield
        finally:
            with self._lock:
                self._waits -= 1

    def expect_inference(self) -> None:
        """From now on Spark may compute one at any time."""
        self._expects_inference = True

    def _tell_page(self, activity: dict[str, Any], anyway: bool = False) -> None:
        if anyway or activity != self._told:
            self._told = activity
            self._coordinator.send("activity", **activity)

    def _metrics_came(self) -> None:
        if not self._expects_inference or not self._lock.acquire(blocking=False):
            return
        try:
            self._look_for_inference()
        except Exception as error:  # a thread's boundary, and the cluster is worth more
            logger.warning("inference is not shown any more: %s", error)
            self._expects_inference = False
        finally:
            self._lock.release()

    def _look_for_inference(self) -> None:
        now, place, nodes = self._clock(), self._progress.place, self._coordinator.nodes()
        before, self._answered = self._answered, sum(map(_rows_answered, nodes))
        if self._waits:
            return
        # The last counts of nodes come when they have ended, and then nobody answers any more.
        answers = self._answered > before and any(map(_may_answer, nodes))
        goes_on = answers or any(map(_is_being_fed, nodes))
        if self._inference is not None:
            if self._inference.left is None and place != self._inference.place:
                self._inference.left = now
            if self._inference.is_over(now, goes_on):
                self._end_inference(may_wait=False)
        if not goes_on:
            return
        inference = self._inference
        if inference is None:
            inference = self._inference = Inference(now, now, before, place)
        inference.latest = now
        # Its last counts come when the next cell of a notebook runs already.
        if inference.left is not None:
            return
        if now - inference.since < _SHORT_SECONDS:
            return
        inference.shown = True
        progress = self._progress_of(inference)
        self._progress.show(nodes, _INFERRING, progress, may_wait=False)
        self._tell_page({"doing": _INFERRING, **self._counts(), **_NO_TRAINING})

    def _end_inference(self, *, may_wait: bool) -> None:
        inference, self._inference = self._inference, None
        if inference is None or not inference.shown:
            return
        nodes = self._coordinator.nodes()
        self._answered = sum(map(_rows_answered, nodes))
        progress = self._progress_of(inference)
        self._progress.settle(nodes, _INFERRING, "no more rows", progress, may_wait=may_wait)
        self._tell_page({"doing": "between feeds", **self._counts()})

    def _progress_of(self, inference: Inference) -> dict[str, Any]:
        """The coordinator's PROGRESS, with what was answered in place of how far a training is."""
        progress = self._coordinator.progress
        answered = f"{max(0.0, self._answered - inference.before):,.0f} rows answered"
        text = ", ".join(filter(None, [answered, progress.get("text")]))
        return progress | {"text": text, "done": None}


def _rows_answered(node: dict[str, Any]) -> float:
    """Also by those of which one was lost."""
    if not node.get("feed"):  # The name is the program's.
        return 0.0
    return sum(
        counted(metrics, "result_rows")
        for metrics in [node["metrics"], *node.get("metrics_before", [])]
    )


def _may_answer(node: dict[str, Any]) -> bool:
    return bool(node.get("feed")) and node["state"] not in FINAL_STATES


def _is_being_fed(node: dict[str, Any]) -> bool:
    return _may_answer(node) and counted(node["metrics"], "feed_sessions") > 0
