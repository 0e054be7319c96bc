"""``ctx.checkpoint`` on one node, without a cluster: a fit that goes on is the fit that was not
interrupted."""

from __future__ import annotations

import os
import pathlib
import threading
import warnings
import weakref

import numpy as np
import pytest

import keras
import tfos
from support.comparing import assert_same
from support.files.remote_files import names_in
from support.programs import checkpoints as programs
from tfos.errors import BadInputError
from tfos.keras import reporting
from tfos.keras.checkpoint import archive, saving
from tfos.keras.checkpoint.directory import State
from tfos.keras.checkpoint.saving import Checkpoints
from tfos.keras.checkpoint.writer import Writer
from tfos.keras.skipping import is_skipping

BATCHES, EPOCHS = programs.BATCHES, programs.EPOCHS
#: An epoch, and how many batches of it were trained on.
MOMENTS = ((1, 2), (0, 1), (1, BATCHES), (2, 4))


class Interrupted(Exception):
    pass


def raise_it(model):
    raise Interrupted


def compiled(optimizer="adam", units=6):
    model = programs.model_of(seed=5, units=units)
    model.compile(
        keras.optimizers.get({"class_name": optimizer, "config": {"learning_rate": 0.01}}), "mse"
    )
    return model


def fit(callback, *more, model=None, batches=BATCHES, epochs=EPOCHS):
    """The model, the epochs that were heard of, and the numbers of the batches that were read."""
    model, read = model or compiled(), []
    history = model.fit(
        programs.dataset_of(0, batches, read),
        epochs=epochs,
        verbose=0,
        callbacks=[callback, programs.wait_for_writer(callback), *more],
    )
    return model, history.epoch, read


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    callback = Checkpoints(str(tmp_path_factory.mktemp("undisturbed")), None, 3)
    return programs.everything_of(fit(callback)[0])


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("hdfs", (1, 2)),
        *(("local", moment) for moment in MOMENTS),
        *(pytest.param("hdfs", moment, marks=pytest.mark.long) for moment in MOMENTS[1:]),
    ],
)
def test_a_fit_goes_on_bit_for_bit(undisturbed, empty_directory, kind, moment):
    directory = f"{empty_directory(kind)}/run"
    with pytest.raises(Interrupted):
        fit(Checkpoints(directory, 0, 2), programs.after_batch(*moment, raise_it))
    found = tfos.last_checkpoint(directory)
    assert (found.epoch, found.step) == moment
    model, epochs, _ = fit(Checkpoints(directory, 0, 2))
    assert epochs == list(range(moment[0], EPOCHS))
    assert_same(programs.everything_of(model), undisturbed)
    found = tfos.last_checkpoint(directory)
    assert (found.epoch, found.step) == (EPOCHS, 0)
    assert len(names_in(directory)) == 2


def test_by_default_it_goes_on_with_the_epoch_that_was_interrupted(undisturbed, tmp_path):
    with pytest.raises(Interrupted):
        fit(Checkpoints(str(tmp_path), None, 3), programs.after_batch(2, 3, raise_it))
    assert tfos.last_checkpoint(tmp_path)[1:] == (2, 0)
    model, epochs, read = fit(Checkpoints(str(tmp_path), None, 3))
    assert epochs == [2] and sorted(set(read)) == list(range(BATCHES))
    assert_same(programs.everything_of(model), undisturbed)


