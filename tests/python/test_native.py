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
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterator

import pytest

_native = pytest.importorskip("tfos._native")

from tfos.errors import BadInputError, FeedError, FeedTimeoutError, NodeLostError  # noqa: E402

JOB = b"j" * 16
TIMEOUT = 30.0


class Nodes:
    """Some feed servers on this host and the writers that feed them."""

    def __init__(self, count: int, memory_bytes: int = 64 << 20):
        self.token = secrets.token_hex(32)
        self.servers = [
            _native.FeedServer(
                node_id=i, cluster_id="test", token_hex=self.token, queues=["input"],
                memory_bytes=memory_bytes, cache_memory_bytes=1 << 20,
                cache_directory="/tmp", bind_address="127.0.0.1", ports="0",
            )
            for i in range(count)
        ]

    def endpoints(self, local: bool = True) -> list[dict[str, Any]]:
        endpoints = [
            {"node_id": i, "host": "here", "address": "127.0.0.1", **server.endpoint()}
            for i, server in enumerate(self.servers)
        ]
        return endpoints if local else [{**e, "socket": ""} for e in endpoints]

    def writer(self, partition: int = 0, mode: str = "train", **changes: Any) -> Any:
        arguments: dict[str, Any] = {
            "endpoints": self.endpoints(), "token_hex": self.token, "job_id": JOB, "epoch": 0,
            "partition": partition, "attempt": 0, "mode": mode, "queue": "input",
            "timeout_s": TIMEOUT, "region_bytes": 1 << 20, "cache": "", "replays": 0,
            "shuffle_seed": 0,
        }
        return _native.FeedWriter(**{**arguments, **changes})

    def end_feed(self) -> None:
        for server in self.servers:
            server.end_feed()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture
def make_nodes(pool: ThreadPoolExecutor) -> Iterator[Any]:
    # After the pool, so that it ends first: closed servers let go of whoever still waits.
    made: list[Nodes] = []

    def make(*args: Any, **kwargs: Any) -> Nodes:
        made.append(Nodes(*args, **kwargs))
        return made[-1]

    yield make
    for nodes in made:
        for server in nodes.servers:
            server.close()


def read_all(server: Any, batch: int = 7) -> list[Any]:
    reader = server.reader("input")
    rows = []
    while not reader.ended:
        rows += reader.next_rows(batch, True, TIMEOUT)
    return rows


def echo(server: Any, batch: int, partial: bool = True) -> list[int]:
    """Answers every row with itself in a tuple; returns the sizes of the batches."""
    reader = server.reader("input")
    sizes = []
    while not reader.ended:
        rows = reader.next_rows(batch, False, TIMEOUT)
        if rows:
            sizes.append(len(rows))
            middle = len(rows) // 2 if partial else 0
            reader.send_results([("echo", row) for row in rows[:middle]])
            reader.send_results([("echo", row) for row in rows[middle:]])
    reader.finish()
    return sizes


