"""What models of Keras report by themselves."""

from __future__ import annotations

import numpy as np
import pytest
import tf_keras

import keras
from tfos.keras import reporting
from tfos.keras.skipping import skip_no_more, skip_steps


class Sink:
    """Takes what a node would tell its agent."""

    def __init__(self):
        self.reports = []
        self.said = []

    def of(self, name):
        return [report.get(name) for report in self.reports]


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture(params=["keras 3", "legacy"])
def package(request, sink, monkeypatch):
    """With its ``fit`` prepared for the test alone."""
    made = keras if request.param == "keras 3" else tf_keras
    trainer = next(kind for kind in made.Model.__mro__ if "fit" in vars(kind))
    monkeypatch.setattr(trainer, "fit", trainer.fit)
    # Every step is told, however fast they come.
    monkeypatch.setattr(reporting, "_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(reporting, "_count", reporting.Count())
    reporting.prepare(made, sink.reports.append, sink.said.append)
    return made


def model_of(package):
    model = package.Sequential([package.layers.Input((2,)), package.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    return model


ROWS = np.ones((12, 2), np.float32), np.ones((12, 1), np.float32)


def test_fit_tells_epochs_steps_share_and_logs(package, sink):
    model = model_of(package)
    model.fit(*ROWS, batch_size=4, epochs=2, verbose=0)
    first, *_, last = sink.reports
    assert first == {"step": 0, "progress": 0.0, "epoch": 1, "epochs": 2}
    assert last == {"step": 6, "progress": 1.0, "epoch": 2, "epochs": 2}
    shares = sink.of("progress")
    assert shares == sorted(shares) and 0.5 in shares
    assert {"loss", "mae"} <= sink.reports[-2].keys()
    assert sink.said[0] == "first step (tracing)" and set(sink.said[1:]) == {""}
    model.fit(*ROWS, batch_size=4, verbose=0)
    assert sink.of("step")[-1] == 9, "steps are counted on"
    assert sink.said.count("first step (tracing)") == 1, "it was traced before"


def test_a_node_that_joins_counts_the_steps_of_the_others(package, sink):
    class Joins(package.callbacks.Callback):
        def on_train_begin(self, logs=None):
            reporting.begin_after(40)

    model_of(package).fit(*ROWS, batch_size=4, callbacks=[Joins()], verbose=0)
    assert (sink.of("step")[0], sink.of("step")[-1]) == (40, 43)
    assert reporting.steps_made() == 43


class GoesOn(keras.callbacks.Callback):
    """As from a checkpoint of three steps of the second epoch, or of more than there are."""

    def __init__(self, steps=3):
        super().__init__()
        self.steps = steps

    def on_train_begin(self, logs=None):
        assert skip_steps(self.model, self.steps)
        self.model._initial_epoch = 1
        reporting.begin_after(6, self.steps)

    def on_epoch_end(self, epoch, logs=None):
        skip_no_more(self.model)


@pytest.mark.parametrize("package", ["keras 3"], indirect=True)
def test_steps_that_a_checkpoint_has_are_told_at_once_and_named(package, sink):
    model_of(package).fit(*ROWS, batch_size=2, epochs=3, callbacks=[GoesOn()], verbose=0)
    assert sink.reports[0] == {"step": 9, "progress": 0.5, "epoch": 2, "epochs": 3}
    assert sink.of("step")[:5] == [9, 9, 9, 9, 10] and sink.of("step")[-1] == 18
    shares = sink.of("progress")
    assert shares == sorted(shares) and shares[3:5] == [0.5, pytest.approx(1 / 3 + 4 / 18)]
    assert sink.of("steps_passed_over")[:5] == [None, 1, 2, 3, None]
    tracing = "first step (tracing)"
    assert sink.said == [tracing, "passing over steps that a checkpoint has", tracing, ""]


@pytest.mark.parametrize("package", ["keras 3"], indirect=True)
def test_data_that_have_become_less_leave_no_word_of_steps_that_are_passed_over(package, sink):
    callbacks = [GoesOn(steps=8)]
    model = model_of(package)
    model.fit(*ROWS, batch_size=2, epochs=3, callbacks=callbacks, verbose=0)
    assert sink.said[-2:] == ["passing over steps that a checkpoint has", ""]
    assert sink.of("step")[0] == 14 and sink.of("step")[-1] == 20
    assert sink.of("step") == sorted(sink.of("step"))


def test_steps_that_keras_does_not_know_are_known_after_the_first_epoch(package, sink):
    import tensorflow as tf

    def batches():
        for _ in range(3):
            yield ROWS[0][:4], ROWS[1][:4]

    shapes = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 1)))
    endless = tf.data.Dataset.from_generator(batches, output_signature=shapes)
    model_of(package).fit(endless, epochs=2, verbose=0)
    of_first = [report["progress"] for report in sink.reports if report["epoch"] == 1]
    assert set(of_first[:-1]) == {"unknown"} and of_first[-1] == 0.5
    of_second = [report["progress"] for report in sink.reports if report["epoch"] == 2]
    assert of_second[0] == pytest.approx(2 / 3) and of_second[-1] == 1.0