@pytest.mark.parametrize(
    ("moment", "reads_past", "begins_at"),
    [
        ((1, 3), True, BATCHES + 3),
        ((1, 3), False, BATCHES + 3),
        ((0, BATCHES), True, BATCHES),
    ],
)
def test_the_step_that_is_reported_goes_on(tmp_path, monkeypatch, moment, reads_past, begins_at):
    with pytest.raises(Interrupted):
        fit(Checkpoints(str(tmp_path), 0, 3), programs.after_batch(*moment, raise_it))
    monkeypatch.setattr(reporting, "_count", reporting.Count())
    reported = []
    counting = reporting.Reporting(
        reported.append, lambda words: None, reporting._count, reporting.Evaluations(print)
    )
    model = compiled()
    fit(Checkpoints(str(tmp_path), 0, 3, reads_past=reads_past), counting, model=model)
    assert reported[0] == {"step": begins_at, "epoch": moment[0] + 1, "epochs": EPOCHS} | {
        "progress": reported[0]["progress"]
    }
    assert reported[-1]["step"] == int(model.optimizer.iterations)


def test_a_training_that_is_done_is_not_repeated_and_can_be_continued(tmp_path):
    first, _, _ = fit(Checkpoints(str(tmp_path), None, 3))
    again, epochs, _ = fit(Checkpoints(str(tmp_path), None, 3))
    assert epochs == []
    assert_same(programs.everything_of(again), programs.everything_of(first))
    _, epochs, _ = fit(Checkpoints(str(tmp_path), None, 3), epochs=EPOCHS + 2)
    assert epochs == [EPOCHS, EPOCHS + 1]
    # Another fit of the model is not this one.
    more = again.fit(programs.dataset_of(), epochs=1, verbose=0)
    assert more.epoch == [0]


def test_what_spark_feeds_begins_again_with_the_interrupted_epoch(tmp_path):
    with pytest.raises(Interrupted):
        fit(Checkpoints(str(tmp_path), 0, 3), programs.after_batch(1, 3, raise_it))
    begun = []
    callback = Checkpoints(str(tmp_path), 0, 3, reads_past=False)
    model = compiled()
    seen = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: begun.append((epoch, int(model.optimizer.iterations)))
    )
    fit(callback, seen, model=model)
    before = begun[0][1]
    assert begun[0][0] == 1 and before >= BATCHES + 3
    assert begun[1][1] - before >= BATCHES, "all batches of the epoch are trained"


def test_the_newest_is_the_last_written_also_where_an_epoch_begins_again(tmp_path):
    """Its step may be a smaller one."""
    for step in (4, 2):
        callback = Checkpoints(str(tmp_path), 0, 2, reads_past=False)
        with pytest.raises(Interrupted):
            fit(callback, programs.after_batch(1, step, raise_it))
        assert tfos.last_checkpoint(tmp_path)[1:] == (1, step)


def test_less_data_than_before_ends_the_epoch(tmp_path):
    with pytest.raises(Interrupted):
        fit(Checkpoints(str(tmp_path), 0, 3), programs.after_batch(1, 4, raise_it))
    model = compiled()
    counts = []
    count = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: counts.append(int(model.optimizer.iterations))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Keras' own.
        fit(Checkpoints(str(tmp_path), None, 3), count, model=model, batches=2)
    assert counts[1] - counts[0] in (2, 3), "the next epoch is trained from its begin"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (
            {"units": 7},
            r"variable 0 is \S*inner/kernel float32\(4, 6\) in it, and \S*inner/kernel float32\(4, 7\)",
        ),
        ({"optimizer": "sgd"}, r"variable \d+ is .*momentum.* in it, and .* in this program"),
        ({"optimizer": "nadam"}, "in this program"),
        ({"optimizer": "adamw"}, "its optimizer is Adam, and this program's is AdamW"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, other, why):
    fit(Checkpoints(str(tmp_path), None, 3), epochs=1)
    model = compiled(**other)
    before = model.get_weights()
    with pytest.raises(BadInputError, match=f"checkpoint-00000001 is of another model: .*{why}"):
        fit(Checkpoints(str(tmp_path), None, 3), model=model)
    assert_same(model.get_weights(), before)


def test_a_damaged_one_is_passed_over(tmp_path):
    fit(Checkpoints(str(tmp_path), None, 3), epochs=2)
    newest = tfos.last_checkpoint(tmp_path).path
    [file] = pathlib.Path(newest).glob("*.npz")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match=f"{newest} is damaged"):
        _, epochs, _ = fit(Checkpoints(str(tmp_path), None, 3), epochs=2)
    assert epochs == [1]


