"""A node that joins reads past what the others have trained on, without a cluster."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

import keras
from tfos.keras.fit import _Begin
from tfos.keras.reporting import Count, Evaluations, Reporting
from tfos.keras.skipping import note_error, skip_steps, was_skipping

BATCHES = 4
EPOCHS = 3


class Joins(_Begin):
    """The steps come from the test, and not from another node."""

    steps = 0

    def on_train_begin(self, logs=None):
        skip_steps(self.model, self.steps)


def batches(count):
    """The dataset does not tell how many it has, so Keras looks for one more."""
    batch = tf.TensorSpec([1, 1], tf.float32)
    ones = np.ones((1, 1), np.float32)
    return tf.data.Dataset.from_generator(
        lambda: ((ones, ones) for _ in range(count)), output_signature=(batch, batch)
    )


@pytest.mark.parametrize("steps_per_epoch", [None, BATCHES])
@pytest.mark.parametrize("steps", [1, BATCHES, BATCHES + 3])
def test_all_batches_of_later_epochs_are_trained(steps, steps_per_epoch):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    # A batch takes 1 off the only weight.
    model.compile(keras.optimizers.SGD(1.0), lambda labels, given: given)
    model.set_weights([np.zeros((1, 1), np.float32)])
    joins, trained = Joins(model, []), []
    joins.steps = steps
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: trained.append(-float(model.get_weights()[0][0, 0]))
    )
    model.fit(
        batches(BATCHES if steps_per_epoch is None else BATCHES * EPOCHS),
        epochs=EPOCHS,
        steps_per_epoch=steps_per_epoch,
        verbose=0,
        callbacks=[joins, count],
    )
    first = max(BATCHES - steps, 0)
    assert trained == [first, first + BATCHES, first + 2 * BATCHES]


def test_the_rate_of_the_others_stays():
    """Callbacks have changed it on them, in this epoch and after each of these steps."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    # Of each batch, the only weight shows the rate.
    model.compile(keras.optimizers.SGD(0.5), lambda labels, given: given)
    model.set_weights([np.zeros((1, 1), np.float32)])

    class Given(_Begin):
        def share(self, variables, epoch, **_):
            return epoch, 2, b""

        def on_train_begin(self, logs=None):
            self.model.optimizer._together = self
            super().on_train_begin(logs)

    def halve(number, logs=None):
        model.optimizer.learning_rate = float(model.optimizer.learning_rate) / 2

    halving = keras.callbacks.LambdaCallback(
        on_epoch_begin=halve, on_train_batch_begin=halve, on_train_batch_end=halve
    )
    model.fit(batches(3), verbose=0, callbacks=[halving, Given(model, [])])
    assert model.get_weights()[0][0, 0] == -0.25, "one step; its callback halves what was given"


@pytest.mark.parametrize("steps", [1, BATCHES, BATCHES + 3])
def test_metrics_are_made_when_the_first_batch_is_trained(steps):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse", metrics=["mae", keras.metrics.MeanSquaredError("squares")])
    joins, logged = Joins(model, []), []
    joins.steps = steps
    seen = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: logged.append(sorted(logs))
    )
    history = model.fit(
        batches(BATCHES), epochs=2, verbose=0, callbacks=[joins, seen], validation_data=batches(1)
    )
    names = ["loss", "mae", "squares"]
    skipped = min(steps, BATCHES)
    assert logged == [["loss"]] * skipped + [names] * (2 * BATCHES - skipped)
    assert np.isfinite(history.history["mae"][-1])
    assert sorted(model.get_metrics_result()) == names
    assert "get_metrics_result" not in vars(model)


@pytest.mark.parametrize(("fails_at", "expected"), [(1, True), (2, False)])
def test_an_error_while_steps_are_skipped_is_known_by_what_comes_of_it(fails_at, expected):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    joins = Joins(model, [])
    joins.steps = 2

    def fail(batch, logs):
        if batch == fails_at:
            raise ValueError("seven")

    fails = keras.callbacks.LambdaCallback(on_train_batch_end=fail)
    with pytest.raises(ValueError, match="seven") as caught:
        model.fit(batches(BATCHES), verbose=0, callbacks=[joins, fails])
    note_error(model, caught.value)
    try:
        raise RuntimeError("the training has failed") from caught.value
    except RuntimeError as error:
        assert was_skipping(error) is expected


@pytest.mark.parametrize("was", [True, False])
def test_an_error_that_was_unwrapped_is_looked_through_once(was):
    """What Python prints of it ends, too: each of the two comes of the other."""
    wrapper = RuntimeError("wrapped")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.make_train_function()
    if was:
        skip_steps(model, 1)
        note_error(model, wrapper)
    try:
        try:
            raise wrapper from ValueError("seven")
        except RuntimeError as error:
            raise error.__cause__ from None
    except ValueError as error:
        assert error.__context__ is wrapper and wrapper.__cause__ is error
        assert was_skipping(error) is was


@dataclasses.dataclass(frozen=True)
class DataError(Exception):
    """It takes no attributes."""

    row: int


def test_an_error_that_can_not_be_changed_is_the_one_that_fit_raises():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.make_train_function()
    skip_steps(model, 2)
    error = DataError(7)
    note_error(model, error)
    assert was_skipping(error)


@pytest.mark.parametrize(("steps", "losses"), [(2, [7.0, 7.0]), (BATCHES + 2, [None, 7.0])])
def test_no_loss_is_reported_of_batches_that_were_skipped(steps, losses):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.0), lambda labels, given: given + 7.0)
    model.set_weights([np.zeros((1, 1), np.float32)])
    joins, told = Joins(model, []), []
    joins.steps = steps
    # Each look at the clock is long after the one before, so all is reported.
    times = itertools.count(0.0, 10.0)
    evaluations = Evaluations(print)
    reporting = Reporting(told.append, print, Count(), evaluations, lambda: next(times))
    last = []
    note = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: last.append(told[-1].get("loss"))
    )
    model.fit(
        batches(2 * BATCHES),
        epochs=2,
        steps_per_epoch=BATCHES,
        verbose=0,
        callbacks=[joins, reporting, note],
    )
    assert last == losses
    assert {numbers["loss"] for numbers in told if "loss" in numbers} == {7.0}
    assert told[-1]["step"] == 2 * BATCHES, "steps count as on the other nodes"
