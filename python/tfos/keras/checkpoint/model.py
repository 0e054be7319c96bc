"""What a checkpoint has of a model, and which models it fits."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfos.errors import BadInputError
from tfos.keras.checkpoint.archive import Variable
from tfos.keras.checkpoint.directory import Saved
from tfos.keras.fit import is_distributed
from tfos.keras.joining import check_one_optimizer, state_of


def check(model: Any, nodes: int) -> None:
    """Raises :class:`BadInputError` for a model that ``nodes`` can't have checkpoints of."""
    import keras

    if not isinstance(model, keras.Model) or keras.backend.backend() != "tensorflow":
        raise BadInputError("ctx.checkpoint is for models of Keras 3 on TensorFlow")
    if nodes > 1 and not is_distributed(model.optimizer):
        raise BadInputError(
            f"ctx.checkpoint is for one model that all {nodes} nodes train: compile it with "
            "ctx.distribute(optimizer). Nodes with a model each can have a BackupAndRestore of "
            "Keras each"
        )
    check_one_optimizer(model, "ctx.checkpoint")
    if not all(layer.built for layer in model._flatten_layers()):
        raise BadInputError(
            "ctx.checkpoint needs a model that has its weights before the first step: give it an "
            "input shape, or call it once before it is trained"
        )


def variables_of(model: Any) -> list[Any]:
    """All that a checkpoint has, in its order."""
    return [*state_of(model), *seeds_of(model)]


def are_alike(model: Any, variables: list[Any]) -> list[bool]:
    """Which of them have the same values on all nodes after each step: what is trained, and what
    the optimizer has for it. A node's own are statistics of layers, seeds, gradients that are
    summed up over several batches, and the scales of 8-bit layers. So may be a learning rate; it
    and other single numbers weigh nothing."""
    optimizer = model.optimizer
    own: list[Any] = []
    while optimizer is not None:  # The scaling of losses has another one inside.
        own += getattr(optimizer, "_accumulated_gradients", None) or []
        optimizer = getattr(optimizer, "inner_optimizer", None)
    alike = {id(one) for one in [*model.trainable_variables, *model.optimizer.variables]}
    alike -= {id(one) for one in own}
    return [
        id(one) in alike
        and len(one.shape) > 0
        and not getattr(one, "overwrite_with_gradient", False)
        for one in variables
    ]


def bytes_of(variable: Any) -> int:
    """The size of its value."""
    return math.prod(variable.shape) * tf.as_dtype(variable.dtype).size


def seeds_of(model: Any) -> list[Any]:
    """The states of random numbers, as those of Dropout: a seed, and how many were drawn."""
    weights = {id(weight) for weight in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def described(variable: Any) -> Variable:
    return Variable(variable.path, tf.as_dtype(variable.dtype).name, tuple(variable.shape))


def optimizer_of(model: Any) -> str:
    return type(model.optimizer).__name__


def compare(saved: Saved, variables: list[Variable], optimizer: str) -> None:
    """Raises :class:`BadInputError` if a checkpoint is of another model. Names may differ: Keras
    numbers layers anew for each model of a process."""
    theirs = saved.variables
    place = next(
        (
            place
            for place, (one, other) in enumerate(zip(theirs, variables, strict=False))
            if one[1:] != other[1:]
        ),
        min(len(theirs), len(variables)),
    )
    if place < max(len(theirs), len(variables)):
        there, here = (
            str(each[place]) if place < len(each) else "not there" for each in (theirs, variables)
        )
        what = f"variable {place} is {there} in it, and {here} in this program"
    elif saved.optimizer != optimizer:
        what = f"its optimizer is {saved.optimizer}, and this program's is {optimizer}"
    else:
        return
    raise BadInputError(
        f"{saved.checkpoint.path} is of another model: {what}. Nothing was restored. Train that "
        "model, or give another directory"
    )
