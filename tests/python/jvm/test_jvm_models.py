"""Models that the jar runs over DataFrames, in a real Spark: reached through Spark's own gateway."""

from __future__ import annotations

import pathlib
import shutil
import sys

import numpy as np
import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame

import tfos
from support.jvm import strings, values
from support.spark.errors import SPARK_ERRORS
from tfos import inference
from tfos.errors import BadInputError


def run(model, frame):
    return DataFrame(model.transform(frame._jdf), frame.sparkSession)


def expected(model, frame, **options):
    """What the engine makes of the rows in this process, as lists of values."""
    table = frame.toArrow()
    inference_of = model.on(table.schema, **options)
    return [
        list(row.values())
        for batch in inference_of.run(table.to_batches())
        for row in batch.to_pylist()
    ]


def test_the_native_library_is_that_of_the_jar(jvm):
    assert jvm.tfos.internal.base.NativeLibrary.version() == tfos.__version__


def test_the_old_model_gives_the_mapped_columns_alone(old, models, digits, numbers):
    model = (
        old.TFModel()
        .setModel(str(models / "keras"))
        .setBatchSize(7)
        .setInputMapping({"x": "keras_tensor"})
        .setOutputMapping({"output_0": "y"})
    )
    result = run(model, digits)
    assert result.columns == ["y"]
    got = np.array([row.y for row in result.collect()], np.float32)
    np.testing.assert_allclose(got, numbers["y"], rtol=1e-5, atol=1e-5)


def test_results_are_those_of_the_python_engine_to_the_last_bit(new, models, digits):
    frame = digits.coalesce(1)  # The same batches here and there.
    model = new.ml.TensorFlowModel().setModelDir(str(models / "keras")).setBatchSize(9)
    result = run(model.setInputMapping({"x": "any name"}), frame)
    assert result.columns == ["id", "x", "output_0"]
    python = inference.Model(str(models / "keras"), threads=1)
    (name,) = python.inputs
    assert values(result) == expected(
        python, frame, input_mapping={"x": name}, keep=True, batch_size=9
    )


def test_strings_several_outputs_and_their_types(new, spark, models):
    frame = spark.createDataFrame(
        [
            (word, pair, {"unused": 1})
            for word, pair in [
                ("red", [1, 2]),
                ("blue", [300, 4]),
                ("ä" * 40, [5, 6]),
                ("", [0, 0]),
            ]
            * 30
        ],
        "word string, pair array<int>, other map<string, int>",
    ).coalesce(1)
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "text"))
        .setBinaryOutputs(strings(spark, ["bytes"]))
    )
    kept = run(model, frame)
    assert kept.columns[:3] == ["word", "pair", "other"] and kept.first().other == {"unused": 1}
    result = run(model.setKeepInputs(False), frame)
    python = inference.Model(str(models / "text"))
    wanted = expected(python, frame.drop("other"), binary_outputs=["bytes"])
    assert values(result) == wanted
    assert result.columns == sorted(python.outputs)


def test_numbers_of_every_type_become_tensors(new, spark, models):
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "others"))
        .setSignature("two")
        .setKeepInputs(False)
    )
    numbers = spark.range(9, numPartitions=1)
    for kind in ("tinyint", "smallint", "int", "bigint", "float", "double"):
        result = run(
            model, numbers.selectExpr("cast(id * 2 as float) AS x", f"cast(id as {kind}) AS y")
        )
        assert [row.difference for row in result.collect()] == list(range(9)), kind
    moments = spark.range(1, 4, numPartitions=1)
    for kind in ("timestamp_micros(id)", "date_from_unix_date(cast(id as int))"):
        result = run(model.setSignature("varying"), moments.selectExpr(f"{kind} AS n"))
        assert [row.range for row in result.collect()] == [[n] * 3 for n in (1, 2, 3)], kind


def test_vectors_images_fixed_rows_and_tensorflow_1(new, spark, models):
    def outputs(signature, frame, directory="others", tags="serve"):
        model = (
            new.ml.TensorFlowModel()
            .setModelDir(str(models / directory))
            .setTags(tags)
            .setSignature(signature)
            .setKeepInputs(False)
            .setBatchSize(3)
        )
        return [row.asDict() for row in run(model, frame).collect()]

    lists = spark.range(10, numPartitions=1).selectExpr("array(cast(id as double), 1d) AS x")
    vectors = lists.select(array_to_vector("x").alias("x"))
    for frame in (lists, vectors):
        assert outputs("fixed", frame) == [{"sum": n + 1, "rows": 4} for n in range(10)]
    images = spark.createDataFrame(
        [(bytearray(range(n, n + 6)),) for n in range(3)], "image binary"
    ).coalesce(1)
    assert outputs("image", images) == [
        {"mean": n + 2.5, "top": [n, n + 1, n + 2]} for n in range(3)
    ]
    # Outputs of one number for each row are plain numbers.
    assert outputs("fixed_ones", lists) == [{"nested": n + 1, "one": n + 1} for n in range(10)]
    assert outputs("predict", lists.limit(2), "tf1", "serve,old") == [{"y": 3.0}, {"y": 5.0}]


