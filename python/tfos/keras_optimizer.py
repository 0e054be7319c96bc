"""Keras optimizers that train one model on all nodes: what is behind ``ctx.distribute``.

The gradients of all nodes are averaged in one operation a step, where the optimizer would begin to
use them: after gradients were accumulated and before they are clipped. A node's part in the average is
what Keras has divided its loss by, so a model learns what it would on one machine from the batches of
all nodes put together. When the optimizer is built,
the weights that it trains become those of the chief, and so does the state of an optimizer that had
some. Keras does the rest as on one machine. A saved model knows the plain optimizer only, and loads without tfos.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any, Iterable, Sequence

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError

_GRADIENTS = "gradients"
_WEIGHTS = "weights"


def distribute(optimizer: Any, compression: str | None = None) -> Any:
    """An optimizer like ``optimizer``, for training with all nodes.

    Args:
        optimizer: of Keras 3, where one that was built, as that of a loaded model, keeps its state;
            or a new one of legacy Keras (tf_keras), but not of its module ``legacy``.
        compression: of gradients, as in :func:`tfos.collective.all_reduce`.
    """
    collective.wire_of(compression)  # An error now rather than in the first step.
    if isinstance(optimizer, str):
        raise BadInputError(f"distribute({optimizer!r}): pass an optimizer, such as "
                            f"keras.optimizers.get({optimizer!r})")
    if _is_distributed(optimizer):
        return optimizer
    if _is_of("keras", optimizer):
        _prepare_models()
        return _with_state_of(_in_mixed_precision(optimizer), compression)
    if _is_of("tf_keras", optimizer) and hasattr(optimizer, "build"):
        if getattr(optimizer, "_built", False):
            raise BadInputError("this optimizer of legacy Keras has been in use: distribute a new one")
        return _legacy_keras_class(type(optimizer), compression).from_config(optimizer.get_config())
    raise BadInputError(
        f"{type(optimizer).__module__}.{type(optimizer).__name__} is no optimizer of Keras 3, nor one "
        "of tf_keras.optimizers (those of tf_keras.optimizers.legacy are not supported)")


def _prepare_models() -> None:
    """Has models whose optimizer is one of ours weigh their batches, and train without XLA: it has
    no operation that waits for other nodes, and Keras chooses it by itself where there is a GPU."""
    import keras

    # Where training begins: `compile` is looked up before `ctx.distribute` among its arguments runs.
    trainer = next(kind for kind in keras.Model.__mro__ if "make_train_function" in vars(kind))
    plain = trainer.make_train_function
    if hasattr(plain, "is_of_tfos"):
        return

    @functools.wraps(plain)
    def make_train_function(self: Any, *arguments: Any, **options: Any) -> Any:
        if _is_distributed(self.optimizer):
            _weigh_batches(self)
            if self.jit_compile:
                warnings.warn("jit_compile is left out: XLA can't compile a training step that waits "
                              "for other nodes", stacklevel=2)
                self.jit_compile = False
        return plain(self, *arguments, **options)

    make_train_function.is_of_tfos = True
    trainer.make_train_function = make_train_function


def _is_distributed(optimizer: Any) -> bool:
    return getattr(type(optimizer), "is_distributed_by_tfos", False)


def _weigh_batches(model: Any) -> None:
    """Has each training step of the model tell its optimizer what its gradients weigh. There, as the
    optimizer sees nothing of the batch; steps of one's own call ``compute_loss``, too."""
    plain = model.compute_loss
    if hasattr(plain, "is_of_tfos"):
        return
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def compute_loss(*arguments: Any, **options: Any) -> Any:
        loss = plain(*arguments, **options)
        given = signature.bind(*arguments, **options).arguments
        if given.get("training", True) and _is_distributed(model.optimizer):
            model.optimizer._together.weight = _weight_of_batch(
                model.loss, [given.get(name) for name in ("x", "y_pred", "y")],
                given.get("sample_weight"))
        return loss

    compute_loss.is_of_tfos = True
    model.compute_loss = compute_loss


