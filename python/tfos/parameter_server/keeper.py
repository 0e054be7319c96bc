"""What Keras has in place of an optimizer that is on parameter servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

import keras
from tfos.errors import BadInputError
from tfos.keras.callback import tell_companions
from tfos.keras.variables import whole_value
from tfos.parameter_server.rules import Adam, Sgd

#: Those of Keras that change a learning rate, by the names of their classes.
_CHANGE_RATES = {"LearningRateScheduler", "ReduceLROnPlateau"}


class GradientKeeper(keras.optimizers.Optimizer):
    """Adds up gradients and leaves the variables alone.

    Owner and lifetime: the :class:`tfos.parameter_server.ParameterServer` of a worker. Threads: the
    one that trains. Errors: :class:`BadInputError` for another learning rate: the servers keep
    theirs.
    """

    #: What the servers have, of Keras.
    plain: Any

    def __init__(self, settings: Sgd | Adam) -> None:
        super().__init__(learning_rate=float(settings.learning_rate), name="gradient_keeper")
        self._rate = np.float32(settings.learning_rate)
        self._options = dataclasses.asdict(settings)
        self.taken = 0  # iterations

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        self.kept = [
            self.add_variable_from_reference(variable, name="gradient") for variable in variables
        ]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_add(self.kept[self._get_variable_index(variable)], gradient)

    def take(self) -> tuple[list[np.ndarray], int]:
        """The gradients since the last take, added up, and how many were."""
        import tensorflow as tf

        applied = whole_value(self.iterations)
        count, self.taken = applied - self.taken, applied
        taken = [np.array(tf.convert_to_tensor(kept)) for kept in self.kept]
        for kept, gradient in zip(self.kept, taken, strict=True):
            kept.assign(np.zeros_like(gradient))
        return taken, count

    @property
    def learning_rate(self) -> Any:
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: Any) -> None:
        if callable(rate) or np.float32(np.asarray(rate)) != self._rate:
            raise BadInputError(_WHY_NOT)

    def check_callbacks(self, callbacks: Iterable[Any]) -> None:
        """Raises :class:`BadInputError` if one of a ``fit`` would change the rate later."""
        for callback in callbacks:
            if _CHANGE_RATES & {kind.__name__ for kind in type(callback).__mro__}:
                raise BadInputError(f"{type(callback).__name__}: {_WHY_NOT}")

    # A model that is saved has what the servers have, as it begins: their state is with them.

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.plain(**self._options).get_config()
        return config

    def save_own_variables(self, store: Any) -> None:
        optimizer = self.plain(**self._options)
        if self.built:
            optimizer.build(self._trainable_variables)
        optimizer.save_own_variables(store)


_WHY_NOT = (
    "an optimizer on parameter servers keeps the learning rate that ctx.parameter_server was "
    "given. To change it while training, leave optimizer= out: then each node has its own "
    "optimizer"
)


def make_keeper(settings: Sgd | Adam) -> GradientKeeper:
    """For what the servers do. Keras saves it as that."""
    tell_companions(keras)
    plain = {Sgd: keras.optimizers.SGD, Adam: keras.optimizers.Adam}[type(settings)]
    names = {"__module__": plain.__module__, "__qualname__": plain.__qualname__, "plain": plain}
    keeper: GradientKeeper = type(plain.__name__, (GradientKeeper,), names)(settings)
    return keeper
