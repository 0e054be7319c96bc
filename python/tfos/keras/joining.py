"""How nodes join a ``fit`` that others have begun (docs/formats/generations.md). For other loops
there is :mod:`tfos.elastic`.

A node that comes later, or in place of a lost one, runs the program from its beginning. Its first
``fit`` waits until those that train have ended a step and let it in. It gets weights, the
optimizer's variables, epoch and step from one of them, and the state of callbacks that can end the
training or change its rate. It reads past the batches that they have trained on in this epoch, and
trains on with them.

Where Spark feeds the nodes, it comes in before an epoch instead: it has no rows of one that has
begun. It waits for that where it asks for its rows, which it gets as soon as it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras import callback_state, reporting
from tfos.keras.callback import Callback


def joining(model: Any, callbacks: Sequence[Any]) -> tuple[list[Callback], list[Callback]]:
    """The callback that lets others in, where they may come and this is what a program runs
    first: to be called before those of the program, ``callbacks``, or after them."""
    if not lets_in():
        return [], []
    check_one_optimizer(model, "fit with nodes=(least, most)")
    if collective.group().feed is not None:
        return [BetweenEpochs(model, callbacks)], []
    return [], [Joining(model, callbacks)]


def lets_in() -> bool:
    """Whether others may join what begins now: where they may come at all, and for the first caller
    of a program, as that is what a node that joins runs first."""
    global _has_begun
    if not collective.group().is_elastic or _has_begun:
        return False
    _has_begun = True
    return True


_has_begun = False


class Joining(Callback):
    """After each step and the program's callbacks: lets in the nodes that wait to join."""

    def __init__(self, model: Any, callbacks: Sequence[Any]) -> None:
        self.model = model
        self._callbacks = callbacks
        self._epoch = 0
        self._steps_before = 0  # that were made before this epoch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        # The step at hand may be counted after this callback has heard of it.
        self._steps_before = reporting.steps_made()
        collective.group().set_in_steps(True)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if collective.group().meet_after_step():
            self.model.optimizer._together.share(
                state_of(self.model),
                self._epoch,
                batch + 1,
                rest_of(self._callbacks, self._steps_before + batch + 1, None),
                joining=True,
            )

    def on_train_end(self, logs: Any = None) -> None:
        collective.group().set_in_steps(False)


class BetweenEpochs(Callback):
    """Before each epoch, and the program's callbacks: lets in the nodes that wait to join. Not
    where ``fit`` begins an epoch in the middle of one of the feed, as with ``steps_per_epoch``."""

    def __init__(self, model: Any, callbacks: Sequence[Any]) -> None:
        self.model = model
        self._callbacks = callbacks
        #: The others have met, and this node comes in.
        self._comes = not collective.group().has_state

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._comes:
            self._comes = False
            return
        group = collective.group()
        epochs = group.feed.epochs_to_begin()
        # All hear in it whether some wait, and whether all can let them in.
        group.set_in_steps(epochs is not None)
        group.barrier("an epoch begins")
        group.set_in_steps(False)
        if group.meet_after_step():
            self.model.optimizer._together.share(
                state_of(self.model),
                epoch,
                rest=rest_of(self._callbacks, reporting.steps_made(), epochs),
                joining=True,
            )


def rest_of(callbacks: Sequence[Any], steps: int, epochs: dict[str, int] | None) -> bytes:
    """What a node that joins gets besides the model's state. ``steps``: that this node has made.
    ``epochs``: those of the feed that the others begin; None where Spark feeds none."""
    given = {
        "callbacks": callback_state.state_of(callbacks),
        "steps": steps,
        "epochs": epochs,
    }
    return callback_state.encoded(given)


def begin_with(rest: bytes, callbacks: Sequence[Any], skipped: int) -> None:
    """On a node that joins: has its callbacks decide as the others', counts the steps that these
    have made, and reads from the epoch on that they begin. ``skipped``: steps of these that it
    reads past, and counts then."""
    if not rest:
        return
    given = callback_state.decoded(rest)
    callback_state.adopt(callbacks, given["callbacks"])
    reporting.begin_after(given["steps"] - skipped, skipped)
    if given["epochs"] is not None:
        collective.group().feed.begin_at(given["epochs"])


def check_one_optimizer(model: Any, what: str) -> None:
    """Raises BadInputError for a model that has optimizers besides that of ``compile``, as a GAN:
    nobody says which variables they train. ``what``: what the model can't have."""
    of_compile = [model.optimizer, getattr(model.optimizer, "inner_optimizer", None)]
    names = [
        name
        for name, value in vars(model).items()
        if hasattr(value, "apply_gradients") and not any(value is each for each in of_compile)
    ]
    if names:
        raise BadInputError(
            f"{what} is for models with one optimizer, that of compile: model.{names[0]} is "
            "another one, and its state would be left out. Train with a loop of your own in "
            "tfos.elastic.State, which takes several optimizers"
        )


def state_of(model: Any) -> list[Any]:
    """What the nodes begin with: weights, statistics of layers, and the optimizer's variables, of
    which one counts its steps. Legacy Keras does not count the rate among these."""
    variables = [*model.weights, *model.optimizer.variables]
    rate = getattr(model.optimizer, "_learning_rate", None)
    if hasattr(rate, "assign") and all(rate is not variable for variable in variables):
        variables.append(rate)
    return variables
