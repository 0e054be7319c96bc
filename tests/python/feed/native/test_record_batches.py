"""Arrow's record batches through the native extension, as rows and as columns."""

from __future__ import annotations

from typing import Any

import pytest

from support.feed_nodes import TIMEOUT, read_all
from tfos.errors import BadInputError


def test_record_batches_arrive_as_rows_of_numpy_values(make_nodes: Any) -> None:
    import numpy as np
    import pyarrow as pa

    nodes = make_nodes(1)
    batch = pa.RecordBatch.from_pydict(
        {
            "id": pa.array(range(1000), "int32"),
            "flag": pa.array([n % 3 == 0 for n in range(1000)]),
            "half": pa.array(np.arange(1000, dtype=np.float16)),
            "text": [f"r\u00fc {n}" for n in range(1000)],
            "data": pa.array([bytes([n % 256]) * (n % 5) for n in range(1000)], "large_binary"),
            "list": pa.array([list(range(n % 4)) for n in range(1000)], pa.list_(pa.uint8())),
            "pair": pa.array([[n, -n] for n in range(1000)], pa.list_(pa.float32(), 2)),
        }
    )
    writer = nodes.writer()
    assert writer.write_arrow(batch, 0, 10, False) > 0
    assert writer.write_arrow(batch.slice(5), 5, 885, False) > 0  # more than one chunk of it
    assert writer.write_arrow(batch, 890, 890, False) == 0
    writer.write_arrow(batch, 890, 1000, False)
    assert writer.finish()["items"] == 1000
    nodes.end_feed()
    rows = read_all(nodes.servers[0])
    assert len(rows) == 1000
    for n, row in enumerate(rows):
        assert row.__fields__ == ["id", "flag", "half", "text", "data", "list", "pair"]
        assert type(row.id) is np.int32 and row.id == n
        assert type(row.flag) is np.bool_ and row.flag == (n % 3 == 0)
        assert type(row.half) is np.float16 and row.half == n
        assert (row.text, row.data) == (f"r\u00fc {n}", bytes([n % 256]) * (n % 5))
        assert row.list.dtype == np.uint8 and row.list.tolist() == list(range(n % 4))
        assert row.pair.dtype == np.float32 and row.pair.tolist() == [n, -n]
        assert row.list.flags.writeable and row.pair.flags.owndata


def test_a_record_batch_larger_than_a_chunk_may_be_is_split(make_nodes: Any, pool: Any) -> None:
    import pyarrow as pa

    nodes = make_nodes(1)
    batch = pa.RecordBatch.from_pydict({"data": [bytes([n]) * 100_000 for n in range(30)]})
    reading = pool.submit(read_all, nodes.servers[0])
    writer = nodes.writer(region_bytes=1 << 20)
    assert writer.write_arrow(batch, 0, 30, False) >= 3_000_000
    writer.finish()
    nodes.end_feed()
    rows = reading.result(TIMEOUT)
    assert [row.data for row in rows] == [bytes([n]) * 100_000 for n in range(30)]
    assert nodes.servers[0].counters()["chunks"] > 10


def test_a_second_attempt_skips_delivered_rows_of_record_batches(make_nodes: Any) -> None:
    import pyarrow as pa

    nodes = make_nodes(1)
    batch = pa.RecordBatch.from_pydict({"id": range(16)})
    first = nodes.writer(partition=4)
    first.write_arrow(batch, 0, 4, False)
    first.write_arrow(batch, 4, 10, False)
    first.close()  # as if its task was killed
    reader = nodes.servers[0].reader("input")
    rows = reader.next_rows(10, True, TIMEOUT)
    second = nodes.writer(partition=4, attempt=1)
    assert second.write_arrow(batch, 0, 8, False) == 0
    assert second.write_arrow(batch, 8, 16, False) > 0
    assert second.finish()["items"] == 16
    nodes.end_feed()
    assert [row.id for row in rows + reader.next_rows(100, True, TIMEOUT)] == list(range(16))


def test_record_batches_that_cannot_be_fed(make_nodes: Any) -> None:
    import pyarrow as pa

    nodes = make_nodes(1)
    writer = nodes.writer(partition=3)
    good = pa.RecordBatch.from_pydict({"x": [1, 2]})
    with_null = pa.RecordBatch.from_pydict({"x": [1, 2, 3, None]})
    writer.write_arrow(good, 0, 2, False)
    with pytest.raises(BadInputError, match="partition 3: column x has a null in row 5; fill or"):
        writer.write_arrow(with_null, 0, 4, False)
    writer.write_arrow(with_null, 0, 3, False)
    for column, said in [
        (pa.array([{"a": 1}]), "column x of the Arrow type '.s'"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "'.m'"),
        (pa.array([[{"a": 1}]]), "cannot hold '.s'"),
        (pa.array(["a"]).dictionary_encode(), "dictionary"),
        (pa.array([1], pa.decimal128(5, 2)), "pass decimals="),
        (pa.nulls(1), "cannot hold 'n'"),
    ]:
        with pytest.raises(BadInputError, match=said):
            writer.write_arrow(pa.RecordBatch.from_arrays([column], ["x"]), 0, 1, False)
    writer.write_arrow(
        pa.RecordBatch.from_pydict({"x": pa.array([1], pa.decimal128(5, 2))}), 0, 1, True
    )
    with pytest.raises(BadInputError, match=r"rows \[1, 3\) of a record batch of 2"):
        writer.write_arrow(good, 1, 3, False)
    with pytest.raises(BadInputError, match="not a record batch"):
        writer.write_arrow([1, 2], 0, 1, False)
    with pytest.raises(BadInputError, match="not a struct of columns"):
        writer.write_arrow(pa.array([1, 2]), 0, 1, False)
    assert writer.finish()["items"] == 6


def test_lists_of_strings_of_record_batches(make_nodes: Any) -> None:
    import pyarrow as pa

    from tfos.feed.datafeed import DataFeed, FeedSource

    rows = [([f"\u00fc{n}", ""], [b"\xff" * k for k in range(n % 3)]) for n in range(50)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([pair for pair, _ in rows]), pa.array([some for _, some in rows])],
        ["pair", "some"],
    )
    nodes = make_nodes(1)
    writer = nodes.writer()
    writer.write_arrow(batch, 0, 17, False)
    writer.write_arrow(batch, 17, 50, False)
    writer.finish()
    nodes.end_feed()
    source = FeedSource(nodes.servers[0], None, ["input"])
    assert [tuple(row) for row in DataFeed(source).next_batch(20)] == rows[:20]
    arrays = DataFeed(source, input_mapping={"pair": "x", "some": "y"}).next_batch(30)
    assert {name: array.dtype.name for name, array in arrays.items()} == {
        "x": "object",
        "y": "object",
    }
    assert list(zip(arrays["x"].tolist(), arrays["y"].tolist())) == rows[20:]