def _weight_of_batch(losses: Any, batch: list[Any], sample_weight: Any) -> tf.Tensor | None:
    """What Keras divides the loss of this batch by: its rows, or the sum of their weights. None if it
    divides by nothing."""
    import keras

    reductions = {getattr(loss, "reduction", "sum_over_batch_size")
                  for loss in keras.tree.flatten(losses)}
    if reductions & {"sum", "none", None}:
        return None
    sample_weights = [weight for weight in keras.tree.flatten(sample_weight) if weight is not None]
    if reductions == {"mean_with_sample_weight"} and len(sample_weights) == 1:
        count = tf.reduce_sum(sample_weights[0])
    else:
        tensors = [tensor for tensor in keras.tree.flatten(batch) if tensor is not None]
        if not tensors:
            return None
        count = tf.shape(tensors[0])[0]
    return tf.cast(count, tf.float64)


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


def _with_state_of(optimizer: Any, compression: str | None) -> Any:
    made = _keras_3_class(type(optimizer), compression).from_config(optimizer.get_config())
    if optimizer.built:
        made.build(optimizer._trainable_variables)
        for ours, theirs in zip(made.variables, optimizer.variables, strict=True):
            ours.assign(theirs)
        made._together.start(made.variables)
    return made


class _Together:
    """What an optimizer does with the other nodes."""

    def __init__(self, compression: str | None) -> None:
        self._compression = compression
        self._waiting: list[Any] = []
        #: Of the gradients that come next; None: as those of all others.
        self.weight: Any = None

    def start(self, variables: Iterable[Any]) -> None:
        """Gives variables the values of the chief; before the first step."""
        # A tf.function that makes variables, as that of a model without an input shape, is traced
        # once without values and, when they are there, again.
        with tf.init_scope():
            variables = list(variables)
            self._waiting = [] if all(map(_has_value, variables)) else variables
            if not self._waiting:
                collective.broadcast_variables(variables, name=_WEIGHTS)

    def mean(self, gradients: Sequence[Any], *, alike: bool = False) -> list[Any]:
        """The means over all nodes; with ``alike`` all nodes weigh as much."""
        weight, self.weight = self.weight, None
        if self._waiting:
            self.start(self._waiting)
        with tf.control_dependencies([_never_run()] if self._waiting else []):
            return collective.all_reduce(list(gradients), weight=None if alike else weight,
                                         compression=self._compression, name=_GRADIENTS)


def _has_value(variable: Any) -> bool:
    # Keras 3 has variables of its own around TensorFlow's.
    return bool((variable if isinstance(variable, tf.Variable) else variable.value).is_initialized())


def _never_run() -> tf.Operation:
    return tf.debugging.Assert(False, [
        "the model's weights got no values before the first step, so they can't become those of the "
        "chief: give the model an input shape, or call it once, before it is trained"])


def _disguised(base: type, compression: str | None, members: dict[str, Any]) -> type:
    """A subclass that Keras saves as ``base``."""
    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        base.__init__(self, *arguments, **options)
        self._together = _Together(compression)

    return type(base.__name__, (base,), {
        "__module__": base.__module__, "__doc__": base.__doc__, "is_distributed_by_tfos": True,
        "__init__": __init__, **members})


def _keras_3_class(base: type, compression: str | None) -> type:
    import keras

    def build(self: Any, variables: Any) -> None:
        base.build(self, variables)
        self._together.start(variables)

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        # Scaled as they are: an overflow anywhere is one everywhere.
        return base.apply(self, self._together.mean(grads), trainable_variables)

    def clip_gradients(self: Any, grads: Any) -> Any:
        # Of accumulated gradients, which Keras has summed up, the last batch's weight says nothing.
        means = self._together.mean(grads, alike=bool(self.gradient_accumulation_steps))
        return base._clip_gradients(self, means)

    if issubclass(base, keras.optimizers.LossScaleOptimizer):
        return _disguised(base, compression, {"build": build, "apply": apply})
    plain = keras.optimizers.Optimizer
    if not hasattr(base, "_clip_gradients") or base.apply is not plain.apply \
            or base._backend_apply_gradients is not plain._backend_apply_gradients:
        raise BadInputError(
            f"{base.__name__} of Keras {keras.__version__} uses gradients in a way of its own, so they "
            "can't be averaged within it; average them with tfos.collective.all_reduce before")
    return _disguised(base, compression, {"build": build, "_clip_gradients": clip_gradients})


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
            self._together.start(var_list)

    def apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        gradients, variables = zip(*grads_and_vars, strict=True)
        means = self._together.mean(gradients)
        return base.apply_gradients(self, list(zip(means, variables, strict=True)), *arguments,
                                    **options)

    return _disguised(base, compression, {"build": build, "apply_gradients": apply_gradients})