def test_one_epoch_of_unknown_length_is_left_to_what_the_driver_feeds(package, sink):
    import tensorflow as tf

    def fed():
        """As ``ctx.dataset(4).repeat()`` with three epochs: Keras knows no end, and there is one."""
        shapes = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 1)))
        batches = [(ROWS[0][:4], ROWS[1][:4])] * 9
        return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=shapes)

    model = model_of(package)
    model.fit(fed(), verbose=0)
    assert not any({"epoch", "epochs"} & report.keys() for report in sink.reports)
    assert sink.reports[-1] == {"step": 9, "progress": 1.0}
    model.fit(*ROWS, batch_size=4, epochs=2, verbose=0)
    assert sink.of("epoch")[-1] == 2 and sink.of("epochs")[-1] == 2
    model.fit(fed(), verbose=0)
    assert sink.reports[-1]["epoch"] == sink.reports[-1]["epochs"] == "unknown"
    model.fit(*ROWS, batch_size=4, verbose=0)
    assert sink.reports[-1]["epoch"] == sink.reports[-1]["epochs"] == 1, "its length is known"


@pytest.mark.parametrize("last", [0, 2], ids=["between epochs", "within one"])
def test_epochs_after_the_end_of_the_feed_report_nothing(package, sink, last):
    import tensorflow as tf

    of_epochs = [3, 3, last]

    def batches():
        for _ in range(of_epochs.pop(0) if of_epochs else 0):
            yield ROWS[0][:4], ROWS[1][:4]

    shapes = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 1)))
    fed = tf.data.Dataset.from_generator(batches, output_signature=shapes)
    early = package.callbacks.EarlyStopping("loss", patience=2)
    model = model_of(package)
    model.fit(fed, epochs=9, callbacks=[early], verbose=0)
    assert sink.reports[-1]["epoch"] == (3 if last else 2)
    assert sink.reports[-1]["step"] == 6 + last
    shares = [share for share in sink.of("progress") if share != "unknown"]
    assert shares and max(shares) < 0.5, "it is not done"
    assert all(report["loss"] > 0 for report in sink.reports[1:])
    model.fit(*ROWS, batch_size=4, verbose=0)
    assert sink.reports[-1]["progress"] == 1.0


def test_it_is_one_more_callback_however_the_others_are_given(package, sink):
    class Seen(package.callbacks.Callback):
        epochs = 0

        def on_epoch_end(self, epoch, logs=None):
            self.epochs += 1

    model, seen = model_of(package), Seen()
    for callbacks in (seen, [seen], (seen,)):
        model.fit(*ROWS, callbacks=callbacks, verbose=0)
    given = [seen]
    model.fit(*ROWS, callbacks=given, verbose=0)
    assert given == [seen] and seen.epochs == 4
    whole = package.callbacks.CallbackList([seen], model=model, add_history=True, epochs=3)
    for _ in range(2):
        model.fit(*ROWS, callbacks=whole, verbose=0)
    ours = [one for one in whole.callbacks if isinstance(one, reporting.Reporting)]
    assert len(ours) == 1 and seen.epochs == 6
    assert sink.reports[-1]["epochs"] == 3