def test_what_does_not_fit_is_said_before_anything_runs(old, new, spark, models):
    frame = spark.createDataFrame([("a", 1.0)], "word string, pair double")
    model = old.TFModel().setModel(str(models / "text")).setOutputMapping({"nothing": "y"})
    with pytest.raises(BadInputError) as error:
        run(model, frame)
    for part in (
        f"file:{models}/text",
        "input pair: expected int32[?, 2], found column 'pair' of float64",
        "output nothing: the signature has no such output; it has",
        "The columns: word string",
    ):
        assert part in str(error.value)
    with pytest.raises(BadInputError, match="outputMapping is empty"):
        run(old.TFModel().setModel(str(models / "text")), frame)
    with pytest.raises(BadInputError, match="/keras, .* would be one"):
        run(new.ml.TensorFlowModel().setModelDir(str(models)), frame)
    with pytest.raises(BadInputError, match="no such signature|has no signature|'absent'"):
        run(
            new.ml.TensorFlowModel().setModelDir(str(models / "text")).setSignature("absent"), frame
        )
    two = new.ml.TensorFlowModel().setModelDir(str(models / "others")).setSignature("two")
    for name in ("difference", "Difference"):
        twice = spark.createDataFrame([(1.0, 2.0, 3.0)], f"x float, y float, {name} float")
        with pytest.raises(BadInputError, match="column difference would appear twice"):
            run(two, twice)
    with pytest.raises(BadInputError, match="column [dD] would appear twice"):
        run(two.setOutputMapping({"difference": "d", "rows": "D"}), twice)


@pytest.mark.parametrize("name", ["none", "file", "empty", "two"])
def test_what_is_not_a_model_is_refused_in_the_words_of_python(new, spark, models, tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for model in ("b", "a"):
        shutil.copytree(models / "tf1", tmp_path / "two" / model)
    with pytest.raises(BadInputError) as python:
        inference.Model(tmp_path / name)
    with pytest.raises(BadInputError) as jvm:
        run(new.ml.TensorFlowModel().setModelDir(str(tmp_path / name)), spark.range(1))
    assert str(jvm.value).replace("file:", "") == str(python.value)


def test_a_null_is_an_error_with_column_row_and_partition(new, spark, models):
    frame = spark.range(20, numPartitions=2).selectExpr(
        "cast(nullif(id, 17) as float) AS x", "1f AS y"
    )
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "others"))
        .setSignature("two")
        .setBatchSize(4)
    )
    with pytest.raises(BadInputError, match=r"partition 1: column x has a null in row 7") as error:
        run(model, frame).collect()
    assert str(models / "others") in str(error.value)


def test_tensors_by_their_names_in_the_graph(old, models, digits, numbers):
    _, (_, (fed,), (fetched,)) = inference.Model(str(models / "keras"))._found.__reduce__()
    _, input_edge, *_ = fed
    _, output_edge, *_ = fetched
    assert output_edge.endswith(":0")
    for edge in (output_edge, output_edge.removesuffix(":0")):
        model = (
            old.TFModel()
            .setModel(str(models / "keras"))
            .setInputMapping({"x": input_edge})
            .setOutputMapping({edge: "y"})
        )
        np.testing.assert_allclose(
            [row.y for row in run(model, digits).collect()], numbers["y"], rtol=1e-5, atol=1e-5
        )


def test_names_in_the_graph_mean_outputs_also_for_plain_values_and_bytes(new, spark, models):
    def edges_of(model):
        _, (_, _, outputs) = model._found.__reduce__()
        return {name: edge for name, edge, *_ in outputs}

    lists = spark.range(2, numPartitions=1).selectExpr("array(cast(id as double), 1d) AS x")
    edge = edges_of(inference.Model(str(models / "tf1"), "serve,old", "predict"))["y"]
    assert edge.endswith(":0")
    for name in (edge, edge.removesuffix(":0")):
        model = (
            new.ml.TensorFlowModel()
            .setModelDir(str(models / "tf1"))
            .setTags("serve,old")
            .setSignature("predict")
            .setKeepInputs(False)
            .setOutputMapping({name: "score"})
        )
        assert [row.asDict() for row in run(model, lists).collect()] == [
            {"score": 3.0},
            {"score": 5.0},
        ]

    words = spark.createDataFrame([("blue", [1, 2])], "word string, pair array<int>")
    edge = edges_of(inference.Model(str(models / "text")))["bytes"]
    model = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "text"))
        .setKeepInputs(False)
        .setOutputMapping({edge: "raw"})
        .setBinaryOutputs(strings(spark, [edge]))
    )
    assert values(run(model, words)) == [[b"blue\xff"]]


