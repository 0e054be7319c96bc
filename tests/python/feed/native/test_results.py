"""Results of inference through the native extension: rows, columns and Arrow."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy
import pytest

from support.comparing import assert_same
from support.feed_nodes import TIMEOUT, XY, datafeed, echo, infer
from tfos.errors import BadInputError, FeedError


def test_inference_answers_in_order(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    node = pool.submit(echo, nodes.servers[0], 16)
    counts = [100, 0, 1, 16, 33]
    feeding = [
        pool.submit(infer, nodes, partition, [(partition, i) for i in range(count)])
        for partition, count in enumerate(counts)
    ]
    for partition, (count, fed) in enumerate(zip(counts, feeding)):
        assert fed.result(TIMEOUT) == [("echo", (partition, i)) for i in range(count)]
    nodes.end_feed()
    # No batch crosses a partition.
    assert Counter(node.result(TIMEOUT)) == Counter([16] * 6 + [4] + [1] + [16] + [16] * 2 + [1])


def test_too_many_results_name_the_partition(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    with pytest.raises(BadInputError, match="1 results for 0 unanswered rows"):
        reader.send_results(["r"])
    writer = nodes.writer(6, "inference")
    writer.write_rows([1, 2, 3])
    writer.end()
    assert reader.next_rows(3, False, TIMEOUT) == [1, 2, 3]
    reader.send_results(["a"])
    with pytest.raises(
        BadInputError,
        match="3 results for 2 unanswered rows .partition 6: 3 rows were handed out, 1 are",
    ):
        reader.send_results(["b", "c", "d"])
    reader.send_results(["b", "c"])
    assert writer.results(block=True) == ["a"]
    assert writer.results(block=True) == ["b", "c"]


def test_too_few_results_fail_the_partition(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    writer = nodes.writer(6, "inference")
    writer.write_rows([1, 2, 3])
    writer.end()
    assert reader.next_rows(10, False, 1.0) == [1, 2, 3]
    reader.send_results(["a", "b"])
    with pytest.raises(BadInputError, match="partition 6 unfinished"):
        reader.finish()
    with pytest.raises(FeedError, match="partition 6 unfinished: it took 3 of its rows and gave 2"):
        while writer.results(block=True) is not None:
            pass


@pytest.mark.failure("feeding task killed", "inference")
def test_results_for_a_feeder_that_is_gone_are_dropped(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    lost = nodes.writer(1, "inference")
    lost.write_rows([1, 2, 3])
    assert reader.next_rows(3, False, TIMEOUT) == [1, 2, 3]
    lost.close()
    again = pool.submit(infer, nodes, 2, [7, 8])
    # The batch after the broken partition is the next one's.
    assert reader.next_rows(5, False, TIMEOUT) == [7, 8]
    reader.send_results(["a", "b", "c", "seven", "eight"])
    nodes.end_feed()
    assert reader.next_rows(5, False, TIMEOUT) == []
    assert again.result(TIMEOUT) == ["seven", "eight"]


#: Results as a program may give them for the columns x = 0, 1, ... and y = "0", "1", ...; and the
#: result of row n that comes of it.
ANSWERS = {
    "rows": (lambda x, y: [(n, t) for n, t in zip(x.tolist(), y)], lambda n: (n, str(n))),
    "a dict of arrays": (
        lambda x, y: {"n": x, "twice": numpy.stack([x, x], 1)},
        lambda n: {"n": numpy.int64(n), "twice": numpy.array([n, n])},
    ),
    "a dict of an array and a list": (
        lambda x, y: {"n": x.astype(numpy.float32), "t": list(y)},
        lambda n: {"n": numpy.float32(n), "t": str(n)},
    ),
    "a dict of strings": (lambda x, y: {"t": y}, lambda n: {"t": str(n)}),
    "a dict with None": (
        lambda x, y: {"n": x.astype(numpy.int16), "t": [None, *y[1:]][: len(y)]},
        lambda n: {"n": numpy.int16(n)} | {"t": str(n)},
    ),
    "one array": (lambda x, y: x, lambda n: numpy.int64(n)),
    "an array of rows": (lambda x, y: numpy.stack([x, -x], 1), lambda n: numpy.array([n, -n])),
    "an array that is not contiguous": (
        lambda x, y: numpy.stack([x, -x])[::-1].T,
        lambda n: numpy.array([-n, n]),
    ),
    "strings": (lambda x, y: y, lambda n: str(n)),
    "a generator": (lambda x, y: (t for t in y), lambda n: str(n)),
    "a tuple": (lambda x, y: tuple(y), lambda n: str(n)),
    "ragged": (lambda x, y: {"r": [numpy.arange(n) for n in x]}, lambda n: {"r": numpy.arange(n)}),
    "nested": (
        lambda x, y: {"p": [(n, t) for n, t in zip(x.tolist(), y)]},
        lambda n: {"p": (n, str(n))},
    ),
    "a tensor": (lambda x, y: Tensor(x), lambda n: numpy.int64(n)),
}


class Tensor:
    """What all tensors have in common."""

    def __init__(self, array: Any):
        self._array = array

    def numpy(self) -> Any:
        return self._array


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_to_batches_of_columns(make_nodes: Any, pool: Any, kind: str) -> None:
    make, expected = ANSWERS[kind]
    nodes = make_nodes(1)

    def answer() -> list[int]:
        feed = datafeed(nodes.servers[0], XY, train=False)
        sizes = []
        while not feed.should_stop():
            batch = feed.next_batch(16)
            sizes.append(len(batch["x"]))
            feed.batch_results(make(batch["x"], batch["y"]))
        return sizes

    answering = pool.submit(answer)
    counts = [50, 0, 1, 16]
    # One after the other, so that a None is in the first row of each partition's first batch only.
    for partition, count in enumerate(counts):
        results = infer(nodes, partition, [(n, str(n)) for n in range(count)], chunk=7)
        assert len(results) == count
        for n, result in enumerate(results):
            if kind == "a dict with None" and n % 16 == 0:
                assert result == {"n": n, "t": None}
            else:
                assert_same(result, expected(n))
    nodes.end_feed()
    assert answering.result(TIMEOUT) == [16, 16, 16, 2, 1, 16, 0]


def test_large_columns_of_results_are_cut(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    values = numpy.random.default_rng(0).random((50, 100_000))  # 40 MB; a chunk has 8
    texts = [str(n) * 1000 for n in range(50)]

    def answer() -> None:
        feed = datafeed(nodes.servers[0], train=False)
        assert len(feed.next_batch(100)) == 50
        feed.batch_results({"v": values, "t": texts})

    answering = pool.submit(answer)
    results = infer(nodes, 0, list(range(50)))
    answering.result(TIMEOUT)
    assert len(results) == 50
    for n, result in enumerate(results):
        assert result["t"] == texts[n]
        numpy.testing.assert_array_equal(result["v"], values[n])
    assert nodes.servers[0].counters()["result_rows"] == 50


def test_columns_of_results_that_cannot_be(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    writer = nodes.writer(6, "inference")
    writer.write_rows([1, 2, 3])
    writer.end()
    feed = datafeed(nodes.servers[0], train=False)
    feed.next_batch(3)
    for results, said in [
        ({"a": numpy.zeros(3), "b": [1, 2]}, "'a' has 3 values and 'b' 2"),
        ({"a": numpy.zeros(4)}, "4 results for 3 unanswered rows .partition 6"),
        (numpy.zeros((4, 1)), "4 results for 3 unanswered rows"),
        ({}, "named"),
        ({0: [1, 2, 3]}, r"named \[0\]"),
        ({"a": 5.0}, "no value for each row"),
        (numpy.float64(5), "no value for each row"),
    ]:
        with pytest.raises(BadInputError, match=said):
            feed.batch_results(results)
    feed.batch_results({"a": numpy.zeros(0)})
    feed.batch_results({"a": [1, 2, 3]})
    assert writer.results(block=True) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_results_as_arrow(make_nodes: Any) -> None:
    import pyarrow as pa

    nodes = make_nodes(1)
    writer = nodes.writer(6, "inference")
    writer.write_rows([1, 2, 3])
    writer.end()
    feed = datafeed(nodes.servers[0], train=False)
    feed.next_batch(3)
    feed.batch_results({"a": numpy.array([[1, 2]], numpy.int8), "t": ["x"], "b": [True]})
    feed.batch_results([(2.5, "y")])
    feed.batch_results([None])
    batch = writer.result_batch(block=True)
    assert (batch.rows, batch.form) == (1, "mapping")
    arrow = pa.record_batch(batch)
    assert arrow.to_pylist() == [{"a": [1, 2], "t": "x", "b": True}]
    assert arrow.schema.types == [pa.list_(pa.int8()), pa.string(), pa.bool_()]
    arrow.validate(full=True)
    assert_same(batch.objects(), [{"a": numpy.array([1, 2], numpy.int8), "t": "x", "b": True}])
    batch = writer.result_batch(block=True)
    assert batch.form == "tuple"
    assert pa.record_batch(batch).to_pylist() == [{"0": 2.5, "1": "y"}]
    batch = writer.result_batch(block=True)
    assert (batch.form, pa.record_batch(batch).schema.types) == ("value", [pa.null()])
    nodes.end_feed()
    assert feed.next_batch(1) == []
    assert writer.result_batch(block=True) is None