def test_training_that_fails_or_ends_early_leaves_no_word_behind(package, sink):
    class Fail(package.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        model_of(package).fit(*ROWS, callbacks=[Fail()], verbose=0)
    assert sink.said == ["first step (tracing)", ""]

    class Stop(package.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    model_of(package).fit(*ROWS, epochs=9, callbacks=[Stop()], verbose=0)
    assert sink.reports[-1]["progress"] == 1.0
    assert sink.reports[-1]["stopped_early"] == 1
    model_of(package).fit(*ROWS, epochs=1, callbacks=[Stop()], verbose=0)
    assert sink.reports[-1]["progress"] == 1.0
    assert [one for one in sink.of("stopped_early") if one is not None][-2:] == [1, 0]
    assert sink.reports[-1]["epoch"] == 1, "the last one"


def test_reports_have_a_distance_and_steps_are_counted_between_them(sink):
    now = [0.0]
    say = sink.said.append
    callback = reporting.Reporting(
        sink.reports.append, say, reporting.Count(), reporting.Evaluations(say), lambda: now[0]
    )
    callback.set_params({"epochs": 1, "steps": 100})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for batch in range(0, 100, 5):  # steps_per_execution=5
        callback.on_train_batch_end(batch + 4, {"loss": 1.0, "step": 7, "text": "x"})
        now[0] += 0.25
    assert sink.of("step") == [0, 5, *range(15, 100, 10)]
    assert sink.of("progress")[:3] == [0.0, 0.05, 0.15]
    assert "text" not in sink.reports[1] and sink.reports[1]["loss"] == 1.0


def test_steps_that_were_too_fast_to_tell_are_told_by_a_look(package, sink, monkeypatch):
    """As a callback that hangs leaves them."""
    looks = []
    trainer = next(kind for kind in package.Model.__mro__ if "fit" in vars(kind))
    monkeypatch.setattr(trainer, "fit", trainer.fit.__wrapped__)
    monkeypatch.setattr(reporting, "_INTERVAL_SECONDS", 3600.0)
    reporting.prepare(package, sink.reports.append, sink.said.append, looks.append)

    class Looking(package.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            told.append(sink.reports[-1]["step"])
            looks[0]()
            told.append(sink.reports[-1]["step"])
            looks[0]()
            told.append(len(sink.reports))

    told = []
    model_of(package).fit(*ROWS, batch_size=1, callbacks=[Looking()], verbose=0)
    assert told == [1, 12, 3], "of the beginning, the first step, and the look"


def test_an_evaluation_that_takes_long_says_so(package, sink, monkeypatch):
    """Its first batch, too, which may be traced, or wait for its rows."""
    looks = []
    trainer = next(kind for kind in package.Model.__mro__ if "fit" in vars(kind))
    monkeypatch.setattr(trainer, "fit", trainer.fit.__wrapped__)
    reporting.prepare(package, sink.reports.append, sink.said.append, looks.append)

    class Looking(package.callbacks.Callback):
        def on_test_batch_begin(self, batch, logs=None):
            for look in looks:
                look()
            told.append(list(sink.said))

    told = []
    model = model_of(package)
    some = {"validation_data": ROWS, "validation_batch_size": 4, "verbose": 0}
    model.fit(*ROWS, callbacks=[Looking()], **some)
    assert all("evaluating" not in said for said in told), "a short one is worth no word"
    monkeypatch.setattr(reporting, "_LONG_SECONDS", 0.0)
    sink.said.clear()
    told.clear()
    model.fit(*ROWS, epochs=2, callbacks=[Looking()], **some)
    assert told[0] == ["evaluating"]
    assert sink.said == ["evaluating", "", "evaluating", ""]