def test_a_model_stays_loaded_on_a_file_system_of_hadoops(
    new, spark, models, tmp_path, mounted_path
):
    """The executor copies it once: then it runs although its variables are gone."""
    shutil.copytree(models / "keras", tmp_path / "model")
    frame = spark.range(16, numPartitions=6).selectExpr("array_repeat(cast(id as float), 4) AS x")
    model = (
        new.ml.TensorFlowModel().setModelDir(f"{mounted_path}/model").setInputMapping({"x": "x"})
    )
    first = values(run(model, frame))
    (data,) = (tmp_path / "model" / "variables").glob("variables.data-*")
    data.unlink()
    assert values(run(model, frame)) == first
    # Files that changed are loaded anew, and these can't be.
    shutil.copytree(models / "keras", tmp_path / "model", dirs_exist_ok=True)
    index = tmp_path / "model" / "variables" / "variables.index"
    index.write_bytes(index.read_bytes() + b"\0")
    with pytest.raises(SPARK_ERRORS):
        run(model, frame)._jdf.count()


def test_a_model_is_loaded_again_when_its_assets_change(new, spark, models, tmp_path):
    where = shutil.copytree(models / "text", tmp_path / "model")
    frame = spark.createDataFrame(
        [(word, [1, 2]) for word in ("red", "green", "blue")], "word string, pair array<int>"
    ).coalesce(1)
    model = new.ml.TensorFlowModel().setModelDir(str(where)).setOutputMapping({"index": "index"})
    assert [row["index"] for row in run(model, frame).collect()] == [0, 1, 2]
    (where / "assets" / "vocabulary.txt").write_text("blue\ngreen\nred\n")
    assert [row["index"] for row in run(model, frame).collect()] == [2, 1, 0]


def test_stages_are_saved_and_loaded_with_their_parameters(
    old, new, jvm, spark, models, digits, tmp_path
):
    model = (
        old.TFModel()
        .setModel(str(models / "keras"))
        .setTag("serve")
        .setBatchSize(9)
        .setSignatureDefKey("serving_default")
        .setInputMapping({"x": "keras_tensor"})
        .setOutputMapping({"output_0": "y"})
    )
    stages = spark.sparkContext._gateway.new_array(jvm.org.apache.spark.ml.PipelineStage, 2)
    stages[0] = jvm.org.apache.spark.ml.feature.SQLTransformer().setStatement(
        "SELECT x FROM __THIS__"
    )
    stages[1] = model
    pipeline = jvm.org.apache.spark.ml.Pipeline().setStages(stages)
    fitted = pipeline.fit(digits._jdf)
    assert fitted.transformSchema(digits._jdf.schema()).simpleString() == "struct<y:array<float>>"
    fitted.save(str(tmp_path / "pipeline"))
    loaded = jvm.org.apache.spark.ml.PipelineModel.load(str(tmp_path / "pipeline"))
    assert values(run(loaded, digits)) == values(run(model, digits))
    stage = loaded.stages()[1]
    assert stage.getBatchSize() == 9 and stage.uid() == model.uid()

    clean = (
        new.ml.TensorFlowModel()
        .setModelDir(str(models / "keras"))
        .setKeepInputs(False)
        .setOutputMapping({"a": "b"})
        .setBinaryOutputs(strings(spark, ["a"]))
    )
    stages[1] = clean
    pipeline.setStages(stages).save(str(tmp_path / "clean"))
    again = jvm.org.apache.spark.ml.Pipeline.load(str(tmp_path / "clean")).getStages()[1]
    # With a copy of its model.
    assert again.getModelDir().startswith(f"file:{tmp_path}/clean/stages/1_")
    assert (again.getKeepInputs(), again.getBatchSize()) == (False, 128)
    assert again.getOutputMapping().toString() == clean.getOutputMapping().toString()
    assert list(again.getBinaryOutputs()) == ["a"]


def test_a_tensorflow_of_the_working_directory_is_not_taken(jvm, tmp_path):
    package = tmp_path / "tensorflow"
    package.mkdir()
    for name in ("__init__.py", "libtensorflow_cc.so.2"):
        (package / name).touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncd {tmp_path} && exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    find = jvm.tfos.internal.inference.TensorFlowLibrary.find
    assert find(None, str(python)) == find(None, sys.executable)


def test_without_tensorflow_the_error_says_where_it_was_looked_for(jvm, tmp_path):
    find = jvm.tfos.internal.inference.TensorFlowLibrary.find
    assert pathlib.Path(find(None, sys.executable)).name == "tensorflow"
    for named, python, message in [
        (str(tmp_path), "python3", f"TFOS_TENSORFLOW names {tmp_path}"),
        (None, "/no/python", "/no/python could not be started"),
    ]:
        with pytest.raises(SPARK_ERRORS, match=message) as error:
            find(named, python)
        assert "Install tensorflow 2.16 or newer" in str(error.value)
