"""How nodes agree on checkpoints of which each writes a part: that they share a directory, when one
is due, and which nodes write it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras.checkpoint.directory import State, unusable
from tfos.keras.checkpoint.parts import PartedDirectory, Plan
from tfos.keras.request import Request
from tfos.keras.variables import whole_value


class Agreed(NamedTuple):
    """A checkpoint that all nodes write now.

    Attributes:
        epoch, step: where training goes on.
        ranks: of the nodes.
    """

    epoch: int
    step: int
    ranks: list[int]


class Agreement:
    """What the nodes know together of their checkpoints.

    Owner and lifetime: the callback of each node, for one ``fit``. Threads: the one that trains.
    All nodes call the same methods at the same step, apart from ``say``. Errors: those of
    :mod:`tfos.collective`, and what methods name.

    Args:
        directory: where all write.
        model: which trains with an optimizer of ``ctx.distribute``.
        within_epochs: whether there are some besides those at the ends of epochs.
    """

    def __init__(self, directory: PartedDirectory, model: Any, within_epochs: bool):
        self._directory = directory
        self._model = model
        self._request = _request_of(model) if within_epochs else None
        #: Of the directory.
        self._mark: int | None = None
        #: Of the last checkpoint that they began, as far as this node knows.
        self._number = 0

    def begin(self) -> None:
        """Raises :class:`BadInputError` on all nodes if some do not reach the directory of the
        first one."""
        while True:
            first = int(self._meet()[0, 0])
            found = (0, 0)
            if collective.rank() == first:
                try:
                    found = self._directory.begin()
                except OSError as error:
                    raise unusable(self._directory.name, error) from error
            try:
                given = collective.broadcast(
                    tf.constant(found, tf.int64), first, name="the mark of the directory"
                )
            except tf.errors.AbortedError:
                continue  # It was lost: the next one begins.
            break
        self._mark, self._number = given.numpy().tolist()
        nodes = collective.all_gather(
            tf.constant([[collective.rank(), self._reaches_directory()]], tf.int64),
            name="the nodes that reach the directory",
        ).numpy()
        if not nodes[:, 1].all():
            names = collective.group().names
            others = ", ".join(names[rank] for rank, reaches in nodes.tolist() if not reaches)
            raise BadInputError(
                f"ctx.checkpoint(sharded=True): {others} can't read and write in "
                f"{self._directory.name} what {names[first]} has written there. Each node writes a "
                "part, so give a directory that all of them share, or leave sharded=True out"
            )

    def join(self) -> None:
        """In place of ``begin``, on a node that joins the others, which can't be asked yet. Raises
        :class:`BadInputError` if it does not find what they have begun."""
        try:
            self._mark = self._directory.mark()
            self._directory.try_to_write()
            # Those who knew the number of the last one may be lost before the next.
            self._number = self._directory.last_number()
        except OSError as error:
            raise unusable(self._directory.name, error) from error
        if self._mark is None:
            raise BadInputError(
                "ctx.checkpoint(sharded=True): this node joins others, and finds nothing of theirs "
                f"in {self._directory.name}. Each node writes a part, so give a directory that all "
                "of them share, or leave sharded=True out"
            )

    def say(self, *, asks: bool, prevents: bool) -> None:
        """Whether this node wants one after the next steps, or can't have one."""
        if self._request is not None:
            self._request.say(asks=asks, prevents=prevents)

    def is_due(self) -> bool:
        """Whether all write one after the step that has just ended."""
        return self._request is not None and self._request.take()

    def agree(self, position: Callable[[], tuple[int, int] | None]) -> Agreed | None:
        """Which one they write now. ``position``: where training would go on, as the first node
        has it; None where nothing is saved."""
        while True:
            nodes = self._meet()
            ranks = nodes[:, 0].tolist()
            own = position() if collective.rank() == ranks[0] else None
            try:
                given = collective.broadcast(
                    tf.constant([own is not None, *(own or (0, 0))], tf.int64),
                    ranks[0],
                    name="what is saved",
                )
            except tf.errors.AbortedError:
                continue  # It was lost: the next one says.
            break
        is_saved, epoch, step = given.numpy().tolist()
        if not is_saved:
            return None
        self._number = int(nodes[:, 1].max()) + 1
        return Agreed(epoch, step, ranks)

    def plan(self, agreed: Agreed, state: State) -> Plan:
        """How they write it. Nodes whose steps or variables differ have other plans, so the parts
        of no two states are one checkpoint."""
        return Plan.of(
            self._number,
            agreed.ranks,
            self._mark,
            [state.epoch, state.step, whole_value(self._model.optimizer.iterations)],
            state.optimizer,
            [(variable.dtype, variable.shape) for variable, _ in state.variables],
        )

    def _meet(self) -> Any:
        """A row of each node: its rank, and its number."""
        return collective.all_gather(
            tf.constant([[collective.rank(), self._number]], tf.int64),
            name="the nodes that have checkpoints",
        ).numpy()

    def _reaches_directory(self) -> bool:
        """Whether this node has the directory of the first one, and may write there."""
        try:
            if self._directory.mark() != self._mark:
                return False
            self._directory.try_to_write()
        except OSError as error:
            warnings.warn(str(unusable(self._directory.name, error)), RuntimeWarning, stacklevel=2)
            return False
        return True


def _request_of(model: Any) -> Request:
    if getattr(model, "steps_per_execution", 1) != 1:
        raise BadInputError(
            "ctx.checkpoint(sharded=True, every_seconds=...) is for steps_per_execution=1: the "
            "nodes agree after each step. Leave one of them out"
        )
    together = model.optimizer._together
    request: Request | None = together.request
    if request is None:
        request = together.make_request()
        model.make_train_function(force=True)
    request.say(asks=False, prevents=False)
    request.take()  # As a fit that has failed may have left it.
    return request
