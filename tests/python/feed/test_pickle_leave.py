"""Rows travel as pickles only by leave: what ``spark.tfos.feed.pickle=false`` lets through, what it
refuses, and what it says."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row

import tfos
from support.comparing import assert_same
from support.feed_nodes import TIMEOUT, infer, read_all
from support.programs import nodes as programs
from support.spark.errors import SPARK_ERRORS
from tfos.errors import BadInputError, FeedError

SETTING = "spark.tfos.feed.pickle=false"


class Odd:
    """What no column holds."""


class Trap:
    """Does harm where it is unpickled."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("it was unpickled",))


#: Rows without columns, and what is said of them.
REFUSED = {
    "object": ([Odd()], "a row is of the type .*Odd"),
    "set in a tuple": ([(1, {2})], "field 1 of a row is of the type set"),
    "date in a dict": ([{"x": 1, "when": np.datetime64("2026-01-01")}], "field 'when' of a row"),
    "None among ints": ([(1,), (None,)], "field 0 .* int in one row and None in another"),
    "large int": ([2**70], "int of more than 64 bits"),
    "other keys": ([{"a": 1}, {"b": 2}], "a row is a dict with other fields"),
    "other lengths": ([(1, "a"), (1,)], "a row is a tuple with other fields"),
    "array of objects": ([np.array([None, 1])], "dtype .object"),
    "deep": ([([1, {"k": Odd()}],)], "field 'k' of item 1 of field 0 of a row .*Odd"),
    "row": ([Row(a=1, b=1j)], "field 'b' of a row is of the type complex"),
    "no UTF-8": (["\ud800"], "no UTF-8"),
    "name without UTF-8": ([{"\ud800": {2}}], r"field '\\ud800' of a row is of the type set"),
}

COLUMNS = [
    [(n, float(n), str(n), bytes([n])) for n in range(20)],
    [{"a": n, "b": [n, 1]} for n in range(20)],
    [np.full(3, n, np.float32) for n in range(20)],
    [Row(a=n, b=np.int8(n)) for n in range(20)],
]


@pytest.mark.parametrize("rows", COLUMNS, ids=lambda rows: type(rows[0]).__name__)
@pytest.mark.parametrize("encrypt", ["auto", "true"])
def test_columns_need_no_leave(make_nodes: Any, pool: Any, rows: list[Any], encrypt: str) -> None:
    nodes = make_nodes(1, encrypt=encrypt, pickle=False)
    reading = pool.submit(read_all, nodes.servers[0])
    writer = nodes.writer(endpoints=nodes.endpoints(local=encrypt == "auto"))
    writer.write_rows(rows)
    writer.finish()
    nodes.end_feed()
    assert_same(reading.result(TIMEOUT), rows)


@pytest.mark.parametrize("rows, why", REFUSED.values(), ids=REFUSED)
def test_the_feeder_names_what_has_no_column(make_nodes: Any, rows: list[Any], why: str) -> None:
    nodes = make_nodes(1, pickle=False)
    writer = nodes.writer()
    with pytest.raises(BadInputError, match=f"{SETTING}.*{why}"):
        writer.write_rows(rows)
    assert nodes.servers[0].counters()["items"] == 0


def test_pickled_batches_are_not_passed_on(make_nodes: Any) -> None:
    nodes = make_nodes(1, pickle=False)
    with pytest.raises(BadInputError, match=f"{SETTING}.*batches of rows that Spark has pickled"):
        nodes.writer().write_pickled([pickle.dumps([1, 2])])


@pytest.mark.parametrize("local", [True, False], ids=["shared memory", "tcp"])
@pytest.mark.parametrize("batches", [True, False], ids=["batches", "rows"])
def test_the_node_takes_no_pickle_from_whoever_has_the_key(
    make_nodes: Any, local: bool, batches: bool
) -> None:
    nodes = make_nodes(1, pickle=False)
    writer = nodes.writer(pickle=True, endpoints=nodes.endpoints(local))
    trap = Trap()
    with pytest.raises(FeedError, match=SETTING):
        if batches:
            writer.write_pickled([b"\x80\x04cpytest\nfail\n(X\x01\x00\x00\x00xtR."])
        else:
            writer.write_rows([trap])
        writer.finish()
    assert nodes.servers[0].counters()["items"] == 0
    writer = nodes.writer(partition=1)
    writer.write_rows([1, 2])
    writer.finish()
    nodes.end_feed()
    assert read_all(nodes.servers[0]) == [1, 2]


def test_results_need_leave_too(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1, pickle=False)
    server = nodes.servers[0]

    def answer(result: Any) -> None:
        reader = server.reader("input")
        rows = reader.next_rows(10, False, TIMEOUT)
        reader.send_results([result] * len(rows))
        while not reader.ended:
            reader.next_rows(10, False, TIMEOUT)

    columns = pool.submit(answer, (1, "one"))
    assert infer(nodes, 0, list(range(10))) == [(1, "one")] * 10
    server.end_feed()
    columns.result(TIMEOUT)


def test_a_program_hears_of_results_without_columns(make_nodes: Any) -> None:
    nodes = make_nodes(1, pickle=False)
    writer = nodes.writer(mode="inference")
    writer.write_rows([1, 2])
    reader = nodes.servers[0].reader("input")
    assert reader.next_rows(2, False, TIMEOUT) == [1, 2]
    with pytest.raises(BadInputError, match=f"{SETTING}.*a row is of the type .*Odd"):
        reader.send_results([Odd(), Odd()])


def test_a_feeder_unpickles_no_results(make_nodes: Any) -> None:
    nodes = make_nodes(1)  # A node that may.
    writer = nodes.writer(mode="inference", pickle=False)
    writer.write_rows([1])
    reader = nodes.servers[0].reader("input")
    assert reader.next_rows(1, False, TIMEOUT) == [1]
    reader.send_results([Trap()])
    with pytest.raises(BadInputError, match=SETTING):
        writer.results(block=True)


def _sources(spark: Any) -> dict[str, Any]:
    tuples = spark.sparkContext.parallelize([(n, [float(n)] * 3) for n in range(100)], 3)
    return {
        "tuples": tuples,
        "pickled by Spark": tuples.map(lambda row: row).cache(),
        "DataFrame": spark.range(100, numPartitions=3).selectExpr("id", "array(1.0D, 2.0D) AS x"),
    }


def test_spark_feeds_columns(spark: Any, tmp_path: Any) -> None:
    for name, source in _sources(spark).items():
        directory = tmp_path / name
        directory.mkdir()
        arguments = {"dir": str(directory), "batch": 7}
        with tfos.run(
            spark, programs.collect_rows, nodes=2, args=arguments, feed_pickle=False
        ) as cluster:
            cluster.train(source)
        seen = programs.all_rows_of(directory)
        first = [row["id"] if isinstance(row, dict) else row[0] for row in seen]
        assert sorted(first) == list(range(100)), name


def test_spark_says_which_type_needs_a_pickle(spark: Any, tmp_path: Any) -> None:
    objects = spark.sparkContext.parallelize(range(10), 2).map(lambda n: (n, {n}))
    arguments = {"dir": str(tmp_path), "batch": 7}
    with pytest.raises(SPARK_ERRORS, match="field 1 of a row is of the type set"):
        with tfos.run(
            spark, programs.collect_rows, nodes=1, args=arguments, feed_pickle=False
        ) as cluster:
            cluster.train(objects)
    assert not programs.all_rows_of(tmp_path)
