"""What is asked of MLflow, without a cluster."""

from __future__ import annotations

import functools
import os
import pickle
import re
import sys
import types

import numpy as np
import pytest
import requests

import keras
import mlflow
import tfos
from support.places import ROOT
from support.spark.fake import FakeSparkContext, fake_session
from tfos.errors import BadInputError
from tfos.keras.rates import LEFT_OUT, OF_COLLECTIVES, RATES
from tfos.mlflow import chief, driver, model, nodes
from tfos.mlflow.tracking import Target, Tracking, without_password
from tfos.mlflow.writer import Writer


def run(**arguments):
    context = FakeSparkContext("local[1]", slots_by_look=[1])
    context.pythonExec = "python3"
    return tfos.run(fake_session(context), print, nodes=2, **arguments)


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(BadInputError, match="MLflow can't be imported .*pip install mlflow-skinny"):
        run(mlflow=True)


def test_a_driver_without_a_run_is_told_to_begin_one(store):
    with pytest.raises(BadInputError, match="no run of MLflow is active.*mlflow.start_run"):
        run(mlflow=True)
    with pytest.raises(BadInputError, match="mlflow='yes': True, or a tfos.mlflow.Tracking"):
        run(mlflow="yes")


@pytest.mark.parametrize("interval", [0, -1, float("inf"), float("nan")])
def test_an_interval_that_cannot_be_is_refused(interval):
    with pytest.raises(BadInputError, match="interval="):
        Tracking(interval=interval)


def test_one_name_is_not_a_list_of_them():
    with pytest.raises(BadInputError, match=r"as in \['TOKEN'\]"):
        Tracking(environment="TOKEN")


def test_secrets_are_passed_on_request_and_never_shown(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hidden-token")
    with mlflow.start_run():
        with pytest.raises(BadInputError, match="the driver has no variable 'NO_SUCH'"):
            driver.begin(Tracking(environment=["NO_SUCH"]))
        silent = driver.begin(True)._target
        asked = driver.begin(Tracking(environment=["MLFLOW_TRACKING_TOKEN"]))._target
    assert b"hidden-token" not in pickle.dumps(silent)
    assert silent.environment["MLFLOW_ALLOW_FILE_STORE"] == "true"
    assert asked.environment["MLFLOW_TRACKING_TOKEN"] == "hidden-token"
    assert "hidden-token" not in repr(asked) + repr(Tracking(environment=["A"]))
    assert asked.readable(ValueError("hidden-token\nwas refused")) == "ValueError: *** was refused"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:word@host:5000/a?token=word", "http://host:5000/a"),
        ("https://host", "https://host"),
        ("file:///shared/runs", "file:///shared/runs"),
        ("databricks", "databricks"),
        ("http://[word", "an address that can't be read"),
    ],
)
def test_an_address_is_shown_without_its_password(uri, shown):
    assert without_password(uri) == shown
    assert "word" not in repr(Target(uri, "a run", "0"))


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("http://me:word@HOST.example/a", "http://me:word@host.example/a"),
        ("http://me:wo%2frd@host", "http://me:wo%2Frd@host/"),
        ("http://me:word@host", "http://me:word@host:80/api"),
        ("http://me:wo%2frd@host", "no access with wo/rd"),
        ("http://me:wo%2frd@host", "wo%2Frd was refused"),
        ("http://me:wo!r~d@host", "wo%21r~d was refused"),
        ("http://me:wo rd@host", "wo%20rd was refused"),
        ("http://me:wo@rd@host", "http://me:wo@rd@host:80/"),
        ("http://word@host", "http://word@host:80/"),
        ("http://host/a?key=word", "url: /a/api?key=word"),
        ("http://host", "redirected to http://you:word@elsewhere/"),
    ],
)
def test_no_error_has_the_password_of_an_address(uri, told):
    shown = Target(uri, "a run", "0").readable(OSError(told))
    assert "***" in shown and not re.search("wo.{0,3}rd", shown)


def test_an_address_as_requests_writes_it_has_no_password():
    uri = "HTTP://me:wo%2frd@HOST:80"
    written = requests.Request("GET", f"{uri}/api").prepare().url
    assert uri not in written and "wo%2Frd" in written
    shown = Target(uri, "a run", "0").readable(OSError(f"401 for {written}"))
    assert shown == "OSError: 401 for http://***@host:80/api"


