"""What a node that joins takes over of the others' callbacks."""

from __future__ import annotations

import numpy as np
import pytest
import tf_keras

import keras
from tfos.keras import callback_state


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


def test_a_node_may_have_others(package):
    theirs = callbacks_of(package)[:1]
    theirs[0].wait = 2
    ours = [package.callbacks.ReduceLROnPlateau("loss"), *callbacks_of(package)]
    ours[0].wait = 9
    callback_state.adopt(ours, callback_state.state_of(theirs))
    assert [each.wait for each in (ours[0], ours[1])] == [9, 2]
