"""Models of Spark ML that Python has saved are loaded by the JVM, and the other way round."""

from __future__ import annotations

import pathlib
import shutil
import threading

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import SQLTransformer
from pyspark.ml.tuning import CrossValidatorModel
from pyspark.ml.util import MLWriter
from pyspark.sql import DataFrame

import tfos.errors
import tfos.ml
from support.spark.errors import SPARK_ERRORS


@pytest.fixture
def model_dir(models, tmp_path):
    """The path of a copy of the Keras model that a test may remove."""
    return shutil.copytree(models / "keras", tmp_path / "model")


@pytest.fixture
def digits(spark, models):
    rows = [(n, x.tolist()) for n, x in enumerate(np.load(models / "keras.npz")["x"])]
    return spark.createDataFrame(rows, "id long, x array<float>")


@pytest.fixture
def java(spark):
    """The class of the jar."""
    return spark.sparkContext._jvm.tfos.ml.TensorFlowModel


def values(frame):
    return sorted(tuple(map(str, row)) for row in frame.collect())


def test_java_loads_what_python_has_saved(spark, java, model_dir, digits, tmp_path):
    model = tfos.ml.Model(
        modelDir=str(model_dir),
        inputMapping={"x": "keras_tensor"},
        outputMapping={"output_0": "y"},
        batchSize=9,
        keepInputs=False,
    )
    expected = values(model.transform(digits))
    model.save(str(tmp_path / "saved"))
    pipeline = Pipeline(stages=[SQLTransformer(statement="SELECT * FROM __THIS__"), model])
    pipeline.fit(digits).save(str(tmp_path / "pipeline"))
    shutil.rmtree(model_dir)  # What was saved does not need it.
    (stage,) = (tmp_path / "pipeline/stages").glob("1_*")
    for path in (tmp_path / "saved", stage):
        loaded = java.load(str(path))
        assert (loaded.uid(), loaded.getBatchSize(), loaded.getKeepInputs()) == (
            model.uid,
            9,
            False,
        )
        assert values(DataFrame(loaded.transform(digits._jdf), spark)) == expected


def test_python_loads_what_java_has_saved(spark, java, model_dir, digits, tmp_path):
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    model = (
        java()
        .setModelDir(str(model_dir))
        .setInputMapping({"x": "keras_tensor"})
        .setOutputMapping({"output_0": "y"})
        .setBatchSize(9)
    )
    expected = values(DataFrame(model.transform(digits._jdf), spark))
    model.write().save(str(tmp_path / "saved"))
    stages = gateway.new_array(jvm.org.apache.spark.ml.PipelineStage, 2)
    stages[0] = jvm.org.apache.spark.ml.feature.SQLTransformer().setStatement(
        "SELECT * FROM __THIS__"
    )
    stages[1] = model
    jvm.org.apache.spark.ml.Pipeline().setStages(stages).fit(digits._jdf).save(
        str(tmp_path / "pipeline")
    )
    shutil.rmtree(model_dir)
    for loaded in (
        tfos.ml.Model.load(str(tmp_path / "saved")),
        PipelineModel.load(str(tmp_path / "pipeline")).stages[1],
    ):
        assert type(loaded) is tfos.ml.Model
        assert (loaded.uid, loaded.getBatchSize(), loaded.getKeepInputs()) == (model.uid(), 9, True)
        assert loaded.getInputMapping() == {"x": "keras_tensor"}
        assert loaded.getOutputMapping() == {"output_0": "y"}
        assert values(loaded.transform(digits)) == expected


def test_a_model_is_not_saved_over_the_one_that_it_runs(spark, java, model_dir, tmp_path):
    """Spark deletes the directory before it writes a stage."""
    saved = tmp_path / "saved"
    tfos.ml.Model(modelDir=str(model_dir)).save(str(saved))
    for path in (saved, saved / "saved_model"):
        python = tfos.ml.Model.load(str(saved))
        with pytest.raises(tfos.errors.BadInputError, match="which this save would delete"):
            python.write().overwrite().save(str(path))
        with pytest.raises(SPARK_ERRORS, match="which this save would delete"):
            java.load(str(saved)).write().overwrite().save(str(path))
    assert (saved / "saved_model/saved_model.pb").exists()
    tfos.ml.Model.load(str(saved)).write().overwrite().save(str(tmp_path / "saved too"))
    java.load(str(saved)).write().overwrite().save(str(tmp_path / "saved too"))
    assert (tmp_path / "saved too/saved_model/saved_model.pb").exists()


@pytest.mark.parametrize(
    "over",
    [
        "{saved}",
        pytest.param("{saved}/", marks=pytest.mark.long),
        pytest.param("file:{saved}", marks=pytest.mark.long),
        pytest.param("{saved}/stages/../stages", marks=pytest.mark.long),
        "{above}",
    ],
)
def test_a_pipeline_is_not_saved_over_a_model_that_it_runs(spark, model_dir, tmp_path, over):
    saved = tmp_path / "above" / "saved"
    model = tfos.ml.Model(modelDir=str(model_dir))
    PipelineModel([PipelineModel([model])]).save(str(saved))
    before = sorted(path for path in saved.rglob("*") if not path.name.startswith("."))
    loaded = PipelineModel.load(str(saved))
    path = over.format(saved=saved, above=saved.parent)
    unfitted = Pipeline(stages=loaded.stages)
    search = CrossValidatorModel(loaded)
    search._set(estimator=unfitted, estimatorParamMaps=[{}], evaluator=RegressionEvaluator())
    for stage in (loaded, unfitted, search):
        with pytest.raises(tfos.errors.BadInputError, match="which this save would delete"):
            stage.write().overwrite().save(path)
    assert sorted(path for path in saved.rglob("*") if not path.name.startswith(".")) == before
    loaded.write().overwrite().save(f"{saved}-too")
    loaded.write().overwrite().save(f"{saved}-too")
    moved = PipelineModel.load(f"{saved}-too").stages[0].stages[0]
    assert (pathlib.Path(moved.getModelDir().removeprefix("file:")) / "saved_model.pb").exists()