def test_weights_of_half_the_width_are_kept(tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    try:
        first, _, _ = fit(Checkpoints(str(tmp_path), None, 3), epochs=1)
        again, epochs, _ = fit(Checkpoints(str(tmp_path), None, 3), epochs=1)
    finally:
        keras.config.set_dtype_policy("float32")
    assert first.layers[0].kernel.dtype == "bfloat16"
    assert epochs == []
    assert_same(programs.everything_of(again), programs.everything_of(first))


def test_a_directory_that_cannot_be_written_fails_before_the_first_step(tmp_path):
    (tmp_path / "file").touch()
    model, begun = compiled(), []
    callback = Checkpoints(str(tmp_path / "file" / "run"), None, 3)
    seen = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda *_: begun.append(1))
    with pytest.raises(BadInputError, match=f"{tmp_path}/file/run, can't be used: NotADirectory"):
        fit(callback, seen, model=model)
    assert not begun


@pytest.mark.failure("disk full", "training")
def test_a_checkpoint_that_cannot_be_written_does_not_end_training(undisturbed, faulty):
    reported = []
    callback = Checkpoints(faulty.uri, None, 3, report=lambda **metrics: reported.append(metrics))
    fault = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: faulty.inject("write") if epoch == 1 else None
    )
    with pytest.warns(
        RuntimeWarning,
        match=rf"epoch 2, step 0 was not written to {faulty.uri}: .*injected failure of write",
    ):
        model, epochs, _ = fit(callback, fault)
    assert epochs == list(range(EPOCHS))
    assert_same(programs.everything_of(model), undisturbed)
    assert reported[-1] == {"checkpoints": 2, "checkpoint_failures": 1}
    assert tfos.last_checkpoint(faulty.uri)[1:] == (EPOCHS, 0)
    assert len(names_in(faulty.uri)) == 2


def test_old_ones_that_cannot_be_deleted_are_a_warning_of_their_own(faulty):
    reported = []
    callback = Checkpoints(faulty.uri, None, 1, report=lambda **metrics: reported.append(metrics))
    fault = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: faulty.inject("delete") if epoch == 1 else None
    )
    with pytest.warns(
        RuntimeWarning,
        match=rf"old checkpoints in {faulty.uri} can't be deleted: .*injected failure of delete",
    ) as caught:
        fit(callback, fault)
    assert not any("was not written" in str(one.message) for one in caught)
    assert reported[-1] == {"checkpoints": EPOCHS, "checkpoint_failures": 0}
    assert names_in(faulty.uri) == [f"checkpoint-0000000{EPOCHS}"]


def test_one_that_cannot_be_read_fails_before_the_first_step(faulty):
    fit(Checkpoints(faulty.uri, None, 3), epochs=1)
    faulty.inject("read")
    with pytest.raises(BadInputError, match="can't be used: .*injected failure of read"):
        fit(Checkpoints(faulty.uri, None, 3))
    assert len(names_in(faulty.uri)) == 1


def test_a_fit_after_one_that_failed_begins_where_it_should(tmp_path):
    model = compiled()
    with pytest.raises(Interrupted):
        fit(Checkpoints(str(tmp_path), 0, 3), programs.after_batch(1, 3, raise_it), model=model)
    plain = model.train_function

    # It fails while it reads past the batches of the checkpoint.
    with pytest.raises(Interrupted):
        fit(Checkpoints(str(tmp_path), 0, 3), programs.after_batch(1, 1, raise_it), model=model)
    assert model._initial_epoch is None, "a fit without checkpoints begins at 0"
    assert is_skipping(model)
    _, epochs, _ = fit(Checkpoints(str(tmp_path / "other"), 0, 3), model=model, epochs=2)
    assert epochs == [0, 1]
    assert model.train_function is plain
    assert tfos.last_checkpoint(tmp_path / "other")[1:] == (2, 0)

    _, epochs, _ = fit(Checkpoints(str(tmp_path), 0, 3), model=model)
    assert epochs == [1, 2]
    assert model.train_function is plain


