"""DataFrames by either feeder: every SQL type as it arrives in a node, and what is refused."""

from __future__ import annotations

import itertools
import os
import pickle
import re
import threading
import time
import traceback
from collections import Counter

import numpy as np
import pytest
from pyspark.sql import types as sql

import tfos
from support.comparing import assert_same
from support.programs import nodes as programs
from support.spark.sql_types import TYPES
from support.waiting import BOUND_SECONDS, wait_for
from tfos.errors import BadInputError
from tfos.feed import shuffling
from tfos.feed.frames import check_schema

ROWS = 40


class Store:
    """A cluster of one node that stores each row as soon as it has it."""

    def __init__(self, spark, directory, feed_jvm):
        self._directory = directory
        self._read = 0
        self.cluster = tfos.run(
            spark, programs.store_each_row, nodes=1, args={"dir": str(directory)}, feed_jvm=feed_jvm
        )

    def rows(self, count):
        """The next ``count`` rows that the node stores."""
        rows = []
        for number in range(self._read, self._read + count):
            path = self._directory / f"row-{number}"
            wait_for(path.exists, path)
            rows.append(pickle.loads(path.read_bytes()))
        self._read += count
        return rows


def error_of(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:  # whatever it is: the caller looks at it
        return error
    return None


@pytest.fixture(scope="module")
def store(spark, tmp_path_factory, feed_jvm):
    store = Store(spark, tmp_path_factory.mktemp("rows"), feed_jvm)
    with store.cluster:
        yield store


@pytest.fixture(scope="module")
def typed_rows(spark, store):
    """Rows with a column of each type, as they arrive."""
    columns = [f"{expression} AS `{kind}`" for kind, (expression, _) in TYPES.items()]
    frame = spark.range(ROWS, numPartitions=2).selectExpr("id", *columns)
    store.cluster.train(frame, decimals="float64")
    return store.rows(ROWS)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_arrives_with_its_dtype_and_value(typed_rows, kind):
    _, expected = TYPES[kind]
    assert sorted(row.id for row in typed_rows) == list(range(ROWS))
    for row in typed_rows:
        assert row.__fields__ == ["id", *TYPES]
        assert type(row.id) is np.int64
        assert_same(row[kind], expected(int(row.id)))


def test_vectors_of_spark_ml_arrive_dense(spark, store):
    from pyspark.ml.linalg import SparseVector, Vectors

    frame = spark.createDataFrame(
        [
            (n, Vectors.dense([n, 1.0, 2.0]) if n % 2 else SparseVector(3, {n % 3: 5.0 + n}))
            for n in range(10)
        ],
        ["id", "features"],
    )
    store.cluster.train(frame)
    for row in store.rows(10):
        n = int(row.id)
        expected = np.array([n, 1.0, 2.0]) if n % 2 else np.zeros(3)
        if n % 2 == 0:
            expected[n % 3] = 5.0 + n
        assert_same(row.features, expected)


def test_names_that_spark_cannot_look_up(spark, store):
    store.cluster.train(spark.sql("SELECT 1 AS `a.b`, 2 AS x, 3 AS X, 4 AS `t``ick`"))
    (row,) = store.rows(1)
    assert row.__fields__ == ["a.b", "x", "X", "t`ick"]
    assert list(row) == [1, 2, 3, 4]


def test_every_row_once_however_it_is_partitioned(spark, tmp_path, feed_jvm):
    frame = spark.range(25_000, numPartitions=5).selectExpr(
        "id", "cast(id as float) AS x", "array(id, id + 1) AS pair"
    )
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(
        spark, programs.collect_rows, nodes=2, args=arguments, feed_jvm=feed_jvm
    ) as cluster:
        cluster.train(frame)
        ledger = cluster.ledger()
    rows = programs.all_rows_of(tmp_path)
    assert sorted(row.id for row in rows) == list(range(25_000))
    for row in rows[::997]:
        assert row.x == row.id and row.pair.tolist() == [row.id, row.id + 1]
    assert (ledger.read, ledger.moved) == (25_000, 0)


def test_a_query_with_a_shuffle_and_several_epochs(spark, store):
    frame = spark.range(100).selectExpr("id % 10 AS key").groupBy("key").count()
    store.cluster.train(frame, epochs=3)
    found = Counter((row.key, row["count"]) for row in store.rows(30))
    assert found == {(key, 10): 3 for key in range(10)}


def test_another_order_in_each_epoch(spark, store):
    frame = spark.range(50, numPartitions=2).selectExpr("id AS number", "array(id, 1) AS pair")
    store.cluster.train(frame, epochs=2, shuffle=7)
    rows = [int(row.number) for row in store.rows(100)]
    assert sorted(rows[:50]) == sorted(rows[50:]) == list(range(50))
    assert len({tuple(rows[:50]), tuple(rows[50:]), tuple(range(50))}) == 3


def test_equal_rows_are_among_the_others_in_another_order(spark):
    frame = spark.range(2000, numPartitions=2).selectExpr("id % 7 AS number")
    shuffled = shuffling.shuffled_frame(frame, 1, 2)
    partitions = [[row.number for row in part] for part in shuffled.rdd.glom().collect()]
    assert Counter(itertools.chain(*partitions)) == Counter(number % 7 for number in range(2000))
    for part in filter(None, partitions):
        longest = max(len(list(run)) for _, run in itertools.groupby(part))
        assert longest < 60, "by chance alone: two values in turn are rarely this long the same"
    again = shuffling.shuffled_frame(frame.repartition(5), 1, 2).rdd.glom().collect()
    assert [[row.number for row in part] for part in again] == partitions, "a function of the rows"


def test_a_frame_that_spark_knows_to_be_empty_can_be_shuffled(spark):
    frame = spark.range(10).filter("false")
    assert frame.rdd.getNumPartitions() == 0
    assert shuffling.shuffled_frame(frame, 7, shuffling.partitions_of(frame)).count() == 0


def test_a_frame_that_was_cached_after_it_ran_is_read_from_there(spark, store):
    calls = spark.sparkContext.accumulator(0)

    def counted(number):
        calls.add(1)
        return number

    from pyspark.sql import functions

    frame = spark.range(5, numPartitions=1).select(functions.udf(counted, "long")("id").alias("n"))
    frame.collect()
    frame.cache().count()
    before = calls.value
    store.cluster.train(frame)
    assert [int(row.n) for row in store.rows(5)] == list(range(5))
    assert calls.value == before
    frame.unpersist()


def test_no_rows_and_empty_partitions(spark, store):
    store.cluster.train(spark.range(0))
    store.cluster.train(spark.range(3, numPartitions=8))
    assert sorted(row.id for row in store.rows(3)) == [0, 1, 2]


def test_a_row_larger_than_a_region(spark, store):
    frame = spark.sql(
        "SELECT 1 AS id, cast(repeat('x', 35000000) AS binary) AS image "
        "UNION ALL SELECT 2, cast('y' AS binary)"
    )
    store.cluster.train(frame)
    assert sorted(len(row.image) for row in store.rows(2)) == [1, 35_000_000]


@pytest.mark.parametrize(
    "cache",
    [
        pytest.param(None, marks=pytest.mark.failure("task retry", "feeding")),
        pytest.param("memory", marks=pytest.mark.failure("task retry", "caching")),
    ],
)
def test_a_retried_task_feeds_no_row_twice(spark, tmp_path, feed_jvm, cache):
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
        with tfos.run(
            spark,
            programs.collect_rows_and_say_when_fed,
            nodes=1,
            args=arguments,
            feed_jvm=feed_jvm,
        ) as cluster:
            cluster.train(frame, epochs=2 if cache else 1, cache=cache)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    once = list(range(batches * batch_rows))
    assert [row.id for row in programs.all_rows_of(tmp_path)] == (2 * once if cache else once)


def test_a_null_is_an_error_that_names_column_and_row(spark, store, feed_jvm):
    frame = spark.range(100, numPartitions=1).selectExpr("id", "nullif(id, 61) AS value")
    message = "partition 0: column value has a null in row 61; fill or drop it first"
    with pytest.raises(BadInputError, match=f"^{message}") as raised:
        store.cluster.train(frame)
    files = [place.filename for place in traceback.extract_tb(raised.value.__traceback__)]
    assert not any("pyspark" in file or "py4j" in file for file in files), "they say nothing"
    store.cluster.train(frame.na.fill(-1).where("id >= 90"))
    # The task was tried several times, and fed the rows before the null once.
    ids = []
    while not ids or ids[-1] != 99:
        ids += [int(row.id) for row in store.rows(1)]
    assert ids == list(range(len(ids) - 10)) + list(range(90, 100))


def test_a_null_inside_an_array(spark, store, feed_jvm):
    frame = spark.range(30, numPartitions=1).selectExpr(
        "id", "array(1, if(id = 20, null, 2)) AS pair"
    )
    advice = re.escape("filter(pair, v -> v is not null)")
    with pytest.raises(
        BadInputError, match=f"column pair has a null in row 20, inside an array.*{advice}"
    ):
        store.cluster.train(frame)
    store.cluster.train(spark.range(-1, 0))
    while int(store.rows(1)[0].id) != -1:
        pass


def test_a_null_inside_an_array_of_strings(spark, store, feed_jvm):
    frame = spark.range(30, numPartitions=1).selectExpr(
        "id", "array('a', if(id = 20, null, 'b')) AS words"
    )
    advice = re.escape("filter(words, v -> v is not null)")
    with pytest.raises(
        BadInputError, match=f"column words has a null in row 20, inside an array.*{advice}"
    ):
        store.cluster.train(frame)
    store.cluster.train(spark.range(-1, 0))
    while int(store.rows(1)[0].id) != -1:
        pass


def test_a_killed_task_stops_waiting_for_room(spark, tmp_path, feed_jvm):
    """Nobody reads, and the task would wait for its timeout of ten minutes."""
    leave = tmp_path / "leave"
    failures = []
    with tfos.run(
        spark,
        programs.read_nothing_until,
        nodes=1,
        args={"path": str(leave)},
        feed_jvm=feed_jvm,
        feed_memory=1 << 20,
        feed_region=1 << 20,
    ) as cluster:

        def in_use():
            return cluster.status()[0].metrics.get("feed_memory_bytes", 0)

        frame = spark.range(1_000_000, numPartitions=1)
        feeding = threading.Thread(target=lambda: failures.append(error_of(cluster.train, frame)))
        feeding.start()
        wait_for(lambda: in_use() > 0, "the node's memory to be asked for")
        cluster._jobs.cancel()
        feeding.join(BOUND_SECONDS)
        assert failures and failures[0] is not None
        executors = spark.sparkContext._jsc.sc().statusTracker()
        wait_for(
            lambda: not any(e.numRunningTasks() for e in executors.getExecutorInfos()),
            "the killed task to end",
        )
        leave.touch()


REFUSED = {
    "map<string,int>": ("map('a', 1)", "make columns of its values"),
    "struct<a:int>": ("named_struct('a', 1)", "select its fields"),
    "array<struct<a:int>>": (
        "array(named_struct('a', 1))",
        "only arrays of numbers, strings and binary",
    ),
    "array<map<string,int>>": ("array(map('a', 1))", "only arrays of numbers"),
    "decimal(10,2)": ("cast(1 as decimal(10,2))", 'cast it or pass decimals="float64"'),
    "array<decimal(10,2)>": (
        "array(cast(1 as decimal(10,2)))",
        'cast it or pass decimals="float64"',
    ),
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

    schema = sql.StructType(
        [
            sql.StructField("features", VectorUDT()),
            sql.StructField("matrix", MatrixUDT()),
            sql.StructField("lookup", sql.MapType(sql.StringType(), sql.LongType())),
        ]
    )
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
