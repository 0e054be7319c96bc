"""Keras optimizers that train one model on all nodes: what is behind ``ctx.distribute``.

The gradients of all nodes are averaged in one operation a step, where the optimizer would begin to
use them: after gradients were accumulated and before they are clipped. When the optimizer is built,
the weights that it trains become those of the chief, and so does the state of an optimizer that had
some. Keras does the rest as on one machine. A saved model knows the plain optimizer only, and loads without tfos.
"""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError

_GRADIENTS = "gradients"
_WEIGHTS = "weights"


def distribute(optimizer: Any, compression: str | None = None) -> Any:
    """An optimizer like ``optimizer``, for training with all nodes.

    Args:
        optimizer: of Keras 3, or of legacy Keras (tf_keras), but not of its module ``legacy``. One
            that was built, as that of a loaded model, keeps its state.
        compression: of gradients, as in :func:`tfos.collective.all_reduce`.
    """
    collective.wire_of(compression)  # An error now rather than in the first step.
    if isinstance(optimizer, str):
        raise BadInputError(f"distribute({optimizer!r}): pass an optimizer, such as "
                            f"keras.optimizers.get({optimizer!r})")
    if getattr(type(optimizer), "is_distributed_by_tfos", False):
        return optimizer
    if _is_of("keras", optimizer):
        return _like(_in_mixed_precision(optimizer), _keras_3_class, compression)
    if _is_of("tf_keras", optimizer) and hasattr(optimizer, "build"):
        return _like(optimizer, _legacy_keras_class, compression)
    raise BadInputError(
        f"{type(optimizer).__module__}.{type(optimizer).__name__} is no optimizer of Keras 3, nor one "
        "of tf_keras.optimizers (those of tf_keras.optimizers.legacy are not supported)")


def _is_of(package: str, optimizer: Any) -> bool:
    return any(kind.__module__.split(".")[0] == package for kind in type(optimizer).__mro__)


def _in_mixed_precision(optimizer: Any) -> Any:
    """With the loss scaling that ``compile`` would put around it: outside of it, every node has to
    see the same overflow, or it would skip a step that others take."""
    import keras

    scaled = keras.optimizers.LossScaleOptimizer
    if keras.config.dtype_policy().name == "mixed_float16" and not isinstance(optimizer, scaled):
        return scaled(optimizer, name="loss_scale_optimizer")
    return optimizer


def _like(optimizer: Any, class_of: Any, compression: str | None) -> Any:
    made = class_of(type(optimizer), compression).from_config(optimizer.get_config())
    if optimizer.built:
        made.build(optimizer._trainable_variables)
        for ours, theirs in zip(made.variables, optimizer.variables, strict=True):
            ours.assign(theirs)
        _start_from_chief(made.variables)
    return made


def _mean(gradients: Sequence[Any], compression: str | None) -> list[Any]:
    return collective.all_reduce(list(gradients), compression=compression, name=_GRADIENTS)


def _start_from_chief(variables: Iterable[Any]) -> None:
    # What builds the optimizer may be a tf.function; its own variables have no values yet then, and
    # get the same ones everywhere.
    with tf.init_scope():
        collective.broadcast_variables(variables, name=_WEIGHTS)


def _disguised(base: type, members: dict[str, Any]) -> type:
    """A subclass that Keras saves as ``base``."""
    return type(base.__name__, (base,), {
        "__module__": base.__module__, "__doc__": base.__doc__, "is_distributed_by_tfos": True, **members})


def _keras_3_class(base: type, compression: str | None) -> type:
    import keras

    def build(self: Any, variables: Any) -> None:
        base.build(self, variables)
        _start_from_chief(variables)

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        # Scaled as they are: an overflow anywhere is one everywhere.
        return base.apply(self, _mean(grads, compression), trainable_variables)

    def clip_gradients(self: Any, grads: Any) -> Any:
        return base._clip_gradients(self, _mean(grads, compression))

    if issubclass(base, keras.optimizers.LossScaleOptimizer):
        return _disguised(base, {"build": build, "apply": apply})
    plain = keras.optimizers.Optimizer
    if not hasattr(base, "_clip_gradients") or base.apply is not plain.apply \
            or base._backend_apply_gradients is not plain._backend_apply_gradients:
        raise BadInputError(
            f"{base.__name__} of Keras {keras.__version__} uses gradients in a way of its own, so they "
            "can't be averaged within it; average them with tfos.collective.all_reduce before")
    return _disguised(base, {"build": build, "_clip_gradients": clip_gradients})


def _legacy_keras_class(base: type, compression: str | None) -> type:
    import tf_keras

    if tf_keras.mixed_precision.global_policy().name == "mixed_float16":
        # compile would scale losses around this optimizer, and skip its step on one node only.
        raise BadInputError("legacy Keras can't train together in mixed_float16; Keras 3 can, or "
                            "mixed_bfloat16")

    def build(self: Any, var_list: Any) -> None:
        was_built = getattr(self, "_built", False)
        base.build(self, var_list)
        if not was_built:
            _start_from_chief(var_list)

    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        gradients, variables = zip(*grads_and_vars, strict=True)
        means = _mean(gradients, compression)
        return base.apply_gradients(self, list(zip(means, variables, strict=True)), *arguments,
                                    **options)

    return _disguised(base, {"build": build, "apply_gradients": apply_gradients})
