"""Rows that a program reads as columns through the native extension."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy
import pytest
from pyspark.sql import Row

from support.feed_nodes import TIMEOUT, XY, datafeed
from tfos.errors import BadInputError, FeedTimeoutError


def read_columns(server: Any, mapping: dict[str, str], batch: int) -> list[dict[str, Any]]:
    """All batches of a feed as columns."""
    feed = datafeed(server, mapping)
    batches = []
    while not feed.should_stop():
        batches.append(feed.next_batch(batch))
    return batches


def fed_columns(
    make_nodes: Any,
    rows: list[Any],
    mapping: dict[str, str],
    batch: int = 1000,
    pickled: bool = False,
) -> dict[str, Any]:
    """The first batch of columns of rows that travel as ``pickled`` says."""
    nodes = make_nodes(1)
    writer = nodes.writer()
    writer.write_pickled([pickle.dumps(rows)]) if pickled else writer.write_rows(rows)
    writer.finish()
    nodes.end_feed()
    return datafeed(nodes.servers[0], mapping).next_batch(batch)


def columns_of_each_kind() -> dict[str, tuple[Any, str, tuple[int, ...]]]:
    """A value for row n, and the dtype and shape of ten of them."""
    import numpy as np

    return {
        "int": (lambda n: n, "int64", (10,)),
        "float": (lambda n: n / 2, "float64", (10,)),
        "bool": (lambda n: n % 2 == 0, "bool", (10,)),
        "NumPy scalar": (lambda n: np.float32(n), "float32", (10,)),
        "list of numbers": (lambda n: [float(n), 1.0], "float64", (10, 2)),
        "tuple of numbers": (lambda n: (n, 2, 3), "int64", (10, 3)),
        "array": (lambda n: np.full((2, 3), n, np.uint8), "uint8", (10, 2, 3)),
        "array without elements": (lambda n: np.zeros((0, 2), np.int16), "int16", (10, 0, 2)),
        "str": (lambda n: f"t\u00e4xt {n}", "object", (10,)),
        "bytes": (lambda n: b"x" * n, "object", (10,)),
        "None": (lambda n: None, "object", (10,)),
        "now and then None": (lambda n: None if n == 5 else n, "object", (10,)),
        "int and float": (lambda n: n if n % 2 else float(n), "object", (10,)),
        "dict": (lambda n: {"k": [n, "s"]}, "object", (10,)),
        "ragged list": (lambda n: [n] * (n % 3), "object", (10,)),
        "ragged array": (lambda n: np.arange(n, dtype=np.int32), "object", (10,)),
        "arrays of different shapes": (lambda n: np.zeros((n % 2, 2)), "object", (10,)),
        "a class": (lambda n: Counter("x" * n), "object", (10,)),
    }


@pytest.mark.parametrize("kind", columns_of_each_kind())
@pytest.mark.parametrize("pickled", [False, True], ids=["rows", "pickled batches"])
def test_columns_of_each_kind(make_nodes: Any, kind: str, pickled: bool) -> None:
    import numpy as np

    value, dtype, shape = columns_of_each_kind()[kind]
    rows = [(n, value(n), "unused") for n in range(10)]
    batch = fed_columns(make_nodes, rows, XY, pickled=pickled)
    assert list(batch) == ["x", "y"]
    assert batch["x"].dtype == np.int64 and batch["x"].tolist() == list(range(10))
    assert (batch["y"].dtype, batch["y"].shape) == (dtype, shape)
    assert batch["y"].flags.writeable
    for n, found in enumerate(batch["y"]):
        expected = value(n)
        if isinstance(expected, (np.ndarray, list, tuple)):
            np.testing.assert_array_equal(found, expected)
            assert isinstance(found, np.ndarray)
        else:
            assert found == expected
        if dtype == "object" and not isinstance(expected, (np.ndarray, list)):
            assert type(found) is type(expected)


@pytest.mark.parametrize(
    "make, names",
    [
        (lambda a, b: {"b": b, "c": 0, "a": a}, "dict"),
        (lambda a, b: Row(b=b, c="text", a=a), "Row"),
        (lambda a, b: Row("b", "a")(b, a), "Row made of a Row"),
        (lambda a, b: (a, b, None), "tuple"),
        (lambda a, b: [a, b, "text"], "list"),
        (lambda a, b: (a, b), "tuple of numbers"),
        (lambda a, b: [a, b, 7], "list of numbers"),
        (lambda a, b: numpy.array([a, b]), "array"),
        (lambda a, b: (a, b) + (0,) * (a % 3), "tuples of different lengths"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("pickled", [False, True], ids=["rows", "pickled batches"])
def test_where_columns_are_found(make_nodes: Any, make: Any, names: str, pickled: bool) -> None:
    """By name in rows with names, by position in others."""
    batch = fed_columns(make_nodes, [make(n, -n) for n in range(100)], XY, 70, pickled)
    assert batch["x"].tolist() == list(range(70))
    assert batch["y"].tolist() == [-n for n in range(70)]
    assert batch["x"].dtype == batch["y"].dtype == numpy.int64


def test_columns_of_several_arrays_inside_a_row(make_nodes: Any) -> None:
    rows = [numpy.arange(6).reshape(3, 2) + n for n in range(4)]
    batch = fed_columns(make_nodes, rows, {"a": "x", "b": "y", "c": "z"})
    numpy.testing.assert_array_equal(batch["z"], numpy.stack([row[2] for row in rows]))


def test_batches_of_columns_go_on_over_chunks_of_every_kind(make_nodes: Any) -> None:
    """Columnar, pickled and batches that Spark has pickled; batches end inside and between them."""
    import pyarrow as pa

    nodes = make_nodes(1)
    writer = nodes.writer()
    n = 0

    def rows(count: int, value: Any = float) -> list[Any]:
        nonlocal n
        n += count
        return [Row(a=k, b=value(k)) for k in range(n - count, n)]

    for _ in range(4):
        writer.write_rows(rows(10))
        writer.write_rows(rows(7, lambda k: float(k) if k % 2 else None))
        writer.write_pickled([pickle.dumps(rows(3)), pickle.dumps(rows(5)), pickle.dumps([])])
        writer.write_pickled([pickle.dumps(rows(4, lambda k: None)), pickle.dumps(rows(6, str))])
        numbers = [float(k) for k in range(n, n + 9)]
        batch = pa.RecordBatch.from_pydict({"a": range(n, n + 9), "b": numbers})
        writer.write_arrow(batch, 0, 9, False)
        n += 9
    writer.finish()
    nodes.end_feed()
    batches = read_columns(nodes.servers[0], XY, 8)
    assert [len(batch["x"]) for batch in batches[: n // 8]] == [8] * (n // 8)
    assert sum(len(batch["x"]) for batch in batches) == n
    for batch in batches:
        assert batch["x"].dtype == numpy.int64
        assert batch["y"].shape == batch["x"].shape
    assert [k for batch in batches for k in batch["x"]] == list(range(n))
    kinds = Counter(batch["y"].dtype.name for batch in batches)
    assert kinds["float64"] > 0 and kinds["object"] > 0
    values = [value for batch in batches for value in batch["y"]]
    assert all(value is None or float(value) == k for k, value in enumerate(values))
    assert sum(value is None for value in values) == 4 * (4 + 4)
    assert sum(isinstance(value, str) for value in values) == 4 * 6


def test_the_empty_batch_at_the_end_looks_like_the_others(make_nodes: Any) -> None:
    batches = []
    nodes = make_nodes(1)
    writer = nodes.writer()
    writer.write_rows([([1.0, 2.0], "text")] * 4)
    writer.finish()
    feed = datafeed(nodes.servers[0], XY)
    batches.append(feed.next_batch(4))
    nodes.end_feed()
    batches.append(feed.next_batch(4))
    assert feed.should_stop()
    assert [(batch["x"].dtype, batch["x"].shape) for batch in batches] == [
        ("float64", (4, 2)),
        ("float64", (0, 2)),
    ]
    assert [batch["y"].dtype for batch in batches] == [object, object]
    nodes = make_nodes(1)
    nodes.end_feed()
    assert len(datafeed(nodes.servers[0], XY).next_batch(5)["x"]) == 0


def test_a_far_too_large_batch_takes_the_memory_of_what_there_is(make_nodes: Any) -> None:
    rows = [(numpy.full(100, n), n) for n in range(300)]
    batch = fed_columns(make_nodes, rows, XY, 1 << 60)
    assert batch["x"].shape == (300, 100)
    assert batch["x"][:, 7].tolist() == list(range(300))


@pytest.mark.parametrize(
    "rows, said",
    [
        ([{"a": 1}], "no column 'b', which input_mapping names; they have a"),
        ([Row(a=1, c=2)], "no column 'b', which input_mapping names; they have a, c"),
        ([(1,)], r"a row has 1 fields and input_mapping 2 \(a, b\)"),
        ([("x",)], r"a row has 1 fields and input_mapping 2"),
        ([7, 8], "single values and have no fields for input_mapping"),
        (["text"], "single values"),
        ([(1, 2), (1,)], "a row has 1 fields"),
        ([None, 7], "of the type NoneType, which has no fields"),
        ([{"a": 1, "b": 2}, {"a": 1}], "no key 'b'"),
        ([Row(a=1, b=None), Row(a=1, c=2)], "no column 'b'"),
    ],
)
def test_rows_without_the_columns_stay_readable(make_nodes: Any, rows: Any, said: str) -> None:
    nodes = make_nodes(1)
    writer = nodes.writer()
    writer.write_rows(rows)
    writer.finish()
    nodes.end_feed()
    feed = datafeed(nodes.servers[0], XY)
    for _ in range(2):
        with pytest.raises(BadInputError, match=said):
            feed.next_batch(5)
    assert not feed.should_stop()
    assert feed._reader.next_rows(5, True, TIMEOUT) == rows
    assert feed.should_stop()


def test_columns_and_rows_share_the_position(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    writer = nodes.writer()
    rows = [(n, str(n)) for n in range(30)]
    writer.write_rows(rows[:10])
    writer.write_pickled([pickle.dumps(rows[10:20])])
    writer.write_rows(rows[20:])
    writer.finish()
    nodes.end_feed()
    reader = nodes.servers[0].reader("input")
    assert reader.next_rows(6, True, TIMEOUT) == rows[:6]
    assert reader.next_columns(["a"], 6, True, TIMEOUT)[0].tolist() == list(range(6, 12))
    assert reader.next_rows(4, True, TIMEOUT) == rows[12:16]
    assert reader.next_columns(["a", "b"], 6, True, TIMEOUT)[1].tolist() == [
        str(n) for n in range(16, 22)
    ]
    assert reader.next_rows(50, True, TIMEOUT) == rows[22:]


def test_a_timeout_loses_no_row_of_columns(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    writer = nodes.writer()
    writer.write_rows([(1, 2), (3, 4)])
    with pytest.raises(FeedTimeoutError):
        reader.next_columns(["a", "b"], 5, True, 0.3)
    with pytest.raises(BadInputError, match="the columns a, b is unfinished.*same input_mapping"):
        reader.next_columns(["a"], 5, True, 0.3)
    with pytest.raises(BadInputError, match="unfinished"):
        reader.next_rows(5, True, 0.3)
    writer.write_rows([(5, 6)])
    a, b = reader.next_columns(["a", "b"], 3, True, TIMEOUT)
    assert (a.tolist(), b.tolist()) == ([1, 3, 5], [2, 4, 6])


class Interrupting:
    """Interrupts the thread that unpickles it, once."""

    interrupt = True

    def __setstate__(self, state: Any) -> None:
        if Interrupting.interrupt:
            Interrupting.interrupt = False
            raise KeyboardInterrupt

    def __getstate__(self) -> dict[str, int]:
        return {"state": 1}


def test_an_interrupt_passes_where_pickled_rows_become_columns(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    writer = nodes.writer()
    writer.write_pickled([pickle.dumps([{"x": 1, "y": Interrupting()}])])
    writer.end()
    nodes.end_feed()
    Interrupting.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        nodes.servers[0].reader("input").next_columns(["x"], 1, True, TIMEOUT)
    assert not Interrupting.interrupt
