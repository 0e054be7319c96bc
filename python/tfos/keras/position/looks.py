"""How the nodes of a ``fit`` agree on the steps after which one of them writes a checkpoint.

It needs to know which rows all of them have trained on by then, and they know it of themselves
alone. So they look together, after steps that all know beforehand: the first node says whether it
writes now, and when they look the next time. If it does, each tells what its batches were made of.
A node whose rows are used up goes along with the steps of the others, and looks with them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfos import collective
from tfos.errors import TfosError
from tfos.keras.checkpoint.archive import Trained
from tfos.keras.fit import is_distributed
from tfos.keras.position.datasets import is_step_by_step

_NOT_ONE_FOR_ONE = "its steps are not the batches of one ctx.dataset on all nodes, one for one"
_DRAWN_ELSEWHERE = (
    "something else than fit may draw from ctx.dataset, such as a callback that iterates over it"
)
_UNKNOWN_ROWS = (
    "a node does not know the rows of all its batches: nodes may replay them (cache=), two calls "
    f"of cluster.train may have fed them, or {_DRAWN_ELSEWHERE}"
)
#: Beyond the last step of an epoch.
_NEVER = 1 << 60
#: Two looks are at least so many seconds apart, where a checkpoint is not due more often.
_LEAST_SECONDS = 1.0
#: And at most so many, if steps stay as fast as they were.
_MOST_SECONDS = 30.0


class Looks:
    """The looks of one node, in one epoch after the other.

    Owner and lifetime: the callback, for one ``fit``. Threads: the one that trains. Errors: those
    of :mod:`tfos.collective`. All nodes call all of it, after the same steps.

    Args:
        feed: the :class:`tfos.feed.datafeed.FeedSource` of the node.
        every: after how many seconds a checkpoint is due; None: never within an epoch.
        due_in: seconds until this node would write one; 0 or less: now.
        save: writes one, with the queue and the rows that were trained on; None: not known.
    """

    def __init__(
        self,
        feed: Any,
        every: float | None,
        due_in: Callable[[], float],
        save: Callable[[Trained | None], None],
    ):
        self._feed = feed
        self._every = every
        self._due_in = due_in
        self._save = save
        self._is_alone = True
        #: What an earlier cluster has trained on of the epoch at hand: b"" is nothing.
        self._before: bytes | None = b""
        self._steps_before = 0
        self._epoch: tuple[str, int] | None = None  # its queue, and its number there
        self._began = 0.0
        #: How many steps of the epoch were made with batches of this node, those before included.
        self._own = 0
        self._next = _NEVER
        #: All nodes can say what they have trained on in this epoch.
        self.is_known = False
        self._is_first = True  # This node is the one that writes, as of the last look.
        #: An epoch has had batches that `fit` did not train on: the next ones may have such, too.
        self._draws_elsewhere = False
        self._why_not = _NOT_ONE_FOR_ONE
        self._said_why_not = False

    def begin_after(self, steps: int, trained: bytes | None) -> None:
        """The next epoch goes on after so many steps, with whose rows an earlier cluster has
        trained: ``trained``. None: another node knows them."""
        self._steps_before, self._before = steps, trained

    def begin_epoch(self, model: Any, params: Any, companions: Sequence[Any]) -> None:
        """With what Keras has told the callback."""
        self._is_alone = not is_distributed(model.optimizer)
        if not self._is_alone:
            model.optimizer._together.after_missed_step = self._after_missed_step
        # Rows of a node that is lost are fed again in the same epoch.
        if not self._is_alone and collective.group().is_elastic:
            self._why_not = "nodes may be lost (nodes=(least, most))"
            return
        can = not self._draws_elsewhere and is_step_by_step(model, params, companions)
        self._epoch = self._feed.begin_log() if can else None
        self.is_known = self._epoch is not None
        if not self._is_alone:
            self.is_known = bool(_gather([self.is_known], "whether rows are known")[:, 1].all())
        self._began = time.monotonic()
        self._own = self._steps_before
        # How long a step takes is known after the first.
        self._next = _NEVER if self._every is None else self._steps_before + 1

    def after_step(self, step: int) -> None:
        """Of the epoch, counted from 1: this node has trained on a batch in it."""
        self._own = step
        self._look_after(step, has_batch=True)

    def end_epoch(self, is_whole: Callable[[], bool]) -> tuple[bool | None, Trained | None]:
        """Whether all nodes have had all their rows of the epoch; None: they have not agreed on
        it. If they have not had them: what was trained on."""
        whole, trained = None, None
        if self.is_known:
            whole = not self._look(not is_whole(), _NEVER, of_all=True)
            if not whole:
                trained = self._trained()
            else:
                self._compare_with_drawn()
        self.is_known = False
        self._steps_before, self._before = 0, b""
        return whole, trained

    def _compare_with_drawn(self) -> None:
        """At the end of an epoch, in which all that was drawn was trained on, or else drawn by
        something else than ``fit``."""
        assert self._epoch is not None
        drawn = self._feed.batches_drawn(*self._epoch)
        if drawn is not None and drawn > self._own - self._steps_before:
            self._draws_elsewhere, self._why_not = True, _DRAWN_ELSEWHERE

    def say_why_not(self) -> None:
        """Once: that a checkpoint does not have the position in the data."""
        if self._said_why_not:
            return
        self._said_why_not = True
        warnings.warn(
            "checkpoints within this epoch don't say which of its rows were trained on, as "
            f"{self._why_not}. A cluster that goes on from them begins the epoch anew",
            RuntimeWarning,
            stacklevel=2,
        )

    def _after_missed_step(self, missed: int) -> None:
        """``missed``: how many steps the others made for which this node had no rows."""
        self._look_after(self._own + missed, has_batch=False)

    def _look_after(self, step: int, has_batch: bool) -> None:
        """Without a batch of the step, a node has not the weights that it led to."""
        if not self.is_known or step != self._next or self._every is None:
            return
        left = self._due_in()
        is_due = has_batch and left <= 0
        made = step - self._steps_before
        a_step = max((time.monotonic() - self._began) / made, 1e-9)
        # At half of the time, as steps may become faster.
        wanted = max((self._every if is_due else left) / 2, min(_LEAST_SECONDS, self._every / 20))
        # They may become slower, too, by a hundred times once the feed is what they wait for: so no
        # more than were made before.
        steps = min(int(min(wanted, _MOST_SECONDS) / a_step), made)
        if self._look(is_due, step + max(1, steps)):
            trained = self._trained()
            if self._is_first:
                self._save(trained)

    def _look(self, is_due: bool, following: int, *, of_all: bool = False) -> bool:
        """Whether the first node writes now; with ``of_all`` whether any would. ``is_due``: whether
        this one would. ``following``: after which step it would look next."""
        self._next = following
        if self._is_alone:
            return is_due
        looks = _gather([is_due, following], "whether a checkpoint is due")
        first = looks[looks[:, 0].argmin()].tolist()
        self._is_first, self._next = first[0] == collective.rank(), first[2]
        return bool(looks[:, 1].any() if of_all else first[1])

    def _trained(self) -> Trained | None:
        """On the first node: what all of them have trained on. None: it is not known."""
        assert self._epoch is not None
        queue, epoch = self._epoch
        nodes = _of_all(
            self._feed.position_after(queue, epoch, self._own - self._steps_before), self._is_alone
        )
        if not self._is_first:
            return None
        if nodes is None or self._before is None:
            self._why_not = _UNKNOWN_ROWS
            return None
        try:
            return queue, self._feed.merge_positions(nodes, self._before)
        except TfosError as error:
            self._why_not = str(error)
            return None


def _of_all(own: bytes | None, is_alone: bool) -> list[bytes] | None:
    """What each node says; None if one of them says nothing."""
    if is_alone:
        return None if own is None else [own]
    known = _gather([own is not None, len(own or b"")], "which rows were trained on")
    if own is None or not known[:, 1].all():
        return None
    every = collective.all_gather(np.frombuffer(own, np.uint8), name="the rows of all nodes")
    return [part.tobytes() for part in np.split(every.numpy(), np.cumsum(known[:-1, 2]))]


def _gather(numbers: list[Any], name: str) -> np.ndarray:
    """A row of each node: its rank, and these numbers."""
    row = [collective.rank(), *map(int, numbers)]
    nodes: np.ndarray = collective.all_gather(tf.constant([row], tf.int64), name=name).numpy()
    return nodes
