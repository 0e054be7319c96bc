"""Two nodes in one run of MLflow, which is in files."""

from __future__ import annotations

import json
import types

import numpy as np
import pytest

import mlflow
import tfos
from support.programs import mlflow as programs

pytestmark = pytest.mark.long


def attempt(spark, rows, **arguments):
    tracking = tfos.mlflow.Tracking(interval=1.0)
    with tfos.run(spark, programs.train, nodes=2, args=arguments, mlflow=tracking) as cluster:
        cluster.train(rows, epochs=arguments["epochs"] - arguments.get("initial_epoch", 0))


@pytest.fixture(scope="module")
def tracked(spark, store, tmp_path_factory):
    """What is in the run after an attempt, and what the chief found; and after a second one, which goes
    on with other arguments."""
    out = tmp_path_factory.mktemp("out") / "loss"
    rows = spark.range(2000).selectExpr(
        "array(id % 7 / 7, id % 11 / 11) AS x", "id % 7 / 7 - id % 11 / 11 AS y"
    )
    experiment = mlflow.create_experiment("lines")
    with mlflow.start_run(experiment_id=experiment) as run:
        mlflow.log_param("by_the_driver", 1)
        attempt(spark, rows, learning_rate=0.125, epochs=3, out=str(out))
    first = store.get_run(run.info.run_id)
    with mlflow.start_run(run_id=run.info.run_id):
        attempt(spark, rows, learning_rate=0.25, epochs=5, initial_epoch=3)
    return types.SimpleNamespace(
        first=first,
        loss=float(out.read_text().split()[0]),
        second=store.get_run(run.info.run_id),
        experiment=experiment,
    )


def test_all_is_in_the_one_run(tracked, store):
    assert [run.info.run_id for run in store.search_runs(["0", tracked.experiment])] == [
        tracked.first.info.run_id
    ]
    assert tracked.first.info.status == tracked.second.info.status == "FINISHED"
    assert tracked.first.data.metrics["of_a_worker"] == 1.0


def test_the_chief_logs_parameters_and_the_model_as_text(tracked, store):
    parameters = tracked.first.data.params
    assert parameters["by_the_driver"] == "1"
    wanted = {"epochs": "3", "nodes": "2", "loss": "mse"}
    assert wanted.items() <= parameters.items()
    assert parameters["optimizer_name"].lower() == "sgd"
    assert float(parameters["optimizer_learning_rate"]) == 0.125
    summary = store.download_artifacts(tracked.first.info.run_id, "model_summary.txt")
    with open(summary) as file:
        assert "line (Dense)" in file.read()


def test_each_epoch_is_a_point_of_the_mean_of_all_nodes(tracked, store):
    points = store.get_metric_history(tracked.first.info.run_id, "loss")
    assert [point.step for point in points[:3]] == [0, 1, 2]
    assert points[2].value == pytest.approx(tracked.loss)
    assert {"loss", "mae"} <= tracked.first.data.metrics.keys()


def test_all_nodes_have_curves(tracked, store):
    metrics = tracked.first.data.metrics
    for node in ("worker_0", "worker_1"):
        assert metrics[f"{node}/rss_bytes"] > 1e6
        assert 0 <= metrics[f"{node}/share_waiting_for_rows"] <= 1
        for rate in ("rows", "steps", "feed_bytes"):
            points = store.get_metric_history(
                tracked.first.info.run_id, f"{node}/{rate}_per_second"
            )
            assert max(point.value for point in points) > 0
        assert f"{node}/loss" in metrics
        shares = [metrics[f"{node}/share_{of}"] for of in ("waiting_for_nodes", "in_collectives")]
        assert 0 <= shares[0] <= shares[1] <= 1
        assert metrics[f"{node}/collective_bytes_per_second"] > 0
    assert not [name for name in metrics if name.endswith(("/items_delivered", "/feed_chunks"))]


def test_the_model_has_a_signature_and_predicts(tracked):
    model = mlflow.pyfunc.load_model(f"runs:/{tracked.first.info.run_id}/model")
    signature = model.metadata.signature
    assert json.loads(signature.to_dict()["inputs"]) == [
        {"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 2]}}
    ]
    assert [field.shape for field in signature.outputs.inputs] == [(-1, 1)]
    rows = np.array([[0.5, 0.25], [0.1, 0.9], [1.0, 0.0]], np.float32)
    predicted = model.predict(rows)
    assert predicted.shape == (3, 1)
    # After five epochs of y = x0 - x1.
    np.testing.assert_allclose(predicted[:, 0], rows[:, 0] - rows[:, 1], atol=0.25)
    # It loads where tfos is not installed.
    kept = mlflow.keras.load_model(f"runs:/{tracked.first.info.run_id}/model")
    assert not hasattr(type(kept.optimizer), "is_distributed_by_tfos")


def test_another_attempt_goes_on_with_the_run(tracked, store):
    # A model has the points of its epoch, too, so these may be there twice.
    points = {
        (point.step, point.value)
        for point in store.get_metric_history(tracked.second.info.run_id, "loss")
    }
    assert sorted(step for step, _ in points) == [0, 1, 2, 3, 4]
    # A parameter of a run never changes.
    assert tracked.second.data.params == tracked.first.data.params
