"""What a node that joins takes over of the others' callbacks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tf_keras

import keras
from tfos.keras import callback_state, joining, reporting


@pytest.fixture(params=[keras, tf_keras], ids=["keras 3", "legacy"])
def package(request):
    return request.param


def callbacks_of(package, *, chief=False):
    class Own(package.callbacks.EarlyStopping):
        """A program's own remembers more, which is that of its node."""

        place = "there"

    own = Own("loss", patience=3)
    own.place = "here"
    plateau = package.callbacks.ReduceLROnPlateau("loss", patience=2)
    kept = [package.callbacks.ModelCheckpoint("model.keras")] if chief else []
    return [*kept, own, plateau, package.callbacks.EarlyStopping("val_loss")]


def test_callbacks_of_a_node_that_joins_decide_as_those_of_the_others(package):
    theirs, ours = callbacks_of(package, chief=True), callbacks_of(package)
    _, own, plateau, validating = theirs
    own.wait, own.best, own.best_weights, own.place = 2, 0.5, [np.ones(3)], "elsewhere"
    plateau.wait, plateau.cooldown_counter = 1, 4
    validating.wait, validating.stopped_epoch = 3, 7
    callback_state.adopt(ours, callback_state.state_of(theirs))
    own, plateau, validating = ours
    assert (own.wait, own.best, own.place) == (2, 0.5, "here")
    assert np.array_equal(own.best_weights, [np.ones(3)])
    assert (plateau.wait, plateau.cooldown_counter) == (1, 4)
    assert (validating.wait, validating.stopped_epoch, validating.patience) == (3, 7, 0)


def test_a_callback_that_watches_something_else_begins_anew(package):
    theirs = [package.callbacks.EarlyStopping("val_loss")]
    theirs[0].wait, theirs[0].best = 2, 0.5
    ours = [package.callbacks.EarlyStopping("accuracy")]
    callback_state.adopt(ours, callback_state.state_of(theirs))
    assert ours[0].wait == 0 and ours[0].monitor == "accuracy"


def test_the_best_model_that_is_elsewhere_is_not_the_best_one_here(package):
    theirs = [package.callbacks.ModelCheckpoint(name, "loss") for name in ("a.keras", "b.keras")]
    theirs[0].best, theirs[1].best = 0.5, 0.25
    ours = [package.callbacks.ModelCheckpoint(name, "loss") for name in ("a.keras", "c.keras")]
    unknown = ours[1].best
    callback_state.adopt(ours, callback_state.state_of(theirs))
    assert [each.best for each in ours] == [0.5, unknown]


def test_an_epoch_that_was_cut_short_leaves_the_weights_and_files_as_they_are():
    swap, best = keras.callbacks.SwapEMAWeights(), keras.callbacks.ModelCheckpoint("a.keras")
    early = keras.callbacks.EarlyStopping("loss")
    theirs = [early, swap, best]
    begun = callback_state.state_of(theirs)
    early.wait, swap._ema_weights_in_model, best.best = 3, True, 0.5
    ours = [
        keras.callbacks.EarlyStopping("loss"),
        keras.callbacks.SwapEMAWeights(),
        keras.callbacks.ModelCheckpoint("a.keras"),
    ]
    callback_state.adopt(ours, callback_state.state_within(theirs, begun))
    assert (ours[0].wait, ours[1]._ema_weights_in_model, ours[2].best) == (0, True, 0.5)


def test_weights_of_half_the_width_keep_their_type():
    given = np.ones((2, 3), ml_dtypes.bfloat16)
    again = callback_state.decoded(callback_state.encoded([given]))[0]
    assert again.dtype == given.dtype and np.array_equal(again, given)


def test_a_node_may_have_others(package):
    theirs = callbacks_of(package)[:1]
    theirs[0].wait = 2
    ours = [package.callbacks.ReduceLROnPlateau("loss"), *callbacks_of(package)]
    ours[0].wait = 9
    callback_state.adopt(ours, callback_state.state_of(theirs))
    assert [each.wait for each in (ours[0], ours[1])] == [9, 2]


def test_it_goes_to_the_node_as_json(package, monkeypatch):
    theirs, ours = callbacks_of(package), callbacks_of(package)
    theirs[0].best, theirs[0].best_weights = np.float32(0.5), [np.ones((2, 3)), np.zeros(0)]
    theirs[1].best, theirs[2].best = np.inf, None
    rest = joining.rest_of(theirs, 50, None)
    monkeypatch.setattr(reporting, "_count", reporting.Count())
    joining.begin_with(rest, ours, skipped=8)
    assert reporting.steps_made() == 42
    assert [each.best for each in ours] == [0.5, np.inf, None]
    first, second = ours[0].best_weights
    assert np.array_equal(first, np.ones((2, 3))) and second.shape == (0,)


def test_what_nodes_begin_with_has_the_learning_rate_once(package):
    model = package.Sequential([package.layers.Input((2,)), package.layers.Dense(1)])
    model.compile(package.optimizers.Adam(0.5), "mse")
    model.optimizer.build(model.trainable_variables)
    values = [np.asarray(variable) for variable in joining.state_of(model)]
    assert sum(value.shape == () and value == 0.5 for value in values) == 1
