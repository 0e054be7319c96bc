"""The callback that writes checkpoints and goes on from the last one: what is behind
``ctx.checkpoint``.

One node writes: the first of those that train. The step thread copies the variables to the host's
memory, and a thread of the callback writes them. :mod:`tfos.keras.checkpoint.restoring` reads them
when training begins.

With ``sharded=True`` each node writes a part. They agree on each checkpoint before they copy what
they write: at the end of an epoch, where they meet anyway, and after a step in which one of them
has asked for it (:mod:`tfos.keras.request`). From then on each goes on by itself, and the first one
writes the manifest when it has found all parts (:mod:`tfos.keras.checkpoint.parts`).
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras import callback_state, reporting
from tfos.keras.callback import Callback, tell_companions
from tfos.keras.checkpoint.agreement import Agreement
from tfos.keras.checkpoint.archive import Trained
from tfos.keras.checkpoint.directory import State
from tfos.keras.checkpoint.model import (
    are_alike,
    bytes_of,
    check,
    described,
    optimizer_of,
    variables_of,
)
from tfos.keras.checkpoint.parts import PartedDirectory, split
from tfos.keras.checkpoint.restoring import Restoring
from tfos.keras.checkpoint.writer import Writer
from tfos.keras.empty_epochs import EpochWatch
from tfos.keras.fit import is_distributed
from tfos.keras.position.looks import Looks
from tfos.keras.skipping import RateWithin, is_skipping, skip_no_more, skip_steps
from tfos.keras.variables import steps_of, whole_value

#: How long the end of training waits for the last checkpoint, in seconds.
LAST_WRITE_TIMEOUT = 600.0


class Checkpoints(Callback):
    """Keeps the state of a ``fit`` in a directory, and begins with what it finds there.

    Owner and lifetime: the program, for one ``fit``. Threads: Keras' own. Errors:
    :class:`BadInputError` when training begins; later a warning, and training goes on.

    Args:
        directory: the files of this ``fit``, and of no other.
        every_seconds: after how many seconds one is due, besides the end of each epoch.
        keep: how many are left there.
        sharded: whether each node writes a part; all reach the directory then.
        nodes: how many train.
        reads_past: whether a node reads its data itself, and so reads past what it was trained on.
        report: publishes metrics.
        epochs_done: how many the driver has found there; it feeds the others. None: it has not
            looked.
        steps_done: of the next epoch the driver feeds what was not trained on after so many steps;
            None: it feeds all of it.
        feed: the :class:`tfos.feed.datafeed.FeedSource` of a node that Spark feeds.
    """

    def __init__(
        self,
        directory: str,
        every_seconds: float | None,
        keep: int,
        *,
        sharded: bool = False,
        nodes: int = 1,
        reads_past: bool = True,
        report: Callable[..., None] | None = None,
        epochs_done: int | None = None,
        steps_done: int | None = None,
        feed: Any = None,
    ):
        if keep < 1:
            raise BadInputError(f"keep={keep}: at least 1 checkpoint is kept")
        if every_seconds is not None and every_seconds < 0:
            raise BadInputError(f"every_seconds={every_seconds} is below 0")
        self._directory = PartedDirectory(directory)
        self._every = every_seconds
        self._keep = keep
        self._sharded = sharded
        self._nodes = nodes
        self._reads_past = reads_past
        self._report = report
        self._epochs_done = epochs_done
        self._steps_done = steps_done
        self._feed = feed
        self._writer = Writer()
        #: The ranks of those that have trained since the epoch began, and are there; none in a node
        #: that has joined them later.
        self._members: list[int] = []
        #: With the other nodes, where each writes a part.
        self._agreement: Agreement | None = None
        self._epoch = 0
        self._step = 0  # of the epoch
        self._epochs_read: int | None = None  # of the feed, when the epoch began
        #: What callbacks remembered then. They count an epoch that was cut short, too.
        self._remembered: callback_state.State = {}
        self._watch = EpochWatch()
        self._looks: Looks | None = None  # of a node that Spark feeds
        #: In the first epoch of a fit that goes on within it.
        self._rate = RateWithin()
        self._restoring = Restoring(self._directory, epochs_done, steps_done)
        self._last_time = 0.0
        self._counts = {"checkpoints": 0, "checkpoint_failures": 0}
        import keras

        tell_companions(keras)

    def on_train_begin(self, logs: Any = None) -> None:
        model = self.model
        check(model, self._nodes)
        self._check_place()
        if self._epochs_done is not None and self.params.get("steps") is not None:
            raise BadInputError(
                "resume: the driver counts the epochs that it feeds, and this fit counts epochs of "
                f"{self.params['steps']} steps. Leave steps_per_epoch and repeat() out: then an "
                "epoch of fit is one of cluster.train"
            )
        skip_no_more(model)  # As a fit that has failed may have left it.
        self._last_time = time.monotonic()
        optimizer = model.optimizer
        if self._feed is not None and not self._sharded:
            self._looks = Looks(
                self._feed,
                self._every,
                self._due_in,
                lambda trained: self._save(self._epoch, self._step, trained),
            )
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        if self._sharded and is_distributed(optimizer):
            self._agreement = Agreement(self._directory, model, self._every is not None)
        if not is_distributed(optimizer):
            self._members = [0]
            position = self._restoring.alone(model, self.companions)
        elif collective.group().has_state:
            position = self._restoring.together(model, self.companions, self._meet)
            if self._agreement is not None:
                self._agreement.begin()
        else:  # It joins others that train, which give it everything.
            position = None
            if self._agreement is not None:
                self._agreement.join()
        if position is not None:
            epoch, step = position
            if step:
                self._rate.keep(model)
            had_ended = callback_state.has_ended_training(self.companions)
            model._initial_epoch = max(epoch, self.params["epochs"]) if had_ended else epoch
            skipped = False
            if step and self._reads_past:
                skipped = skip_steps(model, step)
            elif self._steps_done is not None:
                if step:
                    skipped = skip_steps(model, step, reads=False)
                if self._looks is not None:
                    self._looks.begin_after(step, self._restoring.trained)
            # Curves over the step go on where they were.
            skips = step if skipped else 0
            made = whole_value(steps_of(optimizer)) - skips
            reporting.begin_after(max(0, made - reporting.steps_made()), skips)
            if had_ended and self._report is not None:
                report = self._report
                reporting.tell_stopped(
                    lambda told: report(**told), epoch, max(epoch, self.params["epochs"])
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._rate.begin_epoch()
        self._epoch, self._step = epoch, 0
        self._epochs_read = None if self._feed is None else self._feed.epochs_read()
        self._remembered = callback_state.state_of(self.companions)
        self._watch.begin(self.model)
        if self._looks is not None:
            self._looks.begin_epoch(self.model, self.params, self.companions)
        # It belongs to this fit alone, which has read it by now, and may yet fail.
        self.model._initial_epoch = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._agreement is not None:
            self._agreement.say(
                asks=self._is_due(), prevents=self._writer.is_busy or is_skipping(self.model)
            )

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._step = batch + 1
        self._rate.end_batch(self.model)
        self._watch.add_batch()
        self._note_outcomes()
        if self._agreement is not None:
            if self._agreement.is_due():
                self._save_together(self._agreement, lambda: (self._epoch, self._step))
        elif self._looks is not None and self._looks.is_known:
            if not is_skipping(self.model):
                self._looks.after_step(self._step)
        elif (
            self._writes()  # Each time: a lost node may come again before the next one is due.
            and self._is_due()
            and not self._writer.is_busy
            and not is_skipping(self.model)
        ):
            self._save(self._epoch, self._step)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        skip_no_more(self.model)  # The data may have become less.
        self._note_outcomes()
        # Asked once: what is read ahead may come to the end of the epoch meanwhile.
        is_whole, trained = None, None
        if self._looks is not None:
            is_whole, trained = self._looks.end_epoch(self._is_whole)
        if is_whole is None and self._feed is not None and is_distributed(self.model.optimizer):
            is_whole = self._is_whole_on_all()
        if self._agreement is not None:
            self._save_together(self._agreement, lambda: self._position_after(epoch, is_whole))
            return
        if is_distributed(self.model.optimizer) and collective.group().is_elastic:
            self._meet()  # The first may be lost, and others may have come.
        if self._writes() and (position := self._position_after(epoch, is_whole)) is not None:
            self._save(*position, trained)

    def on_train_end(self, logs: Any = None) -> None:
        self.model._initial_epoch = None  # There may have been no epoch.
        if self._agreement is not None:  # Steps of a later fit ask, too.
            self._agreement.say(asks=False, prevents=False)
        if not self._writer.wait(LAST_WRITE_TIMEOUT):
            warnings.warn(
                f"the last checkpoint was not written to {self._directory.name} within "
                f"{LAST_WRITE_TIMEOUT:.0f} s. The program goes on without it",
                RuntimeWarning,
                stacklevel=2,
            )
        self._note_outcomes()

    def _check_place(self) -> None:
        """Raises :class:`BadInputError` where callbacks with a state come later: each epoch would
        be saved before they decide, and training begins with them afresh after it was restored."""
        before = itertools.takewhile(lambda each: each is not self, self.companions)
        later = callback_state.kinds_of(self.companions[len([*before]) :])
        if later:
            raise BadInputError(
                f"ctx.checkpoint comes before {', '.join(later)} in callbacks=, so a checkpoint "
                "would lack what comes of its epoch there. Give it as the last callback"
            )

    def _due_in(self) -> float:
        """Seconds until a checkpoint within an epoch is due. While one is written, none is."""
        left = self._last_time + (self._every or 0.0) - time.monotonic()
        return max(left, 1e-3) if self._writer.is_busy else left

    def _writes(self) -> bool:
        """Whether this node writes: the first does. One that was lost and has come again before
        the others noticed does not know that it is the first: nobody writes until the next epoch.
        """
        if len(self._members) > 1:
            there = set(collective.group().ranks)
            self._members = [rank for rank in self._members if rank in there]
        return len(self._members) == 1 or self._members[:1] == [collective.rank()]

    def _is_due(self) -> bool:
        """Within an epoch."""
        return self._every is not None and time.monotonic() - self._last_time >= self._every

    def _position_after(self, epoch: int, is_whole: bool | None = None) -> tuple[int, int] | None:
        """Where training would go on, at the end of an epoch; None where nothing is saved.
        ``is_whole``: whether that has had all its rows, if the nodes have agreed on it."""
        # Of an empty one, a later run would believe that it was trained.
        if self._watch.is_empty(self.model):
            return None
        if is_whole is None:
            is_whole = self._is_whole()
        return (epoch + 1, 0) if is_whole else (epoch, self._step)

    def _is_whole(self) -> bool:
        """Whether the epoch that ends here has had all its rows, and not only those that came
        before the feed ended. Raises :class:`BadInputError` where the driver would count others."""
        if self._feed is None or self._epochs_read is None:
            return True
        read = self._feed.epochs_read() - self._epochs_read
        steps = self.params.get("steps")
        # A dataset that repeats itself meets the end of the feed after the last epoch.
        if read == 0 and self._feed.is_cut_short() and (steps is None or self._step < steps):
            return False
        if self._epochs_done is None:
            return True
        if read == 0 and self.model.stop_training:  # A callback has ended it early.
            return False
        if read != 1:
            raise BadInputError(
                f"resume: an epoch of fit must be one of cluster.train, and this one has read to "
                f"the end of {read}. Give fit the dataset of ctx.dataset without repeat(), take() "
                "or cache()"
            )
        return True

    def _is_whole_on_all(self) -> bool:
        """Likewise, of the rows of all nodes: the feed may have ended with some of them unread on
        one node alone. All nodes call it."""
        is_whole = self._watch.is_empty(self.model) or self._is_whole()
        nodes = collective.all_gather(tf.constant([is_whole], tf.int64), name="whether it is whole")
        return bool(nodes.numpy().all())

    def _meet(self) -> list[int]:
        """Learns who trains. All nodes call it."""
        ranks = collective.all_gather(
            tf.constant([collective.rank()], tf.int64), name="the nodes that have checkpoints"
        )
        self._members = ranks.numpy().tolist()
        return self._members

    def _save(self, epoch: int, step: int, trained: Trained | None = None) -> None:
        """``trained``: the rows of the epoch that were trained on, where that is known."""
        if step and self._looks is not None and trained is None:
            self._looks.say_why_not()
        variables = variables_of(self.model)
        state = self._copied(epoch, step, variables, [True] * len(variables), trained)
        directory = self._directory
        self._write(lambda: directory.write(state), epoch, step)

    def _write(self, write: Callable[[], Any], epoch: int, step: int) -> None:
        """Has a checkpoint written, and older ones deleted then."""
        directory, keep = self._directory, self._keep

        def write_and_prune() -> None:
            write()
            try:
                directory.prune(keep)
            except OSError as error:
                raise _PruneError(f"{type(error).__name__}: {error}") from error

        self._writer.write(write_and_prune, f"the checkpoint of epoch {epoch}, step {step}")

    def _copied(
        self,
        epoch: int,
        step: int,
        variables: list[Any],
        own: list[bool],
        trained: Trained | None = None,
    ) -> State:
        """What a node writes: of the variables those that are its ``own``."""
        self._last_time = time.monotonic()
        self._writer.drop_waiting()  # So memory holds two copies at most.
        return State(
            epoch,
            step,
            optimizer_of(self.model),
            # Copies: the next step changes what the variables have.
            [
                (described(one), np.array(tf.convert_to_tensor(one).numpy()) if is_own else None)
                for one, is_own in zip(variables, own, strict=True)
            ],
            callback_state.state_of(self.companions)
            if step == 0
            else callback_state.state_within(self.companions, self._remembered),
            trained,
        )

    def _save_together(
        self, agreement: Agreement, position: Callable[[], tuple[int, int] | None]
    ) -> None:
        """Has each node write its part. All call it. ``position``: where training would go on, as
        the first node has it; None where nothing is saved."""
        agreed = agreement.agree(position)
        if agreed is None:
            return
        epoch, step, ranks = agreed
        if step and self._feed is not None:
            warnings.warn(
                "checkpoints within this epoch don't say which of its rows were trained on, as "
                "each node writes a part (sharded=True). A cluster that goes on from them begins "
                "the epoch anew",
                RuntimeWarning,
                stacklevel=2,
            )
        if len(ranks) == 1:
            self._save(epoch, step)
            return
        model, directory, variables = self.model, self._directory, variables_of(self.model)
        owners = split([*map(bytes_of, variables)], are_alike(model, variables), len(ranks))
        rank, group = collective.rank(), collective.group()
        place = ranks.index(rank)
        state = self._copied(epoch, step, variables, [owner == place for owner in owners])
        plan = agreement.plan(agreed, state)
        if place == 0:
            self._write(
                lambda: directory.write_with_others(plan, state, group.names, lambda: group.ranks),
                epoch,
                step,
            )
        else:
            self._writer.write(
                lambda: directory.write_part(plan, rank, state.variables),
                f"this node's part of the checkpoint of epoch {epoch}, step {step}",
                lambda: directory.give_up_part(plan, rank),
            )

    def _note_outcomes(self) -> None:
        """Says, in the program's thread, what has become of the last ones."""
        outcomes = self._writer.take_outcomes()
        for what, error in outcomes:
            is_there = error is None or isinstance(error, _PruneError)
            self._counts["checkpoints" if is_there else "checkpoint_failures"] += 1
            if isinstance(error, _PruneError):
                warnings.warn(
                    f"old checkpoints in {self._directory.name} can't be deleted: {error}. Newer "
                    "ones are written, and training goes on",
                    RuntimeWarning,
                    stacklevel=2,
                )
            elif error is not None:
                warnings.warn(
                    f"{what} was not written to {self._directory.name}: "
                    f"{type(error).__name__}: {error}. Training goes on, and the checkpoints "
                    "before it are still there",
                    RuntimeWarning,
                    stacklevel=2,
                )
        if outcomes and self._report is not None:
            self._report(**self._counts)


class _PruneError(Exception):
    """A checkpoint was written, and older ones can't be deleted."""