def deciding():
    """Both see a loss that becomes better once: in epoch 1."""
    return [
        keras.callbacks.EarlyStopping(
            "seen", mode="min", patience=3, restore_best_weights=True, start_from_epoch=1
        ),
        keras.callbacks.ReduceLROnPlateau("seen", mode="min", factor=0.5, patience=2),
    ]


def fit_with(
    directory, *more, epochs, losses=(3, 1, 2, 2, 2, 2, 2, 2), deciding=deciding, feed=None
):
    """The model, its epochs with the rate in each, and the callbacks that decide."""
    model, callbacks, rates = compiled(), deciding(), {}
    kept = Checkpoints(str(directory), None, 3, feed=feed)

    class Seen(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            rates[epoch] = float(model.optimizer.learning_rate)

        def on_epoch_end(self, epoch, logs=None):
            logs["seen"] = losses[epoch]

    model.fit(
        programs.dataset_of(),
        epochs=epochs,
        verbose=0,
        callbacks=[Seen(), *callbacks, kept, programs.wait_for_writer(kept), *more],
    )
    return model, rates, callbacks


@pytest.mark.parametrize("moment", [(2, 2), (3, 1), (4, 3)])
def test_callbacks_that_decide_go_on_where_they_were(tmp_path, moment):
    whole, rates, _ = fit_with(tmp_path / "whole", epochs=8)
    assert list(rates) == [0, 1, 2, 3, 4], "it ends three epochs after the best one"
    assert rates[3] > rates[4]
    with pytest.raises(Interrupted):
        fit_with(tmp_path / "run", programs.after_batch(*moment, raise_it), epochs=8)
    again, resumed, (stopping, _) = fit_with(tmp_path / "run", epochs=8)
    assert resumed == {epoch: rates[epoch] for epoch in range(moment[0], 5)}
    assert stopping.best_epoch == 1
    assert_same(programs.everything_of(again), programs.everything_of(whole))


def test_an_epoch_that_was_cut_short_does_not_count_for_callbacks(tmp_path):
    """It is trained again as a whole."""

    class Feed:
        read = 0

        def epochs_read(self):
            return self.read

        def is_cut_short(self):
            return self.read == 2

    def count(epoch, logs):
        feed.read += 1

    def stop(model):
        model.stop_training = True

    feed = Feed()
    _, rates, _ = fit_with(tmp_path / "whole", epochs=8)
    # The feed ends in the third epoch, of whose end callbacks hear nevertheless.
    ends = [keras.callbacks.LambdaCallback(on_epoch_end=count), programs.after_batch(2, 3, stop)]
    fit_with(tmp_path / "run", *ends, epochs=8, feed=feed)
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (2, 3)
    _, resumed, (stopping, _) = fit_with(tmp_path / "run", epochs=8)
    assert resumed == {epoch: rates[epoch] for epoch in (2, 3, 4)}
    assert stopping.best_epoch == 1


def test_a_training_that_a_callback_has_ended_is_done(tmp_path):
    first, _, _ = fit_with(tmp_path, epochs=8)
    again, epochs, _ = fit_with(tmp_path, epochs=8)
    assert epochs == {}
    assert_same(again.get_weights(), first.get_weights())

    def patient():
        stopping, plateau = deciding()
        stopping.patience = 5
        return [stopping, plateau]

    _, epochs, _ = fit_with(tmp_path, epochs=8, deciding=patient)
    assert list(epochs) == [5, 6], "it waits for two more"


def test_a_checkpoint_without_callbacks_is_restored(tmp_path, monkeypatch):
    """As a tfos wrote them that did not save these."""
    monkeypatch.setattr(archive.zipfile.ZipFile, "writestr", lambda *_: None)
    fit_with(tmp_path, epochs=3)
    monkeypatch.undo()
    _, epochs, (stopping, _) = fit_with(tmp_path, epochs=4)
    assert list(epochs) == [3] and stopping.wait == 0


def test_there_are_at_most_two_copies(tmp_path, monkeypatch):
    """One that is written, and one that waits or is made."""
    callback, alive = Checkpoints(str(tmp_path), None, 3), weakref.WeakSet()
    begun, go_on, most = threading.Event(), threading.Event(), []
    write = callback._directory.write
    plain = saving.optimizer_of

    def slowly(state):
        begun.set()
        go_on.wait(60)
        return write(state)

    class Copies(list):
        __hash__ = object.__hash__

    def state(epoch, step, optimizer, variables, *others):
        copies = Copies(variables)
        alive.add(copies)
        return State(epoch, step, optimizer, copies, *others)

    def before_copying(model):
        most.append(len(alive))
        return plain(model)

    monkeypatch.setattr(saving, "State", state)
    monkeypatch.setattr(saving, "optimizer_of", before_copying)
    monkeypatch.setattr(callback._directory, "write", slowly)
    order = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: begun.wait(60) if epoch else None,
        on_train_end=lambda logs: go_on.set(),
    )
    compiled().fit(programs.dataset_of(), epochs=4, verbose=0, callbacks=[order, callback])
    assert most == [0, 1, 1, 1]