def test_the_jvm_says_why_a_pipeline_has_lost_its_model(spark, java, model_dir, digits, tmp_path):
    """There Spark deletes a directory before a stage of a pipeline gets a say."""
    jvm, saved = spark.sparkContext._jvm, str(tmp_path / "saved")
    stages = spark.sparkContext._gateway.new_array(jvm.org.apache.spark.ml.PipelineStage, 1)
    stages[0] = java().setModelDir(str(model_dir)).setInputMapping({"x": "keras_tensor"})
    jvm.org.apache.spark.ml.Pipeline().setStages(stages).fit(digits._jdf).save(saved)
    loaded = jvm.org.apache.spark.ml.PipelineModel.load(saved)
    loaded.write().overwrite().save(f"{saved}-too")
    with pytest.raises(SPARK_ERRORS, match=r"saved with overwrite\(\) over the directory that it"):
        loaded.write().overwrite().save(saved)
    # With another copy of it the rest is saved all the same.
    loaded.stages()[0].setModelDir(str(model_dir))
    loaded.write().overwrite().save(saved)
    again = jvm.org.apache.spark.ml.PipelineModel.load(saved)
    assert values(DataFrame(again.transform(digits._jdf), spark))


@pytest.mark.parametrize("below", ["", "/", "/stage", "/variables/../assets/stage"])
def test_a_model_is_not_saved_in_itself(spark, java, model_dir, below):
    """The copy would be part of what is copied."""
    before = sorted(model_dir.rglob("*"))
    path = f"{model_dir}{below}"
    model = tfos.ml.Model(modelDir=f"file://{model_dir}/")
    for stage in (model, PipelineModel([model]), Pipeline(stages=[model])):
        with pytest.raises(tfos.errors.BadInputError, match="which this save would copy there"):
            stage.save(path)
    with pytest.raises(SPARK_ERRORS, match="which this save would copy there"):
        java().setModelDir(str(model_dir)).write().save(path)
    assert sorted(model_dir.rglob("*")) == before


def test_an_estimator_is_saved_beside_its_models(spark, tmp_path):
    estimator = tfos.ml.Estimator(build=print, modelDir=str(tmp_path))
    estimator.save(str(tmp_path / "estimator"))
    assert tfos.ml.Estimator.load(str(tmp_path / "estimator")).getModelDir() == str(tmp_path)


def test_an_estimator_is_not_saved_over_its_models(spark, tmp_path, monkeypatch):
    """Also where the process has made none of these models."""
    unguarded = getattr(MLWriter.save, "__wrapped__", MLWriter.save)
    monkeypatch.setattr(MLWriter, "save", unguarded)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/earlier").touch()
    estimator = tfos.ml.Estimator(build=print, modelDir=str(tmp_path / "models"))
    for stage in (estimator, Pipeline(stages=[estimator])):
        with pytest.raises(tfos.errors.BadInputError, match="which this save would delete"):
            stage.write().overwrite().save(str(tmp_path / "models"))
    assert (tmp_path / "models/earlier").exists()


def test_a_directory_without_a_model_is_not_saved(spark, java, model_dir, tmp_path):
    """Nor is what was saved earlier deleted."""
    model = tfos.ml.Model(modelDir=str(tmp_path / "none"))
    for stage in (model, PipelineModel([model])):
        with pytest.raises(tfos.errors.BadInputError, match="there is no SavedModel in"):
            stage.save(str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()
    tfos.ml.Model(modelDir=str(model_dir)).save(str(tmp_path / "saved"))
    before = sorted((tmp_path / "saved").rglob("*"))
    for stage in (model, PipelineModel([model])):
        with pytest.raises(tfos.errors.BadInputError, match="there is no SavedModel in"):
            stage.write().overwrite().save(str(tmp_path / "saved"))
    with pytest.raises(SPARK_ERRORS, match="is not there, so the stage can't be saved"):
        stage = java().setModelDir(str(tmp_path / "none"))
        stage.write().overwrite().save(str(tmp_path / "saved"))
    assert sorted((tmp_path / "saved").rglob("*")) == before


def test_a_function_that_cannot_be_pickled_replaces_nothing(spark, tmp_path):
    path, lock = str(tmp_path / "saved"), threading.Lock()
    good, bad = tfos.ml.Estimator(build=print), tfos.ml.Estimator(build=lambda args: lock)
    for stage_of in (lambda estimator: estimator, lambda estimator: Pipeline(stages=[estimator])):
        stage_of(good).write().overwrite().save(path)
        before = sorted((tmp_path / "saved").rglob("*"))
        with pytest.raises(TypeError, match="cannot pickle"):
            stage_of(bad).write().overwrite().save(path)
        assert sorted((tmp_path / "saved").rglob("*")) == before


def test_a_model_without_a_directory_is_saved_as_it_is(spark, java, tmp_path):
    tfos.ml.Model(batchSize=3).save(str(tmp_path / "python"))
    assert java.load(str(tmp_path / "python")).getModelDir() == ""
    java().setBatchSize(3).write().save(str(tmp_path / "java"))
    loaded = tfos.ml.Model.load(str(tmp_path / "java"))
    assert loaded.getBatchSize() == 3
    with pytest.raises(tfos.errors.BadInputError, match="modelDir is not set"):
        loaded.transform(spark.range(1))
