"""DataFrames through models, in the executors' JVMs and in Python workers: the same results."""

from __future__ import annotations

import re
import shutil
from types import SimpleNamespace

import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.sql import Observation
from pyspark.sql import functions as F

from support.spark.errors import SPARK_ERRORS
from support.spark.fake import fake_session
from tfos import inference
from tfos.errors import BadInputError
from tfos.inference import frames, jvm
from tfos.settings import Settings


@pytest.fixture
def both(run_models_in):
    """A function: what `transform` makes of a frame, whose schema and rows are the same either way."""

    def transform(frame, model, **options):
        results = []
        for runner in ("off", "on"):
            run_models_in(runner)
            result = frames.transform(frame, model, **options)
            results.append((result.schema, sorted(map(str, result.collect()))))
        assert results[0] == results[1]
        return result

    return transform


@pytest.fixture
def others(models):
    """A function: the model of that signature."""
    return lambda signature: inference.Model(str(models / "others"), signature=signature, threads=1)


def runs_python(result):
    return "MapInArrow" in result._jdf.queryExecution().toString()


def test_strings_several_outputs_and_their_order(spark, models, both):
    frame = spark.createDataFrame(
        [("red", [1, 2]), ("ä" * 40, [300, 4]), ("", [0, 0])] * 30, "word string, pair array<int>"
    ).coalesce(2)
    model = inference.Model(str(models / "text"), threads=1)
    kept = both(frame, model, binary_outputs=["bytes"], batch_size=7)
    assert kept.columns == ["word", "pair", *model.outputs] and not runs_python(kept)
    outputs = {"upper": "u", "bytes": "b", "index": "i"}
    mapped = both(frame, model, output_mapping=outputs, binary_outputs=["bytes"], keep=False)
    assert mapped.columns == ["u", "b", "i"] and mapped.count() == 90


def test_kept_columns_of_any_type_and_name(spark, others, both):
    frame = spark.range(20, numPartitions=3).selectExpr(
        "nullif(id, 5) AS `a.b`",
        "map('k', id, 'n', null) AS map",
        "cast(id as decimal(30, 3)) / 7 AS `tick``s`",
        "named_struct('a', array(named_struct('b', nullif(id, 7)))) AS struct",
        "cast(id as float) AS x",
        "id AS y",
        "timestamp_micros(id) AS time",
        "if(id = 3, null, 'text') AS text",
        "cast('bytes' as binary) AS binary",
    )
    result = both(frame, others("two"), batch_size=4)
    assert result.columns == [*frame.columns, "difference", "rows"]
    assert {row.difference for row in result.collect()} == {0.0}


def test_kept_columns_of_one_name(spark, others, both):
    frame = spark.range(5, numPartitions=2).selectExpr(
        "id AS k", "cast(id as float) AS x", "1f AS y", "id + 1 AS k", "-id AS K"
    )
    result = both(frame, others("two"), batch_size=2)
    assert result.columns == [*frame.columns, "difference", "rows"]
    assert sorted(row[:6] for row in result.collect()) == [
        (n, n, 1, n + 1, -n, n - 1) for n in range(5)
    ]


def test_vectors_fixed_rows_and_images(spark, others, both):
    lists = spark.range(10, numPartitions=1).selectExpr("array(cast(id as double), 1d) AS x")
    vectors = lists.select(array_to_vector("x").alias("x"))
    for frame in (lists, vectors):
        result = both(frame, others("fixed"), batch_size=3, keep=False)
        assert [row["sum"] for row in result.collect()] == [n + 1 for n in range(10)]
    images = spark.createDataFrame(
        [(bytearray(range(n, n + 6)),) for n in range(3)], "image binary"
    )
    assert both(images, others("image")).count() == 3


def test_ragged_inputs(spark, others, both):
    frame = spark.range(9, numPartitions=2).selectExpr("sequence(0, id) AS ids", "id")
    model = others("ragged")
    values, splits = sorted(model.inputs)
    result = both(frame, model, input_mapping={"ids": (values, splits)}, batch_size=4)
    assert [row["sum"] for row in result.orderBy("id").collect()] == [
        n * (n + 1) // 2 for n in range(9)
    ]


