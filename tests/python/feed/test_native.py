"""The feed through the native extension: feeders and nodes as threads of one process."""

from __future__ import annotations

import json
import os
import pickle
import secrets
import signal
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

import numpy
import pytest
from pyspark.sql import Row

from support.comparing import assert_same
from support.feed_nodes import TIMEOUT, datafeed, echo, infer, read_all
from support.waiting import wait_for
from tfos.errors import BadInputError, FeedError, FeedTimeoutError, NodeLostError


@pytest.mark.parametrize("local", [True, False], ids=["shared memory", "tcp"])
def test_rows_arrive_in_order_and_once(make_nodes: Any, pool: Any, local: bool) -> None:
    nodes = make_nodes(1)
    rows = [(i, str(i), [float(i)] * 3) for i in range(1000)] + [None, {"odd": 1}]
    writer = nodes.writer(endpoints=nodes.endpoints(local))
    reading = pool.submit(read_all, nodes.servers[0])
    for at in range(0, len(rows), 100):
        assert writer.write_rows(rows[at : at + 100]) > 0
    assert writer.finish()["items"] == len(rows)
    nodes.end_feed()
    assert reading.result(TIMEOUT) == rows


def test_batches_cross_chunks_and_partitions(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    for partition in range(3):
        writer = nodes.writer(partition)
        for chunk in range(3):
            writer.write_rows([(partition, chunk, i) for i in range(5)])
        writer.end()
    nodes.end_feed()
    reader = nodes.servers[0].reader("input")
    sizes = []
    while not reader.ended:
        sizes.append(len(reader.next_rows(16, True, TIMEOUT)))
    assert [size for size in sizes if size] == [16, 16, 13]
    assert reader.next_rows(16, True, TIMEOUT) == []


def test_pickled_batches_pass_unopened(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    batches = [[1, "a"], [], [None] * 10, [{"k": (1,)}]]
    writer = nodes.writer()
    writer.write_pickled([pickle.dumps(batch, 5) for batch in batches[:2]])
    writer.write_pickled([bytearray(pickle.dumps(batch, 2)) for batch in batches[2:]])
    reading = pool.submit(read_all, nodes.servers[0], 3)
    assert writer.finish()["items"] == 4
    nodes.end_feed()
    assert reading.result(TIMEOUT) == [row for batch in batches for row in batch]
    assert nodes.servers[0].counters()["rows"] == 13


def test_a_row_larger_than_the_region(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    rows = [b"x" * (3 << 20), b"y", [b"z" * (5 << 20), None], b"x" * (3 << 20)]
    writer = nodes.writer(region_bytes=1 << 20)
    reading = pool.submit(read_all, nodes.servers[0], 2)
    writer.write_rows(rows)
    writer.finish()
    nodes.end_feed()
    assert reading.result(TIMEOUT) == rows


def test_every_node_of_the_host_gets_rows(make_nodes: Any) -> None:
    nodes = make_nodes(3)
    writer = nodes.writer()
    for i in range(30):
        writer.write_rows([i] * 10)
    writer.end()
    nodes.end_feed()
    read = [read_all(server) for server in nodes.servers]
    assert Counter(row for rows in read for row in rows) == Counter(dict.fromkeys(range(30), 10))
    assert all(len(rows) == 100 for rows in read)


def test_rows_go_to_the_node_that_takes_them(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(2)
    row = bytes(50_000)
    reading = pool.submit(read_all, nodes.servers[1], 4)
    writer = nodes.writer(region_bytes=1 << 20)
    for _ in range(100):
        writer.write_rows([row] * 2)  # ten times what the idle node has room for
    writer.end()
    nodes.end_feed()
    fast = len(reading.result(TIMEOUT))
    slow = len(read_all(nodes.servers[0]))
    assert fast + slow == 200
    assert slow <= 20


def test_a_second_attempt_skips_what_was_delivered(make_nodes: Any) -> None:
    nodes = make_nodes(2)
    first = nodes.writer(partition=4)
    for i in range(5):
        first.write_rows([2 * i, 2 * i + 1])
    first.close()  # as if its task was killed

    def counts():
        return [server.counters()["items"] for server in nodes.servers]

    wait_for(lambda: sum(counts()) >= 10, lambda: f"ten rows in the nodes, which have {counts()}")
    accepted = counts()
    readers = [server.reader("input") for server in nodes.servers]
    read = [
        row
        for reader, count in zip(readers, accepted)
        if count
        for row in reader.next_rows(min(count, 4), True, TIMEOUT)
    ]
    second = nodes.writer(partition=4, attempt=1)
    for i in range(0, 16, 4):
        second.write_rows(list(range(i, i + 4)))
    second.end()
    nodes.end_feed()
    for reader in readers:
        while not reader.ended:
            read += reader.next_rows(100, True, TIMEOUT)
    assert sorted(read) == list(range(16))


@pytest.mark.parametrize("method", ["write_rows", "write_pickled"])
def test_a_retry_feeds_exactly_what_is_missing(make_nodes: Any, method: str) -> None:
    nodes = make_nodes(3)

    def write(writer: Any, rows: list[int]) -> None:
        if method == "write_pickled":  # an item is a batch; each of these has two rows
            writer.write_pickled([pickle.dumps([row, -row]) for row in rows])
        else:
            writer.write_rows(rows)

    # Nodes 0 and 1 get the chunks in turns, and node 0 is lost: what is left has gaps.
    first = nodes.writer(partition=4, endpoints=nodes.endpoints()[:2])
    for i in range(10):
        write(first, [3 * i, 3 * i + 1, 3 * i + 2])
    assert first.finish()["items"] == 30
    assert [server.counters()["items"] for server in nodes.servers] == [15, 15, 0]
    # Spark counts attempts from 0 again when it repeats a stage.
    second = nodes.writer(partition=4, endpoints=nodes.endpoints()[1:], attempt=0)
    for at in range(0, 42, 7):
        write(second, list(range(at, at + 7)))
    assert second.finish()["items"] == 42
    nodes.end_feed()
    read = read_all(nodes.servers[1]) + read_all(nodes.servers[2])
    assert sorted(row for row in read if row > 0) == list(range(1, 42))
    assert len(read) == (84 if method == "write_pickled" else 42)
    assert [server.counters()["broken_sessions"] for server in nodes.servers] == [0, 0, 0]


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


def test_terminate_lets_feeders_discard_the_rest(make_nodes: Any) -> None:
    nodes = make_nodes(2)
    writer = nodes.writer()
    writer.write_rows([1, 2])
    for server in nodes.servers:
        server.terminate()
    for _ in range(100):
        writer.write_rows([bytes(100_000)] * 10)
    assert writer.stopped
    writer.finish()
    assert nodes.writer(partition=1).stopped


def test_a_failed_node_gives_its_traceback(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    writer = nodes.writer()
    writer.write_rows([1])
    nodes.servers[0].fail("Traceback ...: ValueError: from the program")
    with pytest.raises(FeedError, match="ValueError: from the program"):
        writer.finish()


NODE_PROCESS = """
import json, sys, time
from tfos import _native
server = _native.FeedServer(
    node_id=0, cluster_id="test", key_hex=sys.argv[1], queues=["input"], memory_bytes=64 << 20,
    cache_memory_bytes=0, cache_directory="/tmp", bind_address="127.0.0.1", ports="0",
    encrypt="auto", pickle=True)
print(json.dumps(server.endpoint()), flush=True)
sys.stdin.read()
"""


def test_a_killed_node_and_nobody_to_feed(make_nodes: Any) -> None:
    nodes = make_nodes(0)
    node = subprocess.Popen(
        [sys.executable, "-c", NODE_PROCESS, nodes.key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with node:
        endpoint = {"node_id": 0, "address": "127.0.0.1", "executor_id": ""}
        endpoint |= json.loads(node.stdout.readline())
        writer = nodes.writer(endpoints=[endpoint])
        writer.write_rows([1])
        node.kill()
        with pytest.raises(NodeLostError, match="node 0"):
            writer.finish()
    # Whether it is gone is the coordinator's to say, and there is none.
    with pytest.raises(FeedError, match="can't reach node 0 .* does not say whether it runs"):
        nodes.writer(endpoints=[endpoint], partition=1, timeout=0.5)


def test_timeouts_say_which_side_is_idle(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    with pytest.raises(FeedTimeoutError):
        reader.next_rows(1, True, 0.05)
    writer = nodes.writer(timeout=3)
    with pytest.raises(FeedTimeoutError, match="not reading"):
        for _ in range(100):
            writer.write_rows([bytes(200_000)])


def test_a_timeout_loses_no_row(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    writer = nodes.writer()
    writer.write_rows([1, 2, 3])
    with pytest.raises(FeedTimeoutError):
        reader.next_rows(5, True, 0.3)
    writer.write_rows([4])
    assert reader.next_rows(4, True, TIMEOUT) == [1, 2, 3, 4]


def test_bad_arguments(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    with pytest.raises(BadInputError, match="job id"):
        nodes.writer(job_id="00ff")
    with pytest.raises(BadInputError, match="neither 'train' nor 'inference'"):
        nodes.writer(mode="both")
    with pytest.raises(BadInputError):
        nodes.writer(feed_key="xyz")
    with pytest.raises(BadInputError, match="encrypt"):
        nodes.writer(encrypt="perhaps")
    with pytest.raises(FeedError, match="no queue 'other'"):
        nodes.writer(queue="other")
    with pytest.raises(FeedError, match="node 0 .*the other end refuses this one"):
        nodes.writer(feed_key=secrets.token_hex(32))
    with pytest.raises(BadInputError):
        nodes.servers[0].reader("other").next_rows(1, True, 1.0)


def test_a_signal_ends_a_wait(make_nodes: Any, ctrl_c: None) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()  # Here, as it may be first on a busy machine.
        reader.next_rows(1, True, TIMEOUT)
    timer.join()


def test_one_thread_at_a_time(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    calls = [pool.submit(reader.next_rows, 1, True, TIMEOUT) for _ in range(2)]
    refused = wait_for(
        lambda: next((call for call in calls if call.done()), None), "the end of one of two calls"
    )
    calls.remove(refused)
    (reading,) = calls
    with pytest.raises(BadInputError, match="another thread"):
        refused.result()
    nodes.end_feed()
    assert reading.result(TIMEOUT) == []


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


XY = {"a": "x", "b": "y"}


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


def in_use(ask: Any) -> bool:
    """Whether another thread is in a call of the object that ``ask`` asks something."""
    try:
        ask()
    except BadInputError as error:
        assert "another thread is using this" in str(error)
        return True
    return False


def test_a_writer_serves_one_thread_and_is_closed_by_any(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    writer = nodes.writer(mode="inference")
    writer.write_rows([1, 2])
    waiting = pool.submit(writer.results, block=True)
    wait_for(lambda: in_use(lambda: writer.stopped), "a thread that waits for results")
    with pytest.raises(BadInputError, match="write_rows: another thread is using this feed writer"):
        writer.write_rows([3])
    writer.close()  # What the waiting call uses stays until it returns.
    nodes.servers[0].fail("enough")
    with pytest.raises(FeedError, match="enough"):
        waiting.result(TIMEOUT)
    with pytest.raises(BadInputError, match="closed"):
        writer.write_rows([3])


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
