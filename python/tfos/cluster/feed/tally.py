"""What the driver counts of the rows that it feeds."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tfos.cluster.coordinator import Coordinator
from tfos.cluster.feed.course import Course, activity_of
from tfos.cluster.feed.plans import fed_nodes
from tfos.cluster.ledger import Ledger
from tfos.cluster.training import Training


class Tally:
    """The ledger of one cluster, and how far the calls of ``train`` are.

    Owner and lifetime: the :class:`tfos.cluster.feed.cluster_feed.ClusterFeed`. Threads: any.
    """

    def __init__(self, coordinator: Coordinator):
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._ledger = Ledger()
        # Of the last call, or of all that go on at once: in the order of their ends, if they have.
        self._courses: list[Course] = []

    def ledger(self) -> Ledger:
        """With what the nodes have reported so far. It is the caller's own."""
        with self._lock:
            self._ledger.update(self._coordinator.nodes())
            return copy.deepcopy(self._ledger)

    def counts(self) -> dict[str, Any]:
        """What the driver alone knows of the rows, as in the message ``activity``."""
        with self._lock:
            return {
                "items_read": self._ledger.read,
                "items_moved": self._ledger.moved,
                "unit": self._ledger.unit,
                "cut_short": self._ledger.cut_short,
                **activity_of(self._courses),
            }

    def cut_short(self) -> None:
        """What becomes of the rows from now on is not counted."""
        with self._lock:
            self._ledger.cut_short = True

    def count_done(self, epochs: int) -> None:
        """Counts epochs that an earlier cluster has trained. Less than 0: those of a call that may
        be made again."""
        with self._lock:
            self._ledger.epochs_before += epochs

    @contextmanager
    def course_of(self, plan: Training) -> Iterator[Course]:
        """That of a call of ``train``, which goes on in the block."""
        with self._lock:
            if plan.position:
                self._ledger.rows_before = plan.position.rows
        course = self._begin(Course.of(plan, fed_nodes(self._coordinator)))
        try:
            yield course
        finally:
            with self._lock:
                course.end()
                self._courses.remove(course)
                self._courses.append(course)

    def course_of_stream(self) -> Course:
        """Nobody says when a stream ends, nor how much comes of it."""
        return self._begin(Course())

    def _begin(self, course: Course) -> Course:
        with self._lock:
            # Nobody knows whether a stream is over, so what is shown of later calls leaves it out.
            if all(one.over or not one.epochs for one in self._courses):
                self._courses.clear()
            self._courses.append(course)
        return course

    def begin_job(self, course: Course, pickled: bool) -> None:
        """A Spark job begins to feed pickled batches, or rows."""
        with self._lock:
            self._ledger.begin_job(pickled)
            course.begin_job()

    def count_job(
        self, course: Course, counts: Sequence[tuple[int, int]], was_counted: bool
    ) -> None:
        """Enters what the tasks of the job have fed, and how much of it they moved. What a job has
        that is fed again was counted."""
        of_tasks = [(0 if was_counted else items, moved) for items, moved in counts]
        with self._lock:
            self._ledger.count_job(of_tasks)
            course.count(sum(items for items, _ in of_tasks))
