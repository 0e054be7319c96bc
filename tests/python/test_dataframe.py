"""DataFrames through Arrow: every SQL type as it arrives in a node, and what is refused."""

from __future__ import annotations

import os
import pathlib
import pickle
import time
from collections import Counter

import numpy as np
import programs
import pytest
from pyspark.sql import types as sql

import tfos
from tfos.dataframe import check_schema
from tfos.errors import BadInputError

ROWS = 40
WAIT_SECONDS = 60

#: SQL type: an expression over id, and what arrives for id n.
TYPES = {
    "boolean": ("id % 3 = 0", lambda n: np.bool_(n % 3 == 0)),
    "tinyint": ("cast(id - 20 as tinyint)", lambda n: np.int8(n - 20)),
    "smallint": ("cast(id * 800 as smallint)", lambda n: np.int16(n * 800)),
    "int": ("cast(id - 20 as int)", lambda n: np.int32(n - 20)),
    "bigint": ("id + 1 - 9223372036854775807", lambda n: np.int64(n + 1 - 2**63 + 1)),
    "float": ("cast(id / 7D as float)", lambda n: np.float32(n / 7)),
    "double": ("cast(id as double) / 7D", lambda n: np.float64(n) / 7),
    "date": ("date_add(date'1970-01-01', cast(id as int) - 5)", lambda n: np.int32(n - 5)),
    "timestamp": ("timestamp_micros(id * 1000001 - 7)", lambda n: np.int64(n * 1000001 - 7)),
    "timestamp_ntz": (
        "timestamp_ntz'1970-01-01 00:00:01' + make_dt_interval(0, 0, 0, id)",
        lambda n: np.int64((n + 1) * 1_000_000),
    ),
    "decimal(20,2)": ("cast(id as decimal(20,2)) / 4", lambda n: np.float64(n / 4)),
    "string": (
        "concat(repeat('\u00df', cast(id % 3 as int)), id)",
        lambda n: "\u00df" * (n % 3) + str(n),
    ),
    "binary": ("cast(repeat('x', cast(id % 5 as int)) as binary)", lambda n: b"x" * (n % 5)),
    "array<float>": (
        "array(cast(id as float), 0.5F, 2F)", lambda n: np.array([n, 0.5, 2], np.float32)),
    "array<boolean>": ("array(id = 1, true)", lambda n: np.array([n == 1, True])),
    "array<date>": ("array(date'1970-01-03')", lambda n: np.array([2], np.int32)),
    "array<decimal(3,1)>": ("array(0.5BD, 10.0BD)", lambda n: np.array([0.5, 10.0])),
    "array<bigint> of any length": ("sequence(1L, id + 1)", lambda n: np.arange(1, n + 2)),
    "array<double> without elements": ("cast(array() as array<double>)", lambda n: np.zeros(0)),
    "array<array<int>>": (
        "array(array(1, cast(id as int)), array(3, 4), array(5, 6))",
        lambda n: np.array([[1, n], [3, 4], [5, 6]], np.int32),
    ),
}


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b


class Store:
    """A cluster of one node that stores each row as soon as it has it."""

    def __init__(self, spark, directory):
        self._directory = directory
        self._read = 0
        self.cluster = tfos.run(
            spark, programs.store_each_row, nodes=1, args={"dir": str(directory)})

    def rows(self, count):
        """The next ``count`` rows that the node stores."""
        rows = []
        for number in range(self._read, self._read + count):
            path = self._directory / f"row-{number}"
            wait_for(path)
            rows.append(pickle.loads(path.read_bytes()))
        self._read += count
        return rows


def wait_for(path):
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def store(spark, tmp_path_factory):
    store = Store(spark, tmp_path_factory.mktemp("rows"))
    with store.cluster:
        yield store


def collect(spark, tmp_path, frame, *, nodes=2, **how):
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark, programs.collect_rows, nodes=nodes, args=arguments) as cluster:
        cluster.train(frame, **how)
    return collected(tmp_path)


def collected(directory):
    return [row for path in sorted(pathlib.Path(directory).glob("rows-*"))
            for row in pickle.loads(path.read_bytes())]


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_arrives_with_its_dtype_and_value(spark, store, kind):
    expression, expected = TYPES[kind]
    frame = spark.range(ROWS, numPartitions=2).selectExpr("id", f"{expression} AS value")
    store.cluster.train(frame, decimals="float64")
    rows = store.rows(ROWS)
    assert sorted(row.id for row in rows) == list(range(ROWS))
    for row in rows:
        assert row.__fields__ == ["id", "value"]
        assert type(row.id) is np.int64
        assert same(row.value, expected(int(row.id))), (row, expected(int(row.id)))


def test_vectors_of_spark_ml_arrive_dense(spark, store):
    from pyspark.ml.linalg import SparseVector, Vectors

    frame = spark.createDataFrame(
        [(n, Vectors.dense([n, 1.0, 2.0]) if n % 2 else SparseVector(3, {n % 3: 5.0 + n}))
         for n in range(10)], ["id", "features"])
    store.cluster.train(frame)
    for row in store.rows(10):
        n = int(row.id)
        expected = np.array([n, 1.0, 2.0]) if n % 2 else np.zeros(3)
        if n % 2 == 0:
            expected[n % 3] = 5.0 + n
        assert same(row.features, expected)


def test_names_that_spark_cannot_look_up(spark, store):
    store.cluster.train(spark.sql("SELECT 1 AS `a.b`, 2 AS x, 3 AS X, 4 AS `t``ick`"))
    (row,) = store.rows(1)
    assert row.__fields__ == ["a.b", "x", "X", "t`ick"]
    assert list(row) == [1, 2, 3, 4]


