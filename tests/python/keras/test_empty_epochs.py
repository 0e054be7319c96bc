"""Epochs that Keras runs through without a batch, because the feed has ended."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

import keras
import tfos
from support.programs import checkpoints as programs
from tfos.keras import ended_feed
from tfos.keras.callback import Callback
from tfos.keras.checkpoint.saving import Checkpoints
from tfos.keras.empty_epochs import EpochWatch
from tfos.keras.skipping import skip_steps

EPOCHS = 5
pytestmark = pytest.mark.usefixtures("plain_fit")


def feed_that_ends(after_epochs):
    """Has batches in so many epochs, and none in those that follow."""
    import tensorflow as tf

    left = [after_epochs]

    def batches():
        if left[0] > 0:
            left[0] -= 1
            yield from plain.as_numpy_iterator()

    plain = programs.dataset_of()
    return tf.data.Dataset.from_generator(batches, output_signature=plain.element_spec)


def feed_that_begins(after_epochs):
    """Has no batch in so many epochs, and some in those that follow."""
    import tensorflow as tf

    left = [after_epochs]

    def batches():
        if left[0] == 0:
            yield from plain.as_numpy_iterator()
        left[0] = max(0, left[0] - 1)

    plain = programs.dataset_of()
    return tf.data.Dataset.from_generator(batches, output_signature=plain.element_spec)


@pytest.mark.parametrize("fed", [1, 3])
def test_the_last_checkpoint_is_that_of_the_last_epoch_with_rows(tmp_path, fed):
    model = programs.model_of(seed=5, units=6)
    model.compile("adam", "mse")
    callback, heard = Checkpoints(str(tmp_path), None, 3), []
    count = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: heard.append(epoch))
    model.fit(feed_that_ends(fed), epochs=EPOCHS, verbose=0, callbacks=[callback, count])
    assert heard == list(range(EPOCHS)), "Keras has run through all of them"
    assert tfos.last_checkpoint(tmp_path)[1:] == (fed, 0)


@pytest.mark.parametrize("fed", [1, 3])
def test_fit_ends_with_the_feed_and_no_epoch_without_a_batch_is_the_best(tmp_path, fed):
    told = []
    ended_feed.prepare(keras, lambda: True, told.append)
    model = programs.model_of(seed=5, units=6)
    model.compile("adam", "mse")
    seen = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: told.append(math.isnan(logs["loss"]))
    )
    saved = keras.callbacks.ModelCheckpoint(
        tmp_path / "{epoch}-{val_loss:.3f}.keras", monitor="val_loss", save_best_only=True
    )
    history = model.fit(
        feed_that_ends(fed),
        epochs=EPOCHS,
        validation_data=programs.dataset_of(),
        verbose=0,
        callbacks=[saved, seen],
    )
    # The node's link hears of the empty epoch before the program's callbacks do.
    assert told == [False, *[False] * fed, True, True]
    losses = history.history["loss"]
    assert len(history.epoch) == len(losses) == fed + 1
    assert [math.isnan(loss) for loss in losses] == [False] * fed + [True]
    assert not list(tmp_path.glob(f"{fed + 1}-*"))
    assert list(tmp_path.glob("1-*"))


def test_an_epoch_that_an_earlier_cluster_has_trained_whole_is_not_the_best(tmp_path):
    """As when the driver has died after the last step of an epoch: nothing of it is fed again."""
    told = []
    ended_feed.prepare(keras, lambda: False, told.append)
    model = programs.model_of(seed=5, units=6)
    model.compile("adam", "mse")

    class Resumed(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            skip_steps(self.model, 3, reads=False)

    steps = []
    history = model.fit(
        feed_that_begins(after_epochs=1),
        epochs=3,
        validation_data=programs.dataset_of(),
        verbose=0,
        callbacks=[
            Resumed(),
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: steps.append(batch)
            ),
        ],
    )
    assert steps[:4] == [0, 1, 2, 0], "those before the checkpoint, and the first of the next epoch"
    assert [math.isnan(loss) for loss in history.history["loss"]] == [True, False, False]
    assert not any(map(math.isnan, history.history["val_loss"]))
    assert told == [False, True, False]


def test_fit_goes_on_while_the_feed_does():
    ended_feed.prepare(keras, lambda: False)
    model = programs.model_of(seed=5, units=6)
    model.compile("adam", "mse")
    history = model.fit(feed_that_ends(1), epochs=EPOCHS, verbose=0)
    assert len(history.epoch) == EPOCHS


class Together:
    """Of an optimizer that trains with other nodes, which may have rows."""

    all_are_over = False


@pytest.mark.parametrize("others_are_over", [False, True])
def test_nodes_that_train_in_step_end_together(others_are_over):
    callback = ended_feed.EndedFeed(lambda: True)
    callback.model = model = Model()
    model.stop_training = False
    model._together = Together()
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    assert model._together.node_is_over()
    model._together.all_are_over = others_are_over
    callback.on_epoch_end(0, {})
    assert model.stop_training == others_are_over
    callback.on_epoch_begin(1)
    callback.on_train_batch_end(0)
    assert not model._together.node_is_over()


def test_an_epoch_has_ended_on_all_nodes_before_it_is_said_to_be_empty():
    """Whichever was added to ``fit`` first."""

    class Leading(Callback):
        leads = True

    heard = []

    class Fit:
        def fit(self, callbacks=None):
            heard.extend(type(each) for each in callbacks)

    package = SimpleNamespace(Model=Fit, callbacks=SimpleNamespace(CallbackList=type(None)))
    ended_feed.prepare(package, lambda: True)
    Fit().fit(callbacks=[Callback(), Leading()])
    assert heard == [Leading, ended_feed.EndedFeed, Callback]


class Model:
    """What counts steps."""

    def __init__(self):
        self.optimizer = self
        self.iterations = 7


def test_an_epoch_in_which_only_the_others_have_rows_is_not_empty():
    watch, model = EpochWatch(), Model()
    watch.begin(model)
    assert watch.is_empty(model)
    model.iterations += 2
    assert not watch.is_empty(model)
    watch.begin(model)
    assert watch.is_empty(model)


def test_an_epoch_with_batches_is_not_empty_where_nobody_counts_steps():
    watch = EpochWatch()
    watch.begin(None)
    watch.add_batch()
    assert not watch.is_empty(None)
