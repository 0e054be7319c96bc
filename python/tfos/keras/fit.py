"""What ``fit`` does otherwise for a model whose optimizer is one of ``ctx.distribute``.

It begins with the chief's weights, whatever was loaded where, and at the end of each epoch the
nodes wait for those that still have rows, see :mod:`tfos.keras.together`. Nodes that join later
come in after a step of the program's first ``fit``: :mod:`tfos.keras.joining`. All of it goes
through callbacks that are added to the program's own. With Keras 3, batches weigh by their rows,
and XLA stays out.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras.callback import Callback
from tfos.keras.joining import (
    BetweenEpochs,
    Joining,
    begin_with,
    joining,
    state_of,
)
from tfos.keras.skipping import OF_OTHERS, RateWithin, note_error, skip_no_more, skip_steps
from tfos.keras.variables import accumulated_in, steps_of


def is_distributed(optimizer: Any) -> bool:
    return getattr(type(optimizer), "is_distributed_by_tfos", False)


def _check_scaling(optimizer: Any) -> None:
    """Raises BadInputError for the scaling of losses around an optimizer of ours: a node that sees
    an overflow would leave out a step that the others wait for it in."""
    if is_distributed(getattr(optimizer, "inner_optimizer", None)):
        raise BadInputError(
            f"{type(optimizer).__name__} is around an optimizer of ctx.distribute, so each node "
            "would skip steps by itself. Call ctx.distribute after set_dtype_policy, or give it "
            "the LossScaleOptimizer"
        )


def prepare(package: Any) -> None:
    """Has models of ``package`` (Keras 3 or legacy Keras) begin and end together."""
    trainer = next(kind for kind in package.Model.__mro__ if "fit" in vars(kind))
    plain = trainer.fit
    if hasattr(plain, "is_of_tfos"):
        return
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def fit(self: Any, *arguments: Any, **options: Any) -> Any:
        given = signature.bind(self, *arguments, **options)
        _check_scaling(getattr(self, "optimizer", None))
        if not is_distributed(getattr(self, "optimizer", None)):
            return plain(*given.args, **given.kwargs)
        given.arguments["callbacks"] = _with_ours(
            self, given.arguments.get("callbacks"), package.callbacks.CallbackList
        )
        try:
            return plain(*given.args, **given.kwargs)
        except Exception as error:
            note_error(self, error)
            raise

    fit.is_of_tfos = True  # type: ignore[attr-defined]
    trainer.fit = fit


def _with_ours(model: Any, callbacks: Any, list_kind: Any) -> Any:
    kept = (
        callbacks.callbacks
        if isinstance(callbacks, list_kind)
        else tf.nest.flatten(callbacks or [])
    )
    # An epoch ends before the program's callbacks hear of it; and training begins after they have
    # loaded what they load.
    ours = (_Begin, _End, BetweenEpochs, Joining)
    theirs = [each for each in kept if not isinstance(each, ours)]
    before, after = joining(model, theirs)
    kept[:] = [*before, _End(model, bool(after)), *theirs, _Begin(model, theirs), *after]
    return callbacks if isinstance(callbacks, list_kind) else kept


class _Begin(Callback):
    """All nodes begin with the weights, the optimizer and the epoch of the chief."""

    #: Keras 3 need not wait for the values of each step because of it.
    async_safe = True
    _supports_tf_logs = True

    def __init__(self, model: Any, callbacks: list[Any]) -> None:
        self.model = model
        self._callbacks = callbacks
        self._rate = RateWithin()

    def on_train_begin(self, logs: Any = None) -> None:
        model, optimizer = self.model, self.model.optimizer
        _warn_of_layers(model)
        optimizer._together.is_eager = model.run_eagerly or tf.config.functions_run_eagerly()
        if not all(layer.built for layer in model._flatten_layers()):
            optimizer._together.share_at_first_step()
            return
        if not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
            optimizer.build(model.trainable_variables)
        # Where Keras 3's BackupAndRestore, on the chief only perhaps, says that training goes on.
        epoch = getattr(model, "_initial_epoch", None) or 0
        shared, steps, rest = optimizer._together.share(
            state_of(model), epoch, keeps=accumulated_in(optimizer)
        )
        if shared != epoch:
            model._initial_epoch = shared
        if steps > 0:
            self._rate.keep(model)
        skips = steps > 0 and skip_steps(model, steps, doing=OF_OTHERS)
        begin_with(rest, self._callbacks, steps if skips else 0)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._rate.begin_epoch()
        # It belongs to this fit alone, which has read it by now: Keras never takes it back.
        self.model._initial_epoch = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._rate.end_batch(self.model)

    def on_train_end(self, logs: Any = None) -> None:
        self.model._initial_epoch = None  # There may have been no epoch.

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        # This node may have fewer batches than the others had trained on.
        skip_no_more(self.model)


def _warn_of_layers(model: Any) -> None:
    """Says which layers do not do what they were told: Keras asks ``tf.distribute`` for the
    others."""
    names = [
        layer.name
        for layer in model._flatten_layers()
        if getattr(layer, "synchronized", False) and layer.trainable
    ]
    if names:
        warnings.warn(
            f"synchronized=True of {', '.join(names)} does nothing with ctx.distribute: each node "
            "normalizes by its own batches. ctx.average_metrics(batch_norm=True) averages the "
            "statistics at the end of each epoch",
            stacklevel=2,
        )


class _End(Callback):
    """An epoch ends when it has ended on all nodes; before its validation, which is of one model
    then."""

    leads = True

    def __init__(self, model: Any, lets_in: bool) -> None:
        """``lets_in``: whether other nodes may come in after steps of this ``fit``."""
        self.model = model
        self._lets_in = lets_in
        self._ended = True

    def on_train_begin(self, logs: Any = None) -> None:
        # Of a callback of an earlier fit, which may have failed.
        self.model.optimizer._together.after_missed_step = lambda missed: None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._ended = False

    def on_test_begin(self, logs: Any = None) -> None:
        self._end()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        model, optimizer = self.model, self.model.optimizer
        if self._lets_in:  # Or else they may in the loop that this is a step of.
            collective.group().set_in_steps(False)
        trained = model.trainable_variables
        own = {id(variable) for variable in accumulated_in(optimizer)}
        shared = [each for each in optimizer.variables if id(each) not in own]
        optimizer._together.end_epoch(steps_of(optimizer), [*trained, *shared], trained)


def prepare_steps() -> None:
    """Has models whose optimizer is one of ours weigh their batches, and train without XLA: it has
    no operation that waits for other nodes, and Keras chooses it by itself where there is a GPU."""
    import keras

    # Where training begins: ``compile`` is looked up before ``ctx.distribute`` among its arguments
    # runs.
    trainer = next(kind for kind in keras.Model.__mro__ if "make_train_function" in vars(kind))
    plain = trainer.make_train_function
    if hasattr(plain, "is_of_tfos"):
        return

    @functools.wraps(plain)
    def make_train_function(self: Any, *arguments: Any, **options: Any) -> Any:
        _check_scaling(self.optimizer)
        if is_distributed(self.optimizer):
            # A function that is there may have been made before ctx.distribute(model.optimizer).
            if getattr(self, "_trains_with", None) is not self.optimizer._together:
                options, arguments = {"force": True}, ()
            self._trains_with = self.optimizer._together
            _weigh_batches(self)
            if self.jit_compile:
                warnings.warn(
                    "jit_compile is left out: XLA can't compile a training step that waits "
                    "for other nodes",
                    stacklevel=2,
                )
                self.jit_compile = False
        return plain(self, *arguments, **options)

    make_train_function.is_of_tfos = True  # type: ignore[attr-defined]
    trainer.make_train_function = make_train_function


def _weigh_batches(model: Any) -> None:
    """Has each training step of the model tell its optimizer what its gradients weigh. There, as
    the optimizer sees nothing of the batch; custom steps call ``compute_loss``, too."""
    plain = model.compute_loss
    if hasattr(plain, "is_of_tfos"):
        return
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def compute_loss(*arguments: Any, **options: Any) -> Any:
        loss = plain(*arguments, **options)
        given = signature.bind(*arguments, **options).arguments
        if given.get("training", True) and is_distributed(model.optimizer):
            weight, may_be_zero = _divisor_of(model.loss, given)
            model.optimizer._together.weigh(weight, may_be_zero=may_be_zero)
        return loss

    compute_loss.is_of_tfos = True  # type: ignore[attr-defined]
    model.compute_loss = compute_loss


def _reductions(losses: Any) -> set[str | None]:
    import keras

    return {
        getattr(loss, "reduction", "sum_over_batch_size") for loss in keras.tree.flatten(losses)
    }


def _divisor_of(losses: Any, batch: Mapping[str, Any]) -> tuple[tf.Tensor | None, bool]:
    """What Keras divides the loss of a batch by, or something in proportion to it, and whether that
    may be 0; None if it divides by nothing."""
    import keras

    def given(*names: str) -> list[Any]:
        tensors = keras.tree.flatten([batch.get(name) for name in names])
        return [tensor for tensor in tensors if tensor is not None]

    reductions, weights = _reductions(losses), given("sample_weight")
    rows = given("x", "y_pred", "y")
    counted = _counted(losses, given("y"), given("y_pred"))
    if reductions == {"mean_with_sample_weight"} and len(weights) == 1:
        # Before the sum, for which small integers are too small.
        weight = tf.cast(weights[0], tf.float64)
        return tf.reduce_sum(weight if counted is None else _product(weight, counted)), True
    if not rows or reductions & {"sum", "none", None}:
        return None, False
    if counted is not None:
        return tf.reduce_sum(counted), True
    return tf.cast(tf.shape(rows[0])[0], tf.float64), False


def _counted(losses: Any, labels: list[Any], outputs: list[Any]) -> tf.Tensor | None:
    """1 for each element that is part of the loss, and 0 for others; None if all are, or if there
    are several losses, which may leave out different ones."""
    import keras

    kinds = keras.tree.flatten(losses)
    if len(kinds) != 1 or kinds[0] is None or len(outputs) != 1 or len(labels) != 1:
        return None
    masks = []
    if (mask := getattr(outputs[0], "_keras_mask", None)) is not None:
        masks.append(tf.cast(mask, tf.float64))
    if (ignored := getattr(kinds[0], "ignore_class", None)) is not None:
        # Perhaps a class such as -1 does not fit the labels' type.
        is_counted = tf.not_equal(tf.cast(labels[0], tf.float64), float(ignored))
        masks.append(tf.cast(is_counted, tf.float64))
    if not masks:
        return None
    return masks[0] if len(masks) == 1 else _product(*masks)


def _product(one: tf.Tensor, another: tf.Tensor) -> tf.Tensor:
    """Of what has a value for each row or element; one of them may have an axis more."""
    if one.shape.rank + 1 == another.shape.rank:
        one = one[..., None]
    elif another.shape.rank + 1 == one.shape.rank:
        another = another[..., None]
    return one * another
