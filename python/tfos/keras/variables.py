"""Values of variables, of whichever Keras or TensorFlow they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def synchronize(model: Any) -> None:
    """Has the variables of a model that trains hold their values. With JAX, Keras takes them out
    for the time of an epoch, and Keras' own callbacks do this whenever they look at their model."""
    put_back = getattr(model, "jax_state_sync", None)
    if put_back is not None:
        put_back()


def steps_of(optimizer: Any) -> Any:
    """The variable that counts its steps, also those that only add gradients up: ``iterations`` are
    the steps that use them. The scaling of losses counts none, but the optimizer inside."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # The first versions of Keras 3 have one count for both.
    return vars(optimizer).get("_iterations", optimizer.iterations)


def accumulated_in(optimizer: Any) -> list[Any]:
    """The variables in which an optimizer of ``ctx.distribute`` adds up gradients before the nodes
    average them, so they are each node's own. In the scaling of losses there are none: averages go
    into it, which the optimizer inside adds up."""
    return [each for each in getattr(optimizer, "_accumulated_gradients", ()) if each is not None]


def kept_rate(optimizer: Any) -> Callable[[], None]:
    """What gives it the learning rate again that it has now. A ``fit`` that goes on within an epoch
    has the rate of that epoch, and callbacks change it once more as they begin the epoch. Schedules
    need none of it, as they go by the steps."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate: Any = getattr(optimizer, "_learning_rate", None)
    if not hasattr(rate, "assign"):
        return lambda: None
    value = np.asarray(rate)

    def give_again() -> None:
        rate.assign(value)

    return give_again


def whole_value(variable: Any) -> int:
    """Of a variable that counts. ``int`` takes no variables of Keras 3 before 3.5."""
    return int(np.asarray(variable))