def test_ops_of_a_library(spark, models, both):
    model = inference.Model(
        str(models / "custom"), op_libraries=(str(models / "one_more.so"),), threads=1
    )
    result = both(spark.range(5).withColumnRenamed("id", "n"), model)
    assert sorted(tuple(row) for row in result.collect()) == [(n, n + 1) for n in range(5)]


def test_a_library_of_ops_that_is_none(spark, models, model_runner, tmp_path):
    (tmp_path / "none.so").write_text("no library")
    model = inference.Model(
        str(models / "custom"), op_libraries=(str(tmp_path / "none.so"),), threads=1
    )
    result = frames.transform(spark.range(5).withColumnRenamed("id", "n"), model)
    with pytest.raises(BadInputError, match="none.so can't be loaded as a library of ops"):
        result.collect()


def test_a_null_is_an_error_with_column_row_and_partition(spark, others, model_runner):
    frame = spark.range(20, numPartitions=2).selectExpr(
        "cast(nullif(id, 17) as float) AS x", "1f AS y"
    )
    result = frames.transform(frame, others("two"), batch_size=4)
    with pytest.raises(BadInputError) as raised:
        result.collect()
    assert re.fullmatch(
        r"(file:)?/\S+/others, partition 1: column x has a null in row 7[^\n]*", str(raised.value)
    )
    assert raised.value.__cause__ is None, "Spark's frames say nothing"


def test_a_column_that_is_there_twice_is_no_input(spark, others, model_runner):
    frame = spark.sql("SELECT 1f AS x, 2f AS y, 3f AS y")
    with pytest.raises(
        BadInputError, match=r"input y: expected float32\[\?\], found more than one column 'y'"
    ):
        frames.transform(frame, others("two"))


