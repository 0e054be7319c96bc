"""What a ``fit`` that goes on needs of its callbacks and of its model."""

from __future__ import annotations

import math

import pytest

import keras
import tfos
from support.programs import checkpoints as programs
from support.programs import going_on
from tfos.errors import BadInputError
from tfos.keras.checkpoint.saving import Checkpoints
from tfos.keras.joining import check_one_optimizer

BATCHES, EPOCHS = programs.BATCHES, programs.EPOCHS
MOMENT = (1, 2)


class Interrupted(Exception):
    pass


def interrupt(model):
    raise Interrupted


def halve(model):
    model.optimizer.learning_rate = float(model.optimizer.learning_rate) / 2


def rates_of(directory, *more, every=0, reads_past=True):
    """Those of each step that is trained on, with a schedule by epochs and a callback that changes
    the rate in an epoch, both from the rate before."""
    kept = Checkpoints(str(directory), every, 3, reads_past=reads_past)
    model = programs.model_of(seed=5)
    model.compile(keras.optimizers.SGD(0.5), "mse")
    plain, rates = model.optimizer.apply, []

    def apply(*arguments, **options):
        rates.append(float(model.optimizer.learning_rate))
        return plain(*arguments, **options)

    model.optimizer.apply = apply
    model.run_eagerly = True
    model.fit(
        programs.dataset_of(),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2),
            programs.after_batch(1, 1, halve),
            programs.after_batch(1, 4, halve),
            kept,
            programs.wait_for_writer(kept),
            *more,
        ],
    )
    return rates


@pytest.mark.parametrize("moment", [MOMENT, (1, BATCHES)])
def test_the_rate_goes_on_within_an_epoch(tmp_path, moment):
    undisturbed = rates_of(tmp_path / "whole")
    assert len(set(undisturbed)) == 5
    with pytest.raises(Interrupted):
        rates_of(tmp_path / "run", programs.after_batch(*moment, interrupt))
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == moment
    assert rates_of(tmp_path / "run") == undisturbed[moment[0] * BATCHES + moment[1] :]


def test_the_rate_of_an_epoch_that_begins_anew_is_that_of_the_checkpoint(tmp_path):
    with pytest.raises(Interrupted):
        rates_of(tmp_path, programs.after_batch(*MOMENT, interrupt))
    first, second, *_ = rates_of(tmp_path, reads_past=False)
    # It was 0.25, and in the epoch 0.125 and, after a batch, 0.0625, as in the checkpoint.
    assert (first, second) == (0.0625, 0.03125)


@pytest.mark.parametrize(
    "later",
    [
        keras.callbacks.EarlyStopping(monitor="loss"),
        keras.callbacks.ReduceLROnPlateau(monitor="loss"),
    ],
)
def test_callbacks_that_decide_come_before_it(tmp_path, later):
    model = programs.model_of(seed=5)
    model.compile("adam", "mse")
    kept = Checkpoints(str(tmp_path / "run"), None, 3)
    expected = f"comes before {type(later).__name__} in callbacks=.*as the last callback"
    with pytest.raises(BadInputError, match=expected):
        model.fit(programs.dataset_of(), verbose=0, callbacks=[kept, later])
    model.fit(programs.dataset_of(), verbose=0, callbacks=[later, kept])
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (1, 0)


def test_a_model_with_two_optimizers_is_refused(tmp_path):
    model = programs.model_of(seed=5)
    model.compile("adam", "mse")
    model.own_optimizer = model.optimizer
    model.compile(keras.optimizers.LossScaleOptimizer(model.optimizer), "mse")
    check_one_optimizer(model, "this")
    model.critic_optimizer = keras.optimizers.Adam()
    with pytest.raises(BadInputError, match=r"one optimizer.*model\.critic_optimizer is another"):
        model.fit(programs.dataset_of(), verbose=0, callbacks=[Checkpoints(str(tmp_path), None, 3)])


def test_an_epoch_that_is_passed_over_whole_is_not_the_best(spark, leftovers, tmp_path):
    """On a node that reads its data itself."""
    with tfos.run(
        spark,
        going_on.interrupted_after_an_epoch,
        nodes=1,
        args=str(tmp_path),
        input_mode="tensorflow",
    ) as cluster:
        ((epochs, losses),) = cluster.wait()
    assert epochs == list(range(EPOCHS))
    assert [math.isnan(loss) for loss in losses] == [True] + [False] * (EPOCHS - 1)