def infer(nodes: Nodes, partition: int, rows: list[Any], chunk: int = 10) -> list[Any]:
    writer = nodes.writer(partition, "inference")
    results = []
    for at in range(0, len(rows), chunk):
        writer.write_rows(rows[at : at + chunk])
        while (some := writer.results(block=False)) is not None:
            results += some
    writer.end()
    while (some := writer.results(block=True)) is not None:
        results += some
    assert writer.finish() == {"items": len(rows), "rows": len(rows)}
    writer.close()
    return results


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
    assert Counter(row for rows in read for row in rows) == Counter(
        {i: 10 for i in range(30)}
    )
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
    deadline = time.monotonic() + TIMEOUT
    while sum(accepted := [server.counters()["items"] for server in nodes.servers]) < 10:
        assert time.monotonic() < deadline, accepted
    readers = [server.reader("input") for server in nodes.servers]
    read = [row for reader, count in zip(readers, accepted) if count
            for row in reader.next_rows(min(count, 4), True, TIMEOUT)]
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
    pa = pytest.importorskip("pyarrow")
    np = pytest.importorskip("numpy")
    nodes = make_nodes(1)
    batch = pa.RecordBatch.from_pydict({
        "id": pa.array(range(1000), "int32"),
        "flag": pa.array([n % 3 == 0 for n in range(1000)]),
        "half": pa.array(np.arange(1000, dtype=np.float16)),
        "text": [f"r\u00fc {n}" for n in range(1000)],
        "data": pa.array([bytes([n % 256]) * (n % 5) for n in range(1000)], "large_binary"),
        "list": pa.array([list(range(n % 4)) for n in range(1000)], pa.list_(pa.uint8())),
        "pair": pa.array([[n, -n] for n in range(1000)], pa.list_(pa.float32(), 2)),
    })
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
    pa = pytest.importorskip("pyarrow")
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
    pa = pytest.importorskip("pyarrow")
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
    pa = pytest.importorskip("pyarrow")
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
        (pa.array([["a"]]), "cannot hold 'u'"),
        (pa.array(["a"]).dictionary_encode(), "dictionary"),
        (pa.array([1], pa.decimal128(5, 2)), "pass decimals="),
        (pa.nulls(1), "cannot hold 'n'"),
    ]:
        with pytest.raises(BadInputError, match=said):
            writer.write_arrow(pa.RecordBatch.from_arrays([column], ["x"]), 0, 1, False)
    writer.write_arrow(
        pa.RecordBatch.from_pydict({"x": pa.array([1], pa.decimal128(5, 2))}), 0, 1, True)
    with pytest.raises(BadInputError, match=r"rows \[1, 3\) of a record batch of 2"):
        writer.write_arrow(good, 1, 3, False)
    with pytest.raises(BadInputError, match="no record batch"):
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
    node_id=0, cluster_id="test", token_hex=sys.argv[1], queues=["input"], memory_bytes=64 << 20,
    cache_memory_bytes=0, cache_directory="/tmp", bind_address="127.0.0.1", ports="0")
print(json.dumps(server.endpoint()), flush=True)
sys.stdin.read()
"""


def test_a_killed_node_and_nobody_to_feed(make_nodes: Any) -> None:
    nodes = make_nodes(0)
    node = subprocess.Popen(
        [sys.executable, "-c", NODE_PROCESS, nodes.token],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    with node:
        endpoint = {"node_id": 0, "host": "here", "address": "127.0.0.1"}
        endpoint |= json.loads(node.stdout.readline())
        writer = nodes.writer(endpoints=[endpoint])
        writer.write_rows([1])
        node.kill()
        with pytest.raises(NodeLostError, match="node 0"):
            writer.finish()
    with pytest.raises(NodeLostError, match="no node could be reached"):
        nodes.writer(endpoints=[endpoint], partition=1)


def test_timeouts_say_which_side_is_idle(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    with pytest.raises(FeedTimeoutError):
        reader.next_rows(1, True, 0.05)
    writer = nodes.writer(timeout_s=0.3)
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
        nodes.writer(job_id=b"short")
    with pytest.raises(BadInputError, match="neither 'train' nor 'inference'"):
        nodes.writer(mode="both")
    with pytest.raises(BadInputError):
        nodes.writer(token_hex="xyz")
    with pytest.raises(FeedError, match="no queue 'other'"):
        nodes.writer(queue="other")
    with pytest.raises(NodeLostError, match="no node could be reached.*hung up|closed"):
        nodes.writer(token_hex=secrets.token_hex(32))
    with pytest.raises(BadInputError):
        nodes.servers[0].reader("other").next_rows(1, True, 1.0)


def test_a_signal_ends_a_wait(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        reader.next_rows(1, True, TIMEOUT)
    timer.join()


def test_one_thread_at_a_time(make_nodes: Any, pool: Any) -> None:
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    reading = pool.submit(reader.next_rows, 1, True, TIMEOUT)
    with pytest.raises(BadInputError, match="another thread"):
        while not reading.done():
            reader.next_rows(1, True, 0.01)
    nodes.end_feed()
    assert reading.result(TIMEOUT) == []
