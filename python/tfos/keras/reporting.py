"""How far ``fit`` has come: what Keras's models report by themselves, without a line of the
program's.

:func:`prepare` has each ``fit`` of a package, Keras 3 or legacy Keras, get one more callback.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from tfos.keras.callback import Callback, add_to_fit
from tfos.keras.skipping import is_skipping, steps_to_skip

#: Between two reports of all numbers; a heartbeat carries the latest.
_INTERVAL_SECONDS = 0.5
#: What the logs of a model may not be called, as the names have a meaning of their own.
_TAKEN = frozenset({"step", "epoch", "epochs", "progress", "steps_passed_over", "stopped_early"})
_MOST_LOGS = 16
_FIRST_STEP = "first step (tracing)"
_EVALUATING = "evaluating"
#: Of an evaluation that is worth a word: those of short epochs are not.
_LONG_SECONDS = 5.0
#: Those that calculate leave a text out.
_UNKNOWN = "unknown"

#: What takes the numbers of a model, and what takes a few words about what it does.
Report = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]
#: What calls a function again and again, in a thread of its own.
LookAgain = Callable[[Callable[[], None]], None]


def prepare(
    package: Any, report: Report, say: Say, look_again: LookAgain = lambda look: None
) -> None:
    """Has models of ``package`` report from now on."""
    count = _count
    evaluations = Evaluations(say)
    look_again(lambda: count.tell_news(report))
    look_again(evaluations.look)

    def make(model: Any) -> Reporting:
        # A model that has a training function has traced it before.
        traces = getattr(model, "train_function", None) is None
        return Reporting(report, say, count, evaluations, traces=traces)

    add_to_fit(package, Reporting, make)


class Count:
    """Steps of all models of a process. Threads: any; what is told is told one after the other, so
    that it only grows. Steps that are passed over were made before, so they are told at once. How
    many were passed over is told besides: it shows that the data come."""

    def __init__(self) -> None:
        self._steps = 0
        self._made_before = 0  # with those that are yet to be passed over
        self._passed_over = 0
        self._told = (0, 0)  # steps, and those that were passed over
        self._told_epochs = False
        self._told_stopped = False
        self._lock = threading.Lock()

    @property
    def steps(self) -> int:
        return self._steps

    def begin_after(self, steps: int, to_skip: int) -> None:
        with self._lock:
            self._steps += steps
            self._made_before = self._steps + to_skip

    def add(self, steps: int, trained: bool = True) -> None:
        """``trained``: they are not passed over, and so nothing is any more. The data may have had
        less of that than was made before."""
        with self._lock:
            if trained:
                self._steps = max(self._steps, self._made_before)
            else:
                self._passed_over += steps
            self._steps += steps

    def _news(self) -> dict[str, Any]:
        """The steps, and what has changed besides. They are told then."""
        before = self._told[1]
        self._told = self._now()
        made, passed_over = self._told
        return {"step": made} | ({"steps_passed_over": passed_over} if passed_over > before else {})

    def _now(self) -> tuple[int, int]:
        return max(self._steps, self._made_before), self._passed_over

    def tell(
        self,
        report: Report,
        numbers: dict[str, Any],
        epoch: int | None,
        epochs: int | None,
        stopped: bool = False,
    ) -> None:
        """Reports the steps with other numbers. What is left out keeps the value that it had, so
        an epoch that is not known takes back that of a ``fit`` before. ``stopped``: a callback has
        ended this one early."""
        with self._lock:
            if epoch is not None:
                self._told_epochs = True
                numbers = numbers | {"epoch": epoch, "epochs": epochs}
            elif self._told_epochs:
                numbers = numbers | {"epoch": _UNKNOWN, "epochs": _UNKNOWN}
            if stopped or self._told_stopped:
                self._told_stopped = stopped
                numbers = numbers | {"stopped_early": int(stopped)}
            report(self._news() | numbers)

    def tell_news(self, report: Report) -> None:
        """Reports the steps that have not been. A model that stands still tells nothing more of
        its last ones itself."""
        with self._lock:
            if self._now() != self._told:
                report(self._news())


_count = Count()


def steps_made() -> int:
    """By all models of this process, with those of :func:`begin_after`."""
    return _count.steps


def begin_after(steps: int, to_skip: int = 0) -> None:
    """``steps`` were made before, by others that this node joins, or before a checkpoint: it tells
    of the same step as they do. ``to_skip``: besides, what this ``fit`` passes over first."""
    _count.begin_after(steps, to_skip)


def tell_stopped(report: Report, epoch: int, epochs: int) -> None:
    """On a node whose ``fit`` ends before its first epoch: a callback had ended the training before
    a checkpoint, after that epoch."""
    _count.tell(report, {"progress": 1.0}, epoch, epochs, stopped=True)


class Evaluations:
    """Says of a model that it evaluates, once that has taken long: it explains why there are no
    steps. Threads: any."""

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._since: float | None = None
        self._said = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        with self._lock:
            self._since = self._clock()

    def look(self) -> None:
        """Again and again: the first batch of an evaluation may be what takes long."""
        with self._lock:
            is_long = self._since is not None and self._clock() - self._since >= _LONG_SECONDS
            if is_long and not self._said:
                self._said = True
                self._say(_EVALUATING)

    def end(self) -> None:
        with self._lock:
            self._since = None
            if self._said:
                self._said = False
                self._say("")


class Reporting(Callback):
    """Reports epochs, steps, the share that is done, and the logs.

    How many steps an epoch has Keras knows at the beginning, or this learns it of the epochs before
    (the last of them, as they may differ). One epoch of which Keras does not know the length may be
    all that is fed, as with ``repeat()``. It is not reported: what the driver feeds says more.

    If the feed has ended, Keras runs through an epoch without a batch. That reports nothing, so the
    numbers of the last batch stay.

    Owner and lifetime: one ``fit``. Threads: any, as Keras may call it from others than the one
    that trains.
    """

    #: Keras 3 need not wait for the values of each step because of it.
    async_safe = True
    #: Nor need legacy Keras, where TensorFlow's parameter servers allow no other callbacks.
    _supports_tf_logs = True

    def __init__(
        self,
        report: Report,
        say: Say,
        count: Count,
        evaluations: Evaluations,
        clock: Callable[[], float] = time.monotonic,
        traces: bool = True,
    ):
        self._report = report
        self._say = say
        self._count = count
        self._evaluations = evaluations
        self._clock = clock
        self._traces = traces
        self._lock = threading.Lock()
        self._epoch = 0
        self._of_epoch = 0  # steps that it has had
        self._to_skip = 0  # of these, that were made before
        self._doing = ""
        self._steps: int | None = None  # of an epoch
        self._last = -math.inf
        self._counts_epochs = True
        self._begins = False  # with its first epoch
        self._waits_for_first = False
        self._has_trained = False  # on a batch of the epoch
        self.model: Any = None
        self.params: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        self._begins = self._waits_for_first = True
        self._steps = (self.params or {}).get("steps")
        epochs = (self.params or {}).get("epochs") or 0
        self._counts_epochs = epochs > 1 or (epochs == 1 and self._steps is not None)
        if self._traces:
            self._say_doing(_FIRST_STEP)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        with self._lock:
            self._epoch, self._of_epoch, self._has_trained = epoch, 0, False
            begins, self._begins = self._begins, False
            self._to_skip, doing = steps_to_skip(self.model) if begins else (0, "")
        if doing:
            self._say_doing(doing)
        # Others are told of with their first batch, which they may never get.
        if begins:
            self._tell({}, now=True)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        with self._lock:
            first_of_epoch = self._of_epoch == 0
            # With steps_per_execution one call is several steps. Calls may overtake each other.
            taken = max(0, batch + 1 - self._of_epoch)
            self._of_epoch += taken
            skips = is_skipping(self.model)
            has_skipped = skips and self._of_epoch >= self._to_skip
            first = self._waits_for_first and not skips
            self._waits_for_first = self._waits_for_first and skips
            self._has_trained = self._has_trained or not skips
            # Keras has zeros for what it has no batch of.
            known = logs if self._has_trained else {}
        self._count.add(taken, trained=not skips)
        if first:
            self._say_doing("")
        elif has_skipped:
            self._say_doing(_FIRST_STEP if self._traces else "")
        self._tell(known, now=first_of_epoch or first)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        with self._lock:
            # Batches that are read past count: the others have trained on them.
            if self._of_epoch == 0:
                return
            self._steps = self._of_epoch
            known = logs if self._has_trained else {}
        self._tell(known, now=True)

    def on_test_begin(self, logs: Any = None) -> None:
        self._evaluations.begin()

    def on_test_end(self, logs: Any = None) -> None:
        self._evaluations.end()

    def on_train_end(self, logs: Any = None) -> None:
        with self._lock:
            epochs = (self.params or {}).get("epochs") or 0
            # A callback of the program may end it early, but not a feed that has ended.
            is_last = self._epoch + 1 >= epochs
            stopped = not is_last and getattr(self.model, "stop_training", False)
            if not (self._has_trained and (is_last or stopped)):
                return
        self._tell({}, now=True, ended=True, stopped=stopped)

    def end(self, returned: bool) -> None:
        """``fit`` has ended, however it did."""
        self._evaluations.end()
        self._say_doing("")

    def _say_doing(self, words: str) -> None:
        """Why there are no steps; empty: nothing keeps them up any more."""
        if words != self._doing:
            self._doing = words
            self._say(words)

    def _tell(self, logs: Any, *, now: bool, ended: bool = False, stopped: bool = False) -> None:
        with self._lock:
            if not now and self._clock() - self._last < _INTERVAL_SECONDS:
                return
            self._last = self._clock()
            epochs = (self.params or {}).get("epochs") or 0
            done: float | None = None
            if epochs and self._steps:
                within = min(1.0, max(self._of_epoch, self._to_skip) / self._steps)
                done = min(1.0, (self._epoch + within) / epochs)
            if ended:
                done = 1.0
            # What is left out keeps the value that it had, in a ``fit`` before perhaps.
            told: dict[str, Any] = {"progress": _UNKNOWN if done is None else done}
            epoch = min(self._epoch + 1, epochs) if self._counts_epochs else None
            # Under the lock, so that the latest comes last.
            self._count.tell(self._report, told | _numbers(logs), epoch, epochs, stopped)


def _numbers(logs: Any) -> dict[str, float]:
    """What can be reported of the logs."""
    numbers: dict[str, float] = {}
    for name, value in (logs or {}).items():
        if len(numbers) == _MOST_LOGS:
            break
        try:
            number = float(value)
        except (AttributeError, TypeError, ValueError):
            continue  # A metric of the program's own may be anything.
        if isinstance(name, str) and name and name not in _TAKEN:
            numbers[name] = number
    return numbers
