"""Spark ML on a real cluster: the stages of tfos.ml, and TFEstimator and TFModel of old programs."""

import argparse

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder
from pyspark.sql import functions

import tfos.ml
from support.programs import ml as ml_programs
from tensorflowonspark import TFCluster, pipeline
from tfos.errors import BadInputError
from tfos.inference import model as inference_model


def target(a, b):
    return 3 * a - 2 * b + 1


@pytest.fixture(scope="module")
def points(spark):
    """Points of a plane in three forms: numbers, an array, and the target."""
    made = [
        (n, float(a), float(b), [float(a), float(b)], float(target(a, b)))
        for n, (a, b) in enumerate(np.random.default_rng(2).random((200, 2)))
    ]
    return spark.createDataFrame(
        made, "id long, a double, b double, x array<double>, y double"
    ).repartition(4)


@pytest.fixture(scope="module")
def text_model(models):
    return tfos.ml.Model(modelDir=str(models / "text"), binaryOutputs=["bytes"], batchSize=7)


@pytest.fixture
def words(spark):
    return spark.range(50).select(
        "id",
        functions.format_string("w%d", "id").alias("word"),
        functions.array("id", "id").alias("pair"),
        functions.create_map(functions.lit("k"), "id").alias("map"),
        functions.col("id").alias("dotted.name"),
    )


def test_a_keras_model_trains_and_runs_in_a_pipeline(spark, points, tmp_path, leftovers):
    estimator = tfos.ml.Estimator(
        build=ml_programs.build_line,
        inputMapping={"features": "features"},
        labelCol="y",
        nodes=2,
        epochs=30,
        batchSize=10,
        modelDir=str(tmp_path / "models"),
        outputMapping={"output_0": "prediction"},
    )
    stages = Pipeline(
        stages=[VectorAssembler(inputCols=["a", "b"], outputCol="features"), estimator]
    )
    fitted = stages.fit(points)
    scored = fitted.transform(points)
    assert scored.columns == [*points.columns, "features", "prediction"]
    evaluator = RegressionEvaluator(labelCol="y", predictionCol="prediction", metricName="rmse")
    error = evaluator.evaluate(scored)
    assert error < 0.1

    fitted.write().overwrite().save(str(tmp_path / "saved"))
    (directory,) = (tmp_path / "models").iterdir()
    directory.rename(tmp_path / "elsewhere")  # What was saved does not need it.
    again = PipelineModel.load(str(tmp_path / "saved"))
    assert again.stages[1].getOutputMapping() == {"output_0": "prediction"}
    assert again.stages[1].uid == fitted.stages[1].uid
    assert evaluator.evaluate(again.transform(points)) == pytest.approx(error)


def test_each_epoch_is_validated_and_callbacks_may_end_it(spark, points, tmp_path, leftovers):
    log = tmp_path / "log"
    held = functions.when(functions.col("id") < 150, functions.col("id") < 50)
    # The held rows are far from the line, and what is null is not held.
    marked = points.withColumn("held", held).withColumn(
        "y", functions.when(functions.col("held"), functions.col("y") + 1000).otherwise(points.y)
    )
    tfos.ml.Estimator(
        build=ml_programs.build_line,
        callbacks=ml_programs.watch_line,
        inputMapping={"x": "x"},
        labelCol="y",
        validationIndicatorCol="held",
        nodes=2,
        epochs=9,
        batchSize=10,
        args={"rate": 1e-7, "log": str(log)},
        modelDir=str(tmp_path / "models"),
    ).fit(marked)
    lines = [list(map(float, line.split())) for line in log.read_text().splitlines()]
    # Keras has a best epoch and stops in the next one.
    assert len(lines) == 2
    for loss, of_validation in lines:
        assert loss < 100
        assert of_validation == pytest.approx(1e6, rel=0.02)


@pytest.mark.long
def test_a_search_finds_the_better_parameters(points, tmp_path, leftovers):
    estimator = tfos.ml.Estimator(
        build=ml_programs.build_line,
        inputMapping={"x": "x"},
        labelCol="y",
        epochs=5,
        batchSize=10,
        modelDir=str(tmp_path),
        outputMapping={"output_0": "prediction"},
    )
    grid = ParamGridBuilder().addGrid(estimator.args, [{"rate": 1e-7}, {"rate": 0.3}]).build()
    search = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=grid,
        seed=1,
        numFolds=2,
        evaluator=RegressionEvaluator(labelCol="y", predictionCol="prediction"),
    )
    search.save(str(tmp_path / "search"))
    found = CrossValidator.load(str(tmp_path / "search")).fit(points)
    assert found.avgMetrics[1] < found.avgMetrics[0] / 2
    found.save(str(tmp_path / "found"))
    again = CrossValidatorModel.load(str(tmp_path / "found"))
    assert again.avgMetrics == found.avgMetrics
    assert again.transform(points).count() == points.count()