def test_nodes_get_paths_that_do_not_depend_on_the_drivers_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert driver._for_other_processes("mlruns") == (tmp_path / "mlruns").as_uri()
    for uri in ("file:my%20runs", "file:./my%20runs"):
        assert driver._for_other_processes(uri) == (tmp_path / "my runs").as_uri()
    assert driver._for_other_processes("file:at%3A12") == (tmp_path / "at:12").as_uri()
    assert driver._for_other_processes("sqlite:///a.db") == f"sqlite:///{tmp_path}/a.db"
    for uri in ("http://host:5000", "databricks", "databricks://profile", "file:///a"):
        assert driver._for_other_processes(uri) == uri


@pytest.mark.parametrize("code", ["raise ImportError", "raise TypeError('protobuf')", "1 / 0"])
def test_a_node_whose_package_is_not_there_or_broken_trains(tmp_path, monkeypatch, caplog, code):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    (tmp_path / "mlflow.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mlflow")
    ctx = types.SimpleNamespace(
        job_name="worker", task_index=0, host="host-a", size=2, is_chief=True
    )
    seen = chief.run_program(
        lambda ctx: os.environ["MLFLOW_RUN_ID"], Target("http://host", "the-run", "0"), ctx
    )
    assert seen == "the-run"
    (said,) = [record.getMessage() for record in caplog.records]
    assert "worker:0 on host host-a can't import MLflow" in said
    assert "pip install mlflow-skinny" in said


def node(task, state="running", **metrics):
    return {"job_name": "worker", "task_index": task, "state": state, "metrics": metrics}


def meter_at(times):
    return nodes.NodeMeter(clock=functools.partial(next, iter(times)))


def test_counters_become_rates_and_waits_shares():
    meter = meter_at([0.0, 10.0, 14.0])
    first = meter.look([node(0, rows=100, step=5, feed_node_wait_seconds=1, loss=0.5, word="x")])
    # Nobody knows at which step it has begun.
    assert first == [
        ("worker_0/rows_per_second", 10.0, 5),
        ("worker_0/share_waiting_for_rows", 0.1, 5),
        ("worker_0/loss", 0.5, 5),
    ]
    second = meter.look([node(0, rows=300, step=7, feed_node_wait_seconds=1, loss=0.25)])
    assert second[:3] == [
        ("worker_0/rows_per_second", 50.0, 7),
        ("worker_0/steps_per_second", 0.5, 7),
        ("worker_0/share_waiting_for_rows", 0.0, 7),
    ]


def test_what_grew_between_two_heartbeats_is_over_the_time_between_them():
    """The heartbeats are 30 s apart, with a look every 10 s."""
    meter = meter_at([0.0, 30.0, 40.0, 50.0, 60.0])
    meter.look([node(0, rows=100, loss=0.5)])
    assert meter.look([node(0, rows=100, loss=0.5)]) == []
    assert meter.look([node(0, rows=100, loss=0.5)]) == []
    assert meter.look([node(0, rows=400, loss=0.25)]) == [
        ("worker_0/rows_per_second", 10.0, 0),
        ("worker_0/loss", 0.25, 0),
    ]


def test_what_grew_in_a_moment_is_in_the_next_rate():
    meter = meter_at([0.0, 10.0, 10.5, 20.0])
    meter.look([node(0, rows=100, loss=0.5)])
    assert meter.look([node(0, rows=150, loss=0.25)]) == [("worker_0/loss", 0.25, 0)]
    assert meter.look([node(0, rows=300, loss=0.125)]) == [
        ("worker_0/rows_per_second", 20.0, 0),
        ("worker_0/loss", 0.125, 0),
    ]


def test_a_process_that_has_ended_has_no_point_for_its_memory():
    meter = meter_at([0.0, 10.0, 20.0])
    assert ("worker_0/rss_bytes", 5e6, 0) in meter.look([node(0, rss_bytes=5e6)])
    assert meter.look([node(0, rss_bytes=0)]) == []


def test_a_node_in_place_of_a_lost_one_has_no_negative_rate():
    meter = meter_at([0.0, 10.0, 20.0, 30.0])
    meter.look([node(0, rows=100)])
    assert meter.look([node(0, rows=20)]) == []
    assert meter.look([node(0, rows=40)]) == [("worker_0/rows_per_second", 2.0, 0)]


