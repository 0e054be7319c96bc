"""How far the driver is with the epochs that it feeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfos.cluster.progress import counted
from tfos.cluster.training import Training


@dataclass(eq=False)
class Course:
    """How far a call of ``train`` is with its epochs.

    How many items an epoch has is known when one was fed, by what the tasks have counted.

    Owner and lifetime: one call of ``train``. Threads: one changes it, any look at it.

    Attributes:
        jobs, epochs: that there are in all; the epochs include those that nodes replay, and those
            that were done before. A stream has none.
        epochs_before: of these, that an earlier cluster has trained.
        begun: items that the programs had begun with before the first of them.
        read: items that its tasks have read.
        epoch: that is fed now, from 1; 0: none was.
        planned: items of all epochs; 0: not known.
        fed: the share of the epoch that was fed, as far as Spark says.
        over: whether the call has ended, in whatever way.
    """

    jobs: int = 0
    epochs: int = 0
    begun: int = 0
    read: int = 0
    epoch: int = 0
    planned: int = 0
    fed: float = 0.0
    over: bool = False
    epochs_before: int = 0
    _fed_before: float = field(default=0.0, init=False)  # the Spark job that runs

    @classmethod
    def of(cls, plan: Training, nodes: Iterable[Mapping[str, Any]]) -> Course:
        """nodes: those that are fed, with their ``metrics``, and ``metrics_before`` of those that
        were lost before them."""
        begun = sum(
            counted(metrics, "items_delivered")
            - counted(metrics, "items_unread")
            + counted(metrics, "items_replayed")
            for node in nodes
            for metrics in [node["metrics"], *node.get("metrics_before", [])]
        )
        epochs = plan.done + plan.jobs * (1 + plan.replay.epochs)
        return cls(plan.jobs, epochs, max(0, int(begun)), epochs_before=plan.done)

    def enter(self, job: int) -> None:
        """The epochs of the plan's job of this number begin, or all have ended."""
        left = self.epochs - self.epochs_before
        of_job = left // self.jobs
        self.fed = 0.0
        self.epoch = min(self.epochs_before + job * of_job + 1, self.epochs)
        if job:
            self.planned = self.read * left // job

    def begin_job(self) -> None:
        """A Spark job begins to feed; the one for validation comes after the other."""
        self._fed_before = self.fed

    def see(self, share: float) -> None:
        """That job has fed the share, as far as Spark says now. Not more is true: the share may
        have been that of a shuffle before."""
        self.fed = max(self._fed_before, share)

    def count(self, items: int) -> None:
        """The tasks of a job have read them."""
        self.read += items

    def end(self) -> None:
        """Nothing more is fed, also where the call has failed."""
        self.planned = self.planned or self.read
        self.over = True

    def title(self) -> str:
        return f"epoch {self.epoch} of {self.epochs}"

    @property
    def done(self) -> float:
        """The share of the epochs that was fed."""
        return (max(self.epoch - 1, self.epochs_before) + self.fed) / self.epochs


def activity_of(courses: Sequence[Course]) -> dict[str, float]:
    """Calls that go on at once, as the message ``activity`` says it. The epoch is that of the one
    that is behind; once none goes on, that of the last. The items are those of all, as nodes don't
    count theirs by queue."""
    of_epochs = [course for course in courses if course.epochs]
    going = [course for course in of_epochs if not course.over] or of_epochs[-1:]
    shown = min(going, key=lambda course: course.done, default=Course())
    known = all(course.planned or course.over for course in courses)
    return {
        "epoch": shown.epoch,
        "epochs": shown.epochs,
        "epochs_before": shown.epochs_before,
        "epoch_fed": shown.fed,
        "items_before": min((course.begun for course in courses), default=0),
        "items_planned": sum(course.planned for course in courses) if known else 0,
    }
