"""Epochs in which nothing is trained. When a feed has ended early, as after ``tfos stop``, Keras
runs through one without a batch, or through all others in a program without tfos's callback."""

from __future__ import annotations

from typing import Any

from tfos.keras.variables import whole_value

#: Where TensorFlow finds the end of the data in the function that trains, Keras's optimizer may
#: have counted a step before.
_STEPS_OF_NO_BATCH = 1


class EpochWatch:
    """Says of an epoch whether it was empty: this node had no batch, and none that it trains with.

    Owner and lifetime: a callback, for one ``fit``, which calls all of it. Threads: the one that
    trains.
    """

    def __init__(self) -> None:
        self._has_batch = False
        self._steps = 0

    def begin(self, model: Any) -> None:
        """An epoch begins."""
        self._has_batch = False
        self._steps = _steps_of(model)

    def add_batch(self) -> None:
        """A batch has ended, also one that was read past."""
        self._has_batch = True

    def is_empty(self, model: Any) -> bool:
        """For the end of the epoch."""
        # A node that has no rows makes the steps of the others.
        return not self._has_batch and _steps_of(model) - self._steps <= _STEPS_OF_NO_BATCH


def _steps_of(model: Any) -> int:
    """Those of the optimizer, where there is one that counts them."""
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    return 0 if iterations is None else whole_value(iterations)