def test_a_node_that_joins_at_the_step_of_the_others_has_not_made_these_steps():
    meter = meter_at([0.0, 10.0, 20.0])
    assert meter.look([node(1, step=100_000)]) == []
    assert meter.look([node(1, step=100_100)]) == [("worker_1/steps_per_second", 10.0, 100_100)]


@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_a_loss_that_is_no_finite_number_is_a_point_and_mlflow_takes_it(store, word):
    meter = meter_at([0.0, 10.0, 20.0, 30.0])
    meter.look([node(1, loss=0.5, phase="inf")])
    (point,) = meter.look([node(1, loss=word, phase="inf")])
    assert point.name == "worker_1/loss"
    assert meter.look([node(1, loss=word, phase="inf")]) == [], "nothing is new"
    with mlflow.start_run() as run:
        mlflow.log_metric(point.name, point.value)
    (logged,) = store.get_run(run.info.run_id).data.metrics.values()
    assert str(logged) == word


@pytest.mark.parametrize(
    ("reported", "logged"),
    [("val/loss", "val/loss"), ("a%b", "a_b"), ("../up", "up"), ("a//b", "a/b"), ("/", "_")],
)
def test_a_metric_of_any_name_has_one_that_mlflow_takes(store, reported, logged):
    (point,) = meter_at([0.0, 10.0]).look([node(1, **{reported: 2.5})])
    assert point.name == f"worker_1/{logged}"
    with mlflow.start_run() as run:
        mlflow.log_metric(point.name, point.value)
    assert store.get_run(run.info.run_id).data.metrics == {point.name: 2.5}


def test_a_metric_of_any_name_does_not_cost_the_epoch_its_others(store):
    with mlflow.start_run() as run:
        target = driver.begin(True)._target
    writer = Writer(target, "chief:0")
    said = chief.FitLogging(None, writer, target, 1)
    said.on_epoch_begin(0)
    said.on_train_batch_end(0)
    said.on_epoch_end(0, {"loss": 0.5, "recall@5": 0.25, "f1(macro)": 0.75, "top-5 %": 1.0})
    said.on_epoch_begin(1)  # It gets no batch: the feed has ended.
    said.on_epoch_end(1, {"loss": 0.0, "recall@5": 0.0})
    writer.close()
    metrics = store.get_run(run.info.run_id).data.metrics
    assert metrics == {"loss": 0.5, "recall_5": 0.25, "f1_macro_": 0.75, "top-5 _": 1.0}


def test_each_metric_of_tfos_has_its_place_in_a_run():
    """test_metric_names.py has the table."""
    text = (ROOT / "src/control/messages/parts/metric_names.h").read_text()
    for name in RATES.keys() | LEFT_OUT:
        assert f'KnownMetric{{"{name}"' in text
    page = (ROOT / "docs/mlflow.md").read_text()
    rates = [*RATES.values(), *OF_COLLECTIVES.values()]
    assert [name for name in rates if f"`{name}`" not in page] == []


def test_signatures_name_several_inputs():
    inputs = {
        "age": keras.Input((1,), name="age"),
        "city": keras.Input((3,), dtype="int32", name="city"),
    }
    joined = keras.layers.Concatenate()([inputs["age"], keras.ops.cast(inputs["city"], "float32")])
    made = keras.Model(inputs, keras.layers.Dense(2)(joined))
    signature = model.signature_of(made)
    found = {field.name: (field.type, field.shape) for field in signature.inputs.inputs}
    assert found == {
        "age": (np.dtype("float32"), (-1, 1)),
        "city": (np.dtype("int32"), (-1, 3)),
    }
    assert [field.shape for field in signature.outputs.inputs] == [(-1, 2)]


def test_a_model_of_no_fixed_shape_has_no_signature():
    class Free(keras.Model):
        def call(self, rows):
            return rows

    assert model.signature_of(Free()) is None


def test_long_names_are_cut_and_stay_apart():
    long = ["a" * 255 + end for end in "xy"]
    points = meter_at([0.0, 1.0]).look([node(0, loss=0.5, **dict.fromkeys(long, 1.0))])
    names = {point.name for point in points}
    assert len(names) == 3 and "worker_0/loss" in names
    assert max(map(len, names)) == 250
