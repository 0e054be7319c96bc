"""Values of variables, of whichever Keras or TensorFlow they are."""

from __future__ import annotations

from typing import Any

import numpy as np


def synchronize(model: Any) -> None:
    """Has the variables of a model that trains hold their values. With JAX, Keras takes them out
    for the time of an epoch, and Keras' own callbacks do this whenever they look at their model."""
    put_back = getattr(model, "jax_state_sync", None)
    if put_back is not None:
        put_back()


def whole_value(variable: Any) -> int:
    """Of a variable that counts. ``int`` takes no variables of Keras 3 before 3.5."""
    return int(np.asarray(variable))