def test_what_waits_is_replaced_by_what_comes_later():
    writer, written = Writer(), []
    begun, go_on = threading.Event(), threading.Event()

    def first():
        begun.set()
        go_on.wait(60)
        written.append("first")

    writer.write(first, "first")
    assert begun.wait(60) and writer.is_busy
    for what in ("second", "third", "fourth"):
        writer.write(lambda what=what: written.append(what), what)
    assert not writer.wait(0)
    go_on.set()
    assert writer.wait(60) and not writer.is_busy
    assert written == ["first", "fourth"]
    assert writer.take_outcomes() == [("first", None), ("fourth", None)]
    writer.write(lambda: 1 / 0, "fifth")
    assert writer.wait(60)
    [(what, error)] = writer.take_outcomes()
    assert what == "fifth" and isinstance(error, ZeroDivisionError)


def test_what_cannot_be_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="keep=0"):
        Checkpoints(str(tmp_path), None, 0)
    with pytest.raises(BadInputError, match="every_seconds=-1"):
        Checkpoints(str(tmp_path), -1, 1)
    with pytest.raises(BadInputError, match="one model that all 2 nodes train"):
        fit(Checkpoints(str(tmp_path), None, 1, nodes=2))
    import tf_keras

    legacy = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.Dense(1)])
    legacy.compile("sgd", "mse")
    with pytest.raises(BadInputError, match="models of Keras 3"):
        legacy.fit(
            np.zeros((4, 4)),
            np.zeros((4, 1)),
            verbose=0,
            callbacks=[Checkpoints(str(tmp_path), None, 1)],
        )
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_steps_per_execution_are_counted_as_steps(tmp_path):
    def of_two():
        model = compiled()
        model.compile(keras.optimizers.Adam(0.01), "mse", steps_per_execution=2)
        return model

    whole, _, _ = fit(Checkpoints(str(tmp_path / "whole"), None, 3), model=of_two(), batches=8)
    with pytest.raises(Interrupted):
        fit(
            Checkpoints(str(tmp_path / "run"), 0, 3),
            programs.after_batch(1, 4, raise_it),
            model=of_two(),
            batches=8,
        )
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (1, 4)
    again, _, _ = fit(Checkpoints(str(tmp_path / "run"), 0, 3), model=of_two(), batches=8)
    assert_same(programs.everything_of(again), programs.everything_of(whole))
