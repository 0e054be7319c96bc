"""Inference over DataFrames: results of every form and type, key columns, and what is refused."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql import types as sql

import tfos
from support.programs import answers
from support.programs import nodes as programs
from support.spark.errors import SPARK_ERRORS
from support.spark.sql_types import RESULT_TYPES, TYPES
from tfos.errors import BadInputError, NodeFailedError

ROWS = 40


@pytest.fixture(scope="module")
def answering(spark):
    """Two nodes that answer as rows say."""
    with tfos.run(spark, answers.answer, nodes=2, args={"batch": 7}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def echoing(spark):
    """A node that echoes the column `value`."""
    arguments = {"batch": 9, "mapping": {"value": "value"}}
    with tfos.run(spark, programs.echo_columns, nodes=1, args=arguments) as cluster:
        yield cluster


def questions(spark, answer, rows=ROWS, partitions=3):
    return spark.range(rows, numPartitions=partitions).selectExpr(
        "id", "id AS k", f"'{answer}' AS answer"
    )


@pytest.mark.parametrize("answer", ["tuples", "Rows", "dict of arrays", "tensors"])
def test_forms_of_results(spark, answering, answer):
    """All of them are in test_arrow_results.py."""
    schema = "number long, text string"
    results = answering.inference(questions(spark, answer), schema=schema)
    assert results.schema == sql.DataType.fromDDL(schema)
    assert [tuple(row) for row in results.collect()] == [(n, str(n)) for n in range(ROWS)]


@pytest.mark.parametrize(
    "declared, answer, expected",
    RESULT_TYPES,
    ids=[f"{declared} of {answer}" for declared, answer, _ in RESULT_TYPES],
)
def test_spark_reads_every_type_of_results(spark, answering, declared, answer, expected):
    results = answering.inference(questions(spark, answer), schema=f"value {declared}")
    assert results.schema["value"].dataType.simpleString() == declared
    assert [row.value for row in results.collect()] == [expected(n) for n in range(ROWS)]


@pytest.mark.parametrize("answer", ["aware datetime", "microseconds"])
def test_timestamps_are_moments(spark, answering, answer):
    results = answering.inference(questions(spark, answer), schema="value timestamp", keys=["k"])
    seconds = results.selectExpr("k", "unix_micros(value) AS micros").collect()
    assert [row.micros for row in seconds] == [row.k * 1_000_000 for row in seconds]


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_column_comes_back_as_it_was(spark, echoing, kind):
    """Through the program as NumPy columns."""
    frame = spark.range(ROWS, numPartitions=2).selectExpr("id", f"{TYPES[kind][0]} AS value")
    wanted = frame.select(
        F.col("value").cast(
            kind.replace("decimal(20,2)", "double")
            .replace("decimal(3,1)", "double")
            .partition(" ")[0]
        )
    )
    results = echoing.inference(frame, schema=wanted.schema, keys=["id"], decimals="float64")
    assert [row.id for row in results.select("id").collect()] == list(range(ROWS))
    assert results.select("value").collect() == wanted.collect()


KEYS = {
    "string": "repeat('x', cast(id as int))",
    "binary": "cast(repeat('x', cast(id as int)) as binary)",
    "null": "nullif(id, 5)",
    "void": "null",
    "decimal": "cast(id as decimal(30,3)) / 7",
    "timestamp": "timestamp_micros(id)",
    "interval": "interval '1' day * id",
    "array": "array(cast(id as string), null)",
    "map": "map('a', id, 'b', null)",
    "struct": "named_struct('a', id, 'b', array(named_struct('c', null)))",
}


@pytest.mark.parametrize("kind", KEYS)
def test_key_columns_of_every_type(spark, answering, kind):
    frame = questions(spark, "values").selectExpr("id", f"{KEYS[kind]} AS `the key`", "answer")
    results = answering.inference(frame, schema="number long", keys=["the key"])
    assert results.schema.fields[0] == frame.schema["the key"]
    assert results.columns == ["the key", "number"]
    assert results.collect() == [
        Row(**{"the key": row["the key"], "number": row.id}) for row in frame.collect()
    ]


def test_key_columns_that_have_no_equality(spark, answering):
    frame = questions(spark, "values", 6).selectExpr(
        "id", "answer", "parse_json(cast(id as string)) AS json"
    )
    results = answering.inference(frame, schema="n long", keys=["json"])
    assert [row.json.toPython() for row in results.collect()] == list(range(6))

    vectors = [Vectors.dense([n, 1.0]) if n % 2 else Vectors.sparse(3, {1: n}) for n in range(6)]
    frame = spark.createDataFrame(
        [(n, "values", vectors[n]) for n in range(6)], ["id", "answer", "vector"]
    )
    results = answering.inference(frame, schema="n long", keys=["vector"])
    assert [row.vector for row in results.collect()] == vectors


def test_keys_come_first_in_the_order_asked_for(spark, answering):
    frame = questions(spark, "tuples").selectExpr("k + 1 AS next", "id", "answer", "-id AS less")
    results = answering.inference(frame, schema="number long, text string", keys=["less", "next"])
    assert results.columns == ["less", "next", "number", "text"]
    assert [tuple(row) for row in results.collect()] == [
        (-n, n + 1, n, str(n)) for n in range(ROWS)
    ]
    one = answering.inference(frame, schema="number long, text string", keys="next")
    assert one.columns == ["next", "number", "text"]


def test_the_nodes_do_not_get_the_keys(spark, tmp_path):
    def note_the_fields(ctx):
        while not ctx.feed.should_stop():
            rows = ctx.feed.next_batch(100)
            ctx.feed.batch_results([",".join(row.__fields__) for row in rows])

    with tfos.run(spark, note_the_fields, nodes=1) as cluster:
        frame = spark.sql("SELECT 1 AS `a.b`, 2 AS x, map(1, 2) AS k, 4 AS X, 5 AS `t``ick`")
        results = cluster.inference(frame, schema="`the.fields` string", keys=["k", "x"])
        assert results.columns == ["k", "x", "the.fields"]
        assert tuple(results.first()) == ({1: 2}, 2, "a.b,X,t`ick")


def test_rows_keep_partition_and_order(spark, answering):
    frame = questions(spark, "dict of arrays", 30_000, 7).withColumn(
        "partition", F.spark_partition_id()
    )
    results = answering.inference(
        frame, schema="number int, text string", keys=["k", "partition"]
    ).withColumn("now", F.spark_partition_id())
    rows = results.collect()
    assert [row.k for row in rows] == list(range(30_000))
    assert all(row.number == row.k and row.partition == row.now for row in rows)


def test_no_rows_and_empty_partitions(spark, answering):
    empty = answering.inference(questions(spark, "values", 0), schema="n long", keys=["k"])
    assert (empty.collect(), empty.columns) == ([], ["k", "n"])
    few = answering.inference(questions(spark, "values", 3, 8), schema="n long", keys=["k"])
    assert few.collect() == [Row(k=n, n=n) for n in range(3)]


def test_it_is_lazy_and_can_be_computed_again_and_in_part(spark, answering):
    results = answering.inference(
        questions(spark, "dicts", 5000, 4), schema="number long, text string", keys=["k"]
    )
    assert results.count() == 5000
    assert [row.number for row in results.limit(3).collect()] == [0, 1, 2]
    assert results.first().text == "0"
    assert results.where("number = 4999").collect() == [Row(k=4999, number=4999, text="4999")]
    assert results.agg(F.sum("number")).first()[0] == sum(range(5000))
    assert [row.number for row in results.collect()] == list(range(5000))
    # Both sides of a join, which adaptive execution may plan anew in between.
    other = results.selectExpr("k + 1 AS k", "number AS before")
    assert results.join(other, "k").where("before + 1 = number").count() == 4999
    cached = results.cache()
    assert cached.count() == cached.count() == 5000
    cached.unpersist()


def test_a_query_with_a_shuffle(spark, answering):
    frame = questions(spark, "values", 1000, 2).groupBy("id", "answer").agg(F.max("k").alias("k"))
    results = answering.inference(frame.repartition(5), schema="n long", keys=["k"])
    rows = results.orderBy("n").collect()
    assert [(row.k, row.n) for row in rows] == [(n, n) for n in range(1000)]


@pytest.mark.failure("task retry", "inference")
def test_a_retried_task_gets_its_results(spark, answering, tmp_path):
    marker = str(tmp_path / "failed")

    def fail_once(batches):
        """Fails the first attempt after some results have come."""
        for number, batch in enumerate(batches):
            if number == 1 and not os.path.exists(marker):
                pathlib.Path(marker).touch()
                raise ValueError("the first attempt fails")
            yield batch

    results = answering.inference(questions(spark, "array", 30_000, 1), schema="n long", keys=["k"])
    rows = results.mapInArrow(fail_once, results.schema).collect()
    assert os.path.exists(marker)
    assert [(row.k, row.n) for row in rows] == [(n, n) for n in range(30_000)]


def test_writing_and_a_view(spark, answering, tmp_path):
    results = answering.inference(
        questions(spark, "tuples"), schema="number long, text string", keys=["k"]
    )
    results.write.parquet(str(tmp_path / "results"))
    assert spark.read.parquet(str(tmp_path / "results")).count() == ROWS
    results.createOrReplaceTempView("answers")
    assert spark.sql("SELECT max(number) FROM answers WHERE text < '2'").first()[0] == 19


def test_the_cluster_goes_on_after_results_that_did_not_fit(spark, answering):
    results = answering.inference(questions(spark, "str", 10, 1), schema="n long")
    with pytest.raises(
        BadInputError,
        match="^inference, partition 0: column n: expected bigint, and the results hold string",
    ):
        results.collect()
    again = answering.inference(questions(spark, "values"), schema="n long")
    assert again.count() == ROWS


@pytest.mark.parametrize(
    "program, said",
    [
        (programs.leave_a_row_unanswered, "unfinished: it took 10 of its rows and gave 9 results"),
        (answers.answer, "11 results for 10 unanswered rows .partition 0"),
    ],
)
def test_another_number_of_results_than_rows_fails(spark, program, said):
    cluster = tfos.run(spark, program, nodes=1, args={"batch": 100})
    frame = questions(spark, "too many", 10, 1)
    results = cluster.inference(frame, schema="id long, k long, answer string")
    with pytest.raises(SPARK_ERRORS, match=said):
        results.collect()
    with pytest.raises(NodeFailedError, match=said):
        cluster.shutdown()


def test_an_exception_in_the_program_reaches_the_action(spark):
    cluster = tfos.run(spark, programs.fail_after_first_batch, nodes=1, args={"train": False})
    results = cluster.inference(spark.range(1000), schema="n long")
    with pytest.raises(SPARK_ERRORS, match="ValueError: broken while reading"):
        results.collect()
    with pytest.raises(NodeFailedError, match="broken while reading"):
        cluster.shutdown()


REFUSED = [
    ({}, "inference of a DataFrame needs to know what the results hold: pass schema="),
    ({"schema": "number long,"}, "schema='number long,' is not a schema"),
    ({"schema": "long"}, "schema=bigint names no columns; it must be a StructType"),
    ({"schema": 7}, "schema=7 names no columns"),
    ({"schema": sql.LongType()}, "schema=bigint names no columns"),
    ({"schema": sql.StructType([])}, "schema has no columns"),
    (
        {"schema": "a map<int,int>, b int, c struct<d:int>"},
        "column a is map<int,int>: declare an array of its keys .*column c is struct<d:int>: declare "
        "its fields",
    ),
    ({"schema": "a array<struct<b:int>>"}, "column a is array<struct<b:int>>: declare a number"),
    ({"schema": "a interval day"}, "column a is interval day: declare a number"),
    ({"schema": "a int, b int, a int"}, "column a would appear twice"),
    ({"schema": "id int", "keys": ["id"]}, "column id would appear twice"),
    ({"schema": "ID int", "keys": ["id"]}, "column ID, id would appear twice"),
    ({"schema": "n int", "keys": ["ID"]}, "keys names 'ID', and the DataFrame has the columns id,"),
    ({"schema": "n int", "keys": ["id", "id"]}, "column id would appear twice"),
    ({"schema": "n int", "keys": ["twice"]}, "the DataFrame has 2 columns 'twice': rename"),
    (
        {"schema": "n int", "keys": ["months"]},
        "key column months is interval month, which Spark cannot hand over",
    ),
    ({"schema": "n int", "keys": ["id"]}, "can't be fed: column twice is map<int,int>"),
    ({"schema": "n int", "decimals": "float32"}, "decimals='float32' is neither"),
]


@pytest.mark.parametrize("arguments, said", REFUSED, ids=[said[:30] for _, said in REFUSED])
def test_what_cannot_be_is_said_before_anything_runs(spark, answering, arguments, said):
    frame = spark.sql(
        "SELECT id, 'values' AS answer, map(1, 2) AS twice, 1 AS twice, "
        "interval '1' month AS months FROM range(3)"
    )
    tracker = spark.sparkContext.statusTracker()
    jobs = set(tracker.getJobIdsForGroup(None))
    with pytest.raises(BadInputError, match=said):
        answering.inference(frame, **arguments)
    assert set(tracker.getJobIdsForGroup(None)) == jobs


def test_other_arguments_that_cannot_be(spark, answering):
    frame = spark.range(3)
    with pytest.raises(BadInputError, match=r"all columns \(id\) are keys"):
        answering.inference(frame, schema="n int", keys=["id"])
    with pytest.raises(BadInputError, match="the DataFrame has no columns"):
        answering.inference(frame.select(), schema="n int")
    with pytest.raises(BadInputError, match="are for DataFrames, and this is an RDD"):
        answering.inference(frame.rdd, schema="n int")
    with pytest.raises(BadInputError, match="takes a DataFrame or an RDD of Spark, not list"):
        answering.inference([1, 2], schema="n int")
    vector = sql.StructType([sql.StructField("v", VectorUDT())])
    with pytest.raises(BadInputError, match="declare array<double> and use .*array_to_vector"):
        answering.inference(frame, schema=vector)


def test_the_rdd_of_a_dataframe_gives_an_rdd(spark):
    with tfos.run(spark, programs.echo, nodes=1, args={"batch": 3}) as cluster:
        results = cluster.inference(spark.sql("SELECT 1 AS a, null AS b").rdd).collect()
    assert results == [(0, Row(a=1, b=None))]


def test_training_and_inference_through_one_feed(spark, tmp_path):
    def count_then_answer(ctx):
        """Answers with the number of rows that it was trained with."""
        trained = 0
        while trained < 1000:
            trained += len(ctx.feed.next_batch(100))
        while not ctx.feed.should_stop():
            ctx.feed.batch_results([trained + row.id for row in ctx.feed.next_batch(1 << 20)])

    with tfos.run(spark, count_then_answer, nodes=1) as cluster:
        cluster.train(spark.range(1000, numPartitions=3))
        results = cluster.inference(spark.range(10, numPartitions=4), schema="n long")
        assert [row.n for row in results.collect()] == [1000 + n for n in range(10)]


def test_columns_for_training(spark, tmp_path):
    def note_columns(ctx):
        feed = ctx.data_feed(input_mapping={"x": "features", "id": "row"})
        seen = []
        while not feed.should_stop():
            batch = feed.next_batch(64)
            assert list(batch) == ["row", "features"]
            assert batch["features"].shape == (len(batch["row"]), 3)
            assert batch["features"].dtype == np.float32
            np.testing.assert_array_equal(batch["features"][:, 2], batch["row"] * 2)
            seen += batch["row"].tolist()
        pathlib.Path(ctx.args, f"seen-{ctx.node_id}").write_text(" ".join(map(str, seen)))

    frame = spark.range(1000, numPartitions=3).selectExpr(
        "array(0F, 1F, cast(id * 2 as float)) AS x", "'unused' AS y", "id"
    )
    with tfos.run(spark, note_columns, nodes=2, args=str(tmp_path)) as cluster:
        cluster.train(frame)
    seen = [int(n) for path in tmp_path.glob("seen-*") for n in path.read_text().split()]
    assert sorted(seen) == list(range(1000))


@pytest.mark.parametrize("cached", [False, True], ids=["pipelined", "cached"])
def test_columns_of_an_rdd(spark, echoing, cached):
    """The rows are dicts and tuples, also pickled by Spark; results are dicts of NumPy values."""
    for make in (lambda n: {"other": None, "value": [n / 2, 1.0]}, lambda n: ([n / 2, 1.0], None)):
        rdd = spark.sparkContext.parallelize(range(100), 3).map(make)
        results = echoing.inference(rdd.cache() if cached else rdd).collect()
        assert len(results) == 100
        for n, result in enumerate(results):
            np.testing.assert_array_equal(result["value"], [n / 2, 1.0])