def test_a_program_of_its_own_and_what_it_has_to_leave(points, tmp_path, leftovers):
    estimator = tfos.ml.Estimator(
        train=ml_programs.train_module,
        inputMapping={"x": "x"},
        labelCol="y",
        modelDir=str(tmp_path),
        args={"add": 1},
    )
    model = estimator.fit(points)
    assert model.transform(points).select("rows").distinct().collect() == [(201,)]
    with pytest.raises(BadInputError, match="build=.*or train="):
        tfos.ml.Estimator(modelDir="x")
    with pytest.raises(BadInputError, match="modelDir is not set"):
        tfos.ml.Estimator(build=ml_programs.build_line).fit(points)


@pytest.mark.usefixtures("model_runner")
def test_all_columns_are_kept_or_none(words, text_model):
    scored = text_model.transform(words)
    assert scored.columns == [
        *words.columns,
        "bytes",
        "first_is_more",
        "half",
        "index",
        "outer",
        "small",
        "upper",
    ]
    rows = scored.orderBy("id").collect()
    assert [(row.id, row.word, row.upper, row["dotted.name"], row.map["k"]) for row in rows] == [
        (n, f"w{n}", f"W{n}", n, n) for n in range(50)
    ]
    assert (
        rows[3].half == [1.5, 1.5]
        and rows[3].bytes == b"w3\xff"
        and rows[3].outer == [[9, 9], [9, 9]]
    )
    mapped = text_model.copy(
        {
            text_model.keepInputs: False,
            text_model.outputMapping: {"upper": "u"},
            text_model.binaryOutputs: [],
        }
    )
    assert mapped.transform(words).columns == ["u"]
    assert mapped.transform(words).count() == 50


@pytest.mark.usefixtures("model_runner")
def test_what_does_not_fit_is_said_before_anything_runs(words, text_model):
    with pytest.raises(BadInputError) as refused:
        text_model.copy({text_model.inputMapping: {"map": "word", "pair": "pair"}}).transform(words)
    assert "input word: expected string[?], found column 'map'" in str(refused.value)
    assert "pair list of int64" in str(refused.value)
    with pytest.raises(BadInputError, match="column word would appear twice"):
        text_model.copy(
            {text_model.outputMapping: {"upper": "word"}, text_model.binaryOutputs: []}
        ).transform(words)
    nulls = words.withColumn("word", functions.expr("if(id = 11, null, word)")).coalesce(1)
    with pytest.raises(BadInputError, match="partition 0: column word has a null in row 11"):
        text_model.transform(nulls).collect()


@pytest.mark.usefixtures("model_runner")
def test_a_plain_number_in_a_column_of_any_name(spark, models):
    model = tfos.ml.Model(
        modelDir=str(models / "tf1"),
        tags="serve,old",
        signature="predict",
        outputMapping={"y": "a`b.c"},
    )
    scored = model.transform(spark.sql("SELECT array(1d, 1d) AS x"))
    assert scored.collect() == [([1, 1], 5)] and scored.columns == ["x", "a`b.c"]


@pytest.mark.usefixtures("model_runner")
def test_an_output_of_one_number_a_row_is_plain_whatever_its_shape(spark, models):
    model = tfos.ml.Model(modelDir=str(models / "others"), signature="fixed_ones", keepInputs=False)
    scored = model.transform(spark.sql("SELECT array(id, 1d) AS x FROM range(5)"))
    assert set(dict(scored.dtypes).values()) == {"float"}
    assert sorted(scored.select("one", "nested").collect()) == [(n + 1, n + 1) for n in range(5)]


def test_parameters_are_documented_and_checked(text_model):
    assert (
        "rows that the model gets at a time (default: 128, current: 7)"
        in text_model.explainParams()
    )
    with pytest.raises(TypeError):
        text_model.copy().setBatchSize("many")


