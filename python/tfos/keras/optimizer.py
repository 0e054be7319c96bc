"""Keras optimizers that train one model on all nodes: what is behind ``ctx.distribute``.

The gradients of all nodes are averaged in one operation a step, where the optimizer would begin to
use them: after gradients were accumulated and before they are clipped. A node's part in the average
is what Keras has divided its loss by, so a model learns what it would on one machine from the
batches of all nodes put together. What else the nodes do together is in :mod:`tfos.keras.together`,
and when ``fit`` does it in :mod:`tfos.keras.fit`. Keras does the rest as on one machine. A saved
model knows the plain optimizer only, and loads without tfos.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras import fit
from tfos.keras.together import Together


def distribute(optimizer: Any, compression: str | None = None) -> Any:
    """Makes ``optimizer`` one that trains with all nodes, and returns it; or, in mixed precision,
    the scaling of losses around it.

    Args:
        optimizer: of Keras 3, where one that was built, as that of a loaded model, keeps its state;
            or a new one of legacy Keras (tf_keras), but not of its module ``legacy``.
        compression: of gradients, as in :func:`tfos.collective.all_reduce`.
    """
    collective.wire_of(compression)  # An error now rather than in the first step.
    if isinstance(optimizer, str):
        raise BadInputError(
            f"distribute({optimizer!r}): pass an optimizer, such as "
            f"keras.optimizers.get({optimizer!r})"
        )
    if fit.is_distributed(optimizer):
        return optimizer
    if _is_of("keras", optimizer):
        import keras

        fit.prepare(keras)
        fit.prepare_steps()
        optimizer = _in_mixed_precision(optimizer)
        return _become(optimizer, _keras_3_class(type(optimizer), compression), compression)
    if _is_of("tf_keras", optimizer) and hasattr(optimizer, "build"):
        if getattr(optimizer, "_built", False):
            raise BadInputError(
                "this optimizer of legacy Keras has been in use: distribute a new one"
            )
        import tf_keras

        fit.prepare(tf_keras)
        return _become(optimizer, _legacy_keras_class(type(optimizer), compression), compression)
    raise BadInputError(
        f"{type(optimizer).__module__}.{type(optimizer).__name__} is not an optimizer of Keras "
        f"3, nor one "
        "of tf_keras.optimizers (those of tf_keras.optimizers.legacy are not supported)"
    )


def _is_of(package: str, optimizer: Any) -> bool:
    return any(kind.__module__.split(".")[0] == package for kind in type(optimizer).__mro__)


def _in_mixed_precision(optimizer: Any) -> Any:
    """With the loss scaling that ``compile`` would put around it: outside of it, every node must
    see the same overflow, or it would skip a step that others take."""
    import keras

    scaled = keras.optimizers.LossScaleOptimizer
    if keras.config.dtype_policy().name == "mixed_float16" and not isinstance(optimizer, scaled):
        return scaled(optimizer, name="loss_scale_optimizer")
    return optimizer


def _become(optimizer: Any, kind: Any, compression: str | None) -> Any:
    """Makes ``optimizer`` one of ``kind``. Another one from its configuration would lose what is
    not in there, such as exclusions from weight decay, and there may be none for its schedule."""
    # Bypasses __setattr__, by which Keras and TensorFlow track variables.
    object.__setattr__(optimizer, "__class__", kind)
    optimizer._together = Together(compression)
    return optimizer


def _disguised(base: Any, compression: str | None, members: dict[str, Any]) -> Any:
    """A subclass that Keras saves as ``base``."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        base.__init__(self, *arguments, **options)
        self._together = Together(compression)

    return type(
        base.__name__,
        (base,),
        {
            "__module__": base.__module__,
            "__doc__": base.__doc__,
            "is_distributed_by_tfos": True,
            "__init__": __init__,
            **members,
        },
    )


def _state_of(optimizer: Any) -> list[Any]:
    return [*optimizer._trainable_variables, *optimizer.variables]


def _keras_3_class(base: Any, compression: str | None) -> Any:
    import keras

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if not self.built and trainable_variables is not None:
            self.build(list(trainable_variables))
        # Scaled as they are: an overflow anywhere is one everywhere.
        means = self._together.mean(grads, _state_of(self))
        return base.apply(self, means, trainable_variables)

    def clip_gradients(self: Any, grads: Any) -> Any:
        # The last batch's weight says nothing of accumulated gradients, which Keras has summed up.
        means = self._together.mean(
            grads, _state_of(self), alike=bool(self.gradient_accumulation_steps)
        )
        return base._clip_gradients(self, means)

    if issubclass(base, keras.optimizers.LossScaleOptimizer):
        return _disguised(base, compression, {"apply": apply})
    plain = keras.optimizers.Optimizer
    if (
        not hasattr(base, "_clip_gradients")
        or base.apply is not plain.apply
        or base._backend_apply_gradients is not plain._backend_apply_gradients
    ):
        raise BadInputError(
            f"{base.__name__} of Keras {keras.__version__} uses gradients in a way of its "
            f"own, so they "
            "can't be averaged within it; average them with tfos.collective.all_reduce before"
        )
    return _disguised(base, compression, {"_clip_gradients": clip_gradients})


def _legacy_keras_class(base: Any, compression: str | None) -> Any:
    import tf_keras

    if tf_keras.mixed_precision.global_policy().name == "mixed_float16":
        # compile would scale losses around this optimizer, and skip its step on one node only.
        raise BadInputError(
            "legacy Keras can't train together in mixed_float16; Keras 3 can, or mixed_bfloat16"
        )

    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        gradients, variables = zip(*grads_and_vars, strict=True)
        if not getattr(self, "_built", False):
            with tf.init_scope():
                self.build(variables)
        means = self._together.mean(gradients, [*variables, *self.variables])
        return base.apply_gradients(
            self, list(zip(means, variables, strict=True)), *arguments, **options
        )

    return _disguised(base, compression, {"apply_gradients": apply_gradients})
