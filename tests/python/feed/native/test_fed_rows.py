"""Rows through the native extension: feeders and nodes as threads of one process."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest

from support.feed_nodes import JOB, TIMEOUT, read_all
from support.waiting import wait_for


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


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "heard of the next job"])
def test_what_an_interrupted_job_had_kept_is_not_replayed(make_nodes: Any, is_told: bool) -> None:
    nodes = make_nodes(1)
    server = nodes.servers[0]
    first, second = "01" * 16, "02" * 16

    def feed(job: str, attempt: int, rows: list[int], replays: int) -> None:
        writer = nodes.writer(0, attempt=attempt, job_id=job, cache="memory", replays=replays)
        writer.write_rows(rows)
        writer.finish()
        writer.close()

    feed(first, 1, [-1, -2], 9)
    if is_told:
        server.abandon_epoch("input", 0, first)
    feed(second, 7, [1, 2, 3], 1)
    server.abandon_epoch("input", 0, first)  # It may come late.
    server.end_epoch("input", 1)
    nodes.end_feed()
    assert read_all(server) == [-1, -2, 1, 2, 3, 1, 2, 3]


def test_nothing_is_replayed_where_the_next_job_brings_no_row(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    server = nodes.servers[0]
    writer = nodes.writer(cache="disk", replays=9)
    writer.write_rows([-1, -2])
    writer.finish()
    writer.close()
    server.abandon_epoch("input", 0, JOB.hex())
    server.end_epoch("input", 0)
    nodes.end_feed()
    assert read_all(server) == [-1, -2]