def test_an_old_pipeline(points, run_models_in, tmp_path, leftovers):
    args = argparse.Namespace(word="kept", batch_size=1)
    estimator = (
        pipeline.TFEstimator(ml_programs.train_line, args)
        .setInputMapping({"x": "x", "y": "target"})
        .setClusterSize(2)
        .setEpochs(1)
        .setBatchSize(16)
        .setExportDir(str(tmp_path / "export"))
        .setGraceSecs(0)
        .setMasterNode("chief")
    )
    model = estimator.fit(points)
    assert isinstance(model, pipeline.TFModel) and model.args.word == "kept"
    model.setInputMapping({"x": "x"}).setOutputMapping(
        {"y": "found", "twice": "doubled", "name": "label"}
    )
    expected = [row.y for row in points.orderBy("id").collect()]
    for runner in ("on", "off"):
        run_models_in(runner)
        scored = model.transform(points.orderBy("id").coalesce(1))
        assert scored.columns == ["label", "doubled", "found"]
        for row, y in zip(scored.collect(), expected, strict=True):
            assert row.found == pytest.approx(y, abs=1e-4) and row.doubled == [
                pytest.approx(2 * y, abs=1e-4)
            ]
            assert bytes(row.label) == str(round(row.found)).encode()
    with pytest.raises(BadInputError, match="set export_dir"):
        pipeline.TFModel({}).setOutputMapping({"y": "y"}).transform(points)


def test_an_old_estimator_that_feeds_nothing_and_exports_afterwards(points, tmp_path, leftovers):
    estimator = (
        pipeline.TFEstimator(
            ml_programs.count_rows, {"word": "read"}, export_fn=ml_programs.export_word
        )
        .setInputMode(TFCluster.InputMode.TENSORFLOW)
        .setModelDir(str(tmp_path / "m"))
        .setSteps(7)
        .setExportDir(str(tmp_path / "e"))
        .setGraceSecs(0)
    )
    estimator.fit(points)
    assert (tmp_path / "m").read_text() == "read 7"
    assert (tmp_path / "e").read_text() == "read"


def test_sessions_stay_in_their_workers(spark, models, run_models_in):
    run_models_in("off")
    frame = spark.range(8, numPartitions=4).select(
        functions.col("id").cast("float").alias("x"), functions.col("id").cast("float").alias("y")
    )
    model = tfos.ml.Model(modelDir=str(models / "others"), signature="two")

    def processes():
        from pyspark import TaskContext

        def sessions(batches):
            import os

            import pyarrow as pa

            for _ in batches:
                pass
            held = [id(session) for session in inference_model._sessions.loaded()]
            yield pa.record_batch(
                {
                    "process": [os.getpid()],
                    "sessions": [str(sorted(held))],
                    "task": [TaskContext.get().partitionId()],
                }
            )

        found = frame.mapInArrow(sessions, "process long, sessions string, task long").collect()
        return {row.process: row.sessions for row in found}

    model.transform(frame).collect()
    before = processes()
    model.transform(frame).collect()
    after = processes()
    assert before == after and any(held != "[]" for held in before.values())


def test_namespace():
    namespace = pipeline.Namespace({"a": 1, "b": 2})
    assert "a" in namespace and sorted(namespace) == ["a", "b"] and namespace.a == 1
    assert (
        namespace
        == pipeline.Namespace(argparse.Namespace(a=1, b=2))
        == pipeline.Namespace(namespace)
    )
    assert namespace != pipeline.Namespace({"a": 1})
    assert pipeline.Namespace(["--x", "1"]).argv == ["--x", "1"] and namespace.argv is None
    with pytest.raises(Exception, match="Unsupported Namespace args: 3"):
        pipeline.Namespace(3)


DEFAULTS = {
    "batch_size": 100,
    "cluster_size": 1,
    "driver_ps_nodes": False,
    "epochs": 1,
    "export_dir": None,
    "grace_secs": 30,
    "input_mapping": {},
    "input_mode": 1,
    "master_node": "chief",
    "model_dir": None,
    "num_ps": 0,
    "protocol": "grpc",
    "readers": 1,
    "steps": 1000,
    "tensorboard": False,
    "tfrecord_dir": None,
}


def test_parameters_of_old_stages(spark):
    estimator = pipeline.TFEstimator(None, {"epochs": 5, "other": "x"})
    assert {param.name: estimator.getOrDefault(param) for param in estimator.params} == DEFAULTS
    merged = estimator.setBatchSize(7).merge_args_params()
    # Parameters win, as they always did.
    assert (merged.batch_size, merged.epochs, merged.other) == (7, 1, "x")
    assert estimator.args.epochs == 5
    model = pipeline.TFModel({})
    for name, value in (
        ("ExportDir", "e"),
        ("TagSet", "serve,gpu"),
        ("SignatureDefKey", "s"),
        ("ModelDir", "m"),
        ("OutputMapping", {"a": "b"}),
        ("InputMapping", {"c": "d"}),
        ("BatchSize", 3),
    ):
        getattr(model, f"set{name}")(value)
        assert getattr(model, f"get{name}")() == value
    with pytest.raises(TypeError):
        model.setInputMapping(["c"])