def test_names_that_spark_does_not_tell_apart(spark, others, model_runner):
    frame = spark.sql("SELECT 3f AS x, 1f AS y, 7 AS Difference, 8 AS Y_, 9 AS y_")
    same = {"output_mapping": {"difference": "d", "rows": "D"}}
    for options in ({}, same, {**same, "keep": False}):
        with pytest.raises(BadInputError, match="column (difference|D) would appear twice"):
            frames.transform(frame, others("two"), **options)
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        kept = frames.transform(frame, others("two")).select("Difference", "difference", "Y_")
        assert kept.collect() == [(7, 2, 8)]
        mapped = frames.transform(frame, others("two"), keep=False, **same)
        assert mapped.select("D", "d").collect() == [(1, 2)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_it_is_lazy_and_can_be_computed_again_and_in_part(spark, others, model_runner):
    computed = spark.sparkContext.accumulator(0)

    @F.udf("float")
    def counted(n):
        computed.add(1)
        return float(n)

    # A shuffle, which adaptive execution would run to plan what follows.
    frame = (
        spark.range(2_000)
        .repartition(3, "id")
        .select("id", counted("id").alias("x"), F.lit(1.0).alias("y"))
    )
    result = frames.transform(frame.repartition(2, "x"), others("two"), batch_size=100)
    assert computed.value == 0
    assert result.count() == 2_000 and computed.value >= 2_000
    assert (
        len(result.limit(3).collect()) == 3 and result.where("id = 1999").first().difference == 1998
    )
    assert result.agg(F.sum("difference")).first()[0] == sum(range(2_000)) - 2_000
    other = result.select((F.col("id") + 1).alias("id"), F.col("difference").alias("before"))
    assert result.join(other, "id").where("before + 1 = difference").count() == 1_999


def test_results_use_what_was_cached_after_them(spark, others, model_runner):
    frame = spark.range(50).selectExpr("cast(id as float) AS x", "cast(rand() as float) AS y")
    result = frames.transform(frame, others("two"))
    cached = frame.cache()
    wanted = sorted(row.x - row.y for row in cached.collect())
    assert sorted(row.difference for row in result.collect()) == pytest.approx(wanted)
    cached.unpersist()


def test_no_rows_and_empty_partitions(spark, others, model_runner):
    empty = spark.range(0).selectExpr("cast(id as float) AS x", "1f AS y")
    assert frames.transform(empty, others("two")).collect() == []
    few = spark.range(3, numPartitions=8).selectExpr("cast(id as float) AS x", "1f AS y")
    assert frames.transform(few, others("two")).count() == 3


def test_rows_go_on_to_python(spark, others, model_runner):
    frame = spark.range(5_000, numPartitions=2).selectExpr("cast(id as float) AS x", "1f AS y")
    result = frames.transform(frame, others("two"), batch_size=64)
    add = F.udf(lambda x, d: x + d, "float")
    assert result.select(add("x", "difference").alias("sum")).agg(F.sum("sum")).first()[0] == sum(
        2 * n - 1 for n in range(5_000)
    )
    assert sum(result.rdd.map(lambda row: row.difference).take(70)) == sum(range(-1, 69))


def test_streams_go_through_python(spark, others, run_models_in, tmp_path):
    frame = spark.range(30).selectExpr("cast(id as float) AS x", "1f AS y")
    frame.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    result = frames.transform(stream, others("two"))
    query = (
        result.writeStream.format("memory").queryName("scored").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    assert spark.sql("SELECT sum(difference) FROM scored").first()[0] == sum(range(30)) - 30
    run_models_in("on")
    with pytest.raises(
        BadInputError, match="spark.tfos.inference.jvm is on, and the DataFrame is a stream"
    ):
        frames.transform(stream, others("two"))


def test_what_is_observed_goes_through_python(spark, others, run_models_in):
    """Spark would not report metrics of what the jar plans on its own."""
    observation = Observation()
    frame = spark.range(30).selectExpr("cast(id as float) AS x", "1f AS y")
    result = frames.transform(frame.observe(observation, F.max("x").alias("most")), others("two"))
    assert runs_python(result)
    assert result.count() == 30 and observation.get == {"most": 29.0}
    run_models_in("on")
    with pytest.raises(BadInputError, match="jvm is on, and the DataFrame has metrics of observe"):
        frames.transform(frame.observe("metrics", F.count("x")), others("two"))
    observation = Observation()
    result = frames.transform(frame, others("two")).observe(observation, F.count("x").alias("rows"))
    assert not runs_python(result)
    assert len(result.collect()) == 30 and observation.get == {"rows": 30}


def frame_without_jar(**conf):
    return SimpleNamespace(sparkSession=fake_session(**conf), isStreaming=False)


def test_without_the_jar_python_runs_models_unless_told_otherwise():
    assert "the jar of tfos is not on the driver's class path" in jvm.why_unused(
        frame_without_jar()
    )
    assert jvm.why_unused(frame_without_jar(jvm="off")) == "spark.tfos.inference.jvm is off"
    with pytest.raises(
        BadInputError, match=r"spark.tfos.inference.jvm is on, and the jar .*jar_path\(\)"
    ):
        jvm.why_unused(frame_without_jar(jvm="on"))
    with pytest.raises(
        BadInputError, match="spark.tfos.inference.jvm must be auto, on or off, not 'maybe'"
    ):
        jvm.why_unused(frame_without_jar(jvm="maybe"))


def test_the_setting_is_of_the_session_and_no_keyword():
    with pytest.raises(BadInputError, match="unknown setting inference_jvm"):
        Settings.resolve({}.get, {"inference_jvm": "on"})


def test_executors_use_the_tensorflow_of_the_drivers_python(
    spark, models, model_runner, tmp_path, monkeypatch
):
    """As Python workers do, whatever Python the executors would find themselves."""
    shutil.copytree(models / "others", tmp_path / "model")  # No process has loaded that one.
    model = inference.Model(str(tmp_path / "model"), signature="two", threads=1)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/python")
    frame = spark.range(4).selectExpr("cast(id as float) AS x", "1f AS y")
    with pytest.raises(SPARK_ERRORS, match="/no/python"):
        frames.transform(frame, model).collect()
