"""An estimator that logs to MLflow, in a search: pyspark fits in threads that have no active run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.ml import Pipeline
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.tuning import ParamGridBuilder, TrainValidationSplit

import mlflow
import tfos.ml
from support.programs import ml as ml_programs
from tfos.mlflow.fits import active_run_id, run_below


def children_of(store, parent):
    of_it = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    return store.search_runs([parent.info.experiment_id], of_it)


@pytest.mark.long
def test_each_fit_of_a_search_has_a_run_below_the_active_one(spark, store, tmp_path):
    rows = spark.range(200).selectExpr("array(id % 7 / 7, id % 11 / 11) AS x", "id % 7 / 7 AS y")
    estimator = tfos.ml.Estimator(
        build=ml_programs.build_line,
        settings={"mlflow": tfos.mlflow.Tracking(log_model=False)},
        inputMapping={"x": "x"},
        labelCol="y",
        batchSize=10,
        modelDir=str(tmp_path),
        outputMapping={"output_0": "prediction"},
    )
    search = TrainValidationSplit(
        estimator=Pipeline(stages=[estimator]),
        estimatorParamMaps=ParamGridBuilder().addGrid(estimator.args, [{"rate": 0.25}]).build(),
        evaluator=RegressionEvaluator(labelCol="y", predictionCol="prediction"),
        seed=1,
    )
    with mlflow.start_run(experiment_id=mlflow.create_experiment("search")) as run:
        search.fit(rows)
    best = store.get_run(run.info.run_id)
    (tried,) = children_of(store, run)
    for found in (best, tried):
        assert found.info.status == "FINISHED"
        assert {"loss", "worker_0/loss"} <= found.data.metrics.keys()
        assert float(found.data.params["optimizer_learning_rate"]) == 0.25


def in_another_thread(parent_id, error=None):
    """The run that a fit there has."""

    def fit():
        with run_below(parent_id):
            if error is not None:
                raise error
            return active_run_id()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(fit).result()


def test_a_fit_that_fails_has_a_run_that_failed(store):
    with mlflow.start_run() as run, pytest.raises(OSError, match="no host"):
        in_another_thread(run.info.run_id, OSError("no host"))
    (tried,) = children_of(store, run)
    assert tried.info.status == "FAILED"


def test_the_run_of_the_thread_itself_comes_first_and_one_that_has_ended_counts_no_more(store):
    with mlflow.start_run() as before:
        pass
    assert in_another_thread(before.info.run_id) is None
    assert in_another_thread(None) is None
    with mlflow.start_run() as run, run_below(before.info.run_id):
        assert active_run_id() == run.info.run_id
    assert children_of(store, before) == []


def test_a_copy_knows_the_run_that_it_was_made_in(store):
    asked = tfos.ml.Estimator(train=print, settings={"mlflow": True})
    with mlflow.start_run() as run:
        copied = asked.copy()
        assert tfos.ml.Estimator(train=print).copy()._parent_run is None
    assert copied.copy()._parent_run == run.info.run_id
    assert asked._parent_run is None