def test_every_row_once_however_it_is_partitioned(spark, tmp_path):
    frame = spark.range(25_000, numPartitions=5).selectExpr(
        "id", "cast(id as float) AS x", "array(id, id + 1) AS pair")
    rows = collect(spark, tmp_path, frame)
    assert sorted(row.id for row in rows) == list(range(25_000))
    for row in rows[::997]:
        assert row.x == row.id and row.pair.tolist() == [row.id, row.id + 1]


def test_a_query_with_a_shuffle_and_several_epochs(spark, tmp_path):
    frame = spark.range(1000).selectExpr("id % 10 AS key").groupBy("key").count()
    rows = collect(spark, tmp_path, frame, epochs=3)
    assert Counter((row.key, row["count"]) for row in rows) == {(k, 100): 3 for k in range(10)}


def test_no_rows_and_empty_partitions(spark, tmp_path):
    assert collect(spark, tmp_path, spark.range(0), nodes=1) == []
    rows = collect(spark, tmp_path, spark.range(3, numPartitions=8), nodes=1)
    assert sorted(row.id for row in rows) == [0, 1, 2]


def test_a_retried_task_feeds_no_row_twice(spark, tmp_path):
    batches, batch_rows = 300, 100
    fed = str(tmp_path / "fed")

    def rows_that_fail_once(_):
        """The first attempt fails as soon as the node has got a row."""
        import pyarrow
        from pyspark import TaskContext

        fails = TaskContext.get().attemptNumber() == 0
        for batch in range(batches):
            ids = range(batch * batch_rows, (batch + 1) * batch_rows)
            yield pyarrow.RecordBatch.from_pydict({"id": ids, "text": ["x" * 100] * batch_rows})
            if fails and os.path.exists(fed):
                raise ValueError("the first attempt fails")
        while fails:
            if os.path.exists(fed):
                raise ValueError("the first attempt fails")
            time.sleep(0.01)

    frame = spark.range(1, numPartitions=1).mapInArrow(rows_that_fail_once, "id long, text string")
    arguments = {"dir": str(tmp_path), "batch": 10}
    # Small batches, so that the node has the first ones while Spark still makes others.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch_rows)
    try:
        with tfos.run(spark, programs.collect_rows_and_say_when_fed, nodes=1,
                      args=arguments) as cluster:
            cluster.train(frame)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert [row.id for row in collected(tmp_path)] == list(range(batches * batch_rows))


def test_a_null_is_an_error_that_names_column_and_row(spark, tmp_path):
    frame = spark.range(100, numPartitions=1).selectExpr("id", "nullif(id, 61) AS value")
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark, programs.collect_rows, nodes=1, args=arguments) as cluster:
        with pytest.raises(
            Exception, match="partition 0: column value has a null in row 61; fill or drop it first"
        ):
            cluster.train(frame)
        cluster.train(frame.na.fill(-1).where("id >= 90"))
    # The task was tried several times, and fed the rows before the null once.
    ids = [int(row.id) for row in collected(tmp_path)]
    assert ids == list(range(len(ids) - 10)) + list(range(90, 100))


REFUSED = {
    "map<string,int>": ("map('a', 1)", "make columns of its values"),
    "struct<a:int>": ("named_struct('a', 1)", "select its fields"),
    "array<string>": ("array('a')", "only arrays of numbers"),
    "array<struct<a:int>>": ("array(named_struct('a', 1))", "only arrays of numbers"),
    "decimal(10,2)": ("cast(1 as decimal(10,2))", 'cast it or pass decimals="float64"'),
    "array<decimal(10,2)>": (
        "array(cast(1 as decimal(10,2)))", 'cast it or pass decimals="float64"'),
    "interval day": ("interval '1' day", "cast it"),
    "interval month": ("interval '1' month", "cast it"),
    "void": ("null", "cast it"),
    "variant": ("parse_json('1')", "cast it"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_types_are_refused_before_anything_runs(spark, store, kind):
    expression, advice = REFUSED[kind]
    frame = spark.range(5).selectExpr("id", f"{expression} AS odd")
    jobs = len(store.cluster._jobs)
    with pytest.raises(BadInputError) as refused:
        store.cluster.train(frame)
    assert f"column odd is {kind}: " in str(refused.value)
    assert advice in str(refused.value)
    assert "column id" not in str(refused.value)
    assert len(store.cluster._jobs) == jobs


def test_all_refused_columns_are_named():
    from pyspark.ml.linalg import MatrixUDT, VectorUDT

    schema = sql.StructType([
        sql.StructField("features", VectorUDT()),
        sql.StructField("matrix", MatrixUDT()),
        sql.StructField("lookup", sql.MapType(sql.StringType(), sql.LongType())),
    ])
    with pytest.raises(BadInputError, match="column matrix is .*; column lookup is map") as refused:
        check_schema(schema, None)
    assert "features" not in str(refused.value)
    assert "feed its rdd" in str(refused.value)


def test_arguments_that_cannot_be(spark):
    with pytest.raises(BadInputError, match="no columns"):
        check_schema(sql.StructType([]), None)
    with pytest.raises(BadInputError, match="decimals='float32' is neither None nor 'float64'"):
        check_schema(spark.range(1).schema, "float32")


def test_the_rdd_of_a_dataframe_keeps_exact_objects(spark, store):
    frame = spark.sql("SELECT 1 AS a, null AS b, map('k', 2) AS c, array(1, 2) AS d")
    store.cluster.train(frame.rdd)
    (row,) = store.rows(1)
    assert (type(row.a), row.b, row.c, row.d) == (int, None, {"k": 2}, [1, 2])
