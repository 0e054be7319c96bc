"""What ends a feed or a wait early: failures, timeouts, signals, other threads and wrong arguments."""

from __future__ import annotations

import json
import os
import pickle
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from support.coordinator_port import AskedCoordinator
from support.feed_nodes import TIMEOUT
from support.waiting import wait_for
from tfos.errors import BadInputError, FeedError, FeedTimeoutError, NodeLostError


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


class Listed:
    """A row that can be unpickled while the folder is there: as the list of what it has."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.listdir, (str(self.folder),)


def test_rows_that_come_with_some_that_cannot_be_unpickled_are_answered(
    make_nodes: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "later"
    nodes = make_nodes(1)
    reader = nodes.servers[0].reader("input")
    writer = nodes.writer(mode="inference")
    writer.write_pickled([pickle.dumps([1, 2]), pickle.dumps([Listed(folder)])])
    writer.end()
    with pytest.raises(FileNotFoundError):
        reader.next_rows(3, False, TIMEOUT)
    folder.mkdir()
    assert reader.next_rows(3, False, TIMEOUT) == [1, 2, []]
    reader.send_results(["a", "b", "c"])
    assert writer.results(block=True) == ["a", "b", "c"]
    nodes.end_feed()
    assert reader.next_rows(1, False, TIMEOUT) == []
    reader.finish()


def test_a_failure_does_not_bring_rows_again_that_a_lost_node_has_read(
    make_nodes: Any, tmp_path: Path, pool: Any
) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    nodes = make_nodes(2)
    coordinator = AskedCoordinator(nodes.key)
    address, port = coordinator.address
    writer = nodes.writer(
        until_read=True,
        coordinator={"address": address, "port": port},
        job_id=secrets.token_hex(16),  # Of which the node counts as lost.
    )
    writer.write_pickled([pickle.dumps([1, 2]), pickle.dumps([Listed(folder), 4])])
    lost = wait_for(lambda: [s for s in nodes.servers if s.counters()["items"]], "rows in a node")[
        0
    ]
    [other] = [server for server in nodes.servers if server is not lost]
    first = lost.reader("input")  # It holds the chunk until the test ends.
    assert first.next_rows(3, True, TIMEOUT) == [1, 2, []]
    folder.rmdir()
    answer = {"nodes": [{"node_id": nodes.servers.index(lost), "state": "lost"}]}
    coordinator.answers["/v1/status"] = answer
    lost.close()
    finished = pool.submit(writer.finish)
    reader = other.reader("input")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            reader.next_rows(1, True, TIMEOUT)
    folder.mkdir()
    assert reader.next_rows(1, True, TIMEOUT) == [4]
    assert finished.result(TIMEOUT)["moved"] == 2
    coordinator.close()


def test_bad_arguments(make_nodes: Any) -> None:
    nodes = make_nodes(1)
    with pytest.raises(BadInputError, match="job id"):
        nodes.writer(job_id="00ff")
    with pytest.raises(BadInputError, match="mode must be train or inference, not"):
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


# The end of a read gives its memory to a feeder that waits for some. There is none to be had, and
# the thread that read says so on a standard output that takes nothing until another thread reads it.
SLOW_RELEASE = """
import os, resource, sys, threading
from support.feed_nodes import TIMEOUT, Nodes
from support.waiting import wait_for
from tfos.errors import FeedError

MEMORY, REGION = 1 << 20, 1 << 16
ROW = bytes(100_000)
nodes = Nodes(1, memory_bytes=MEMORY)
server, = nodes.servers
full = nodes.writer(0, region_bytes=MEMORY)
full.write_rows([ROW, ROW])
full.finish()
if sys.argv[1] == "reader":
    reader = server.reader("input")
    assert reader.next_rows(1, True, TIMEOUT) == [ROW]
else:
    source = server.batch_source("input")
    columns = source.peek(False)
    if sys.argv[1] == "batch":
        arrays = source.arrays(columns, 2, False, "none")

def in_use():
    return server.counters()["region_bytes_in_use"]

first = nodes.writer(1, mode="inference", region_bytes=REGION)  # gets memory before all others
before = in_use()
second = nodes.writer(2, mode="inference", region_bytes=REGION)
assert in_use() == before + REGION
refused = []

def grow():
    try:
        second.write_rows([bytes(MEMORY * 3 // 4)])
    except FeedError as error:
        refused.append(str(error))

growing = threading.Thread(target=grow, daemon=True)
growing.start()
wait_for(lambda: in_use() == before, "a feeder that waits for memory")

log, stdout = os.pipe()
os.set_blocking(stdout, False)
try:
    while True:
        os.write(stdout, b" ")
except BlockingIOError:
    os.set_blocking(stdout, True)
os.dup2(stdout, 1)

def read_log():
    wait_for(lambda: server.counters()["broken_sessions"], "a feeder that gets no memory")
    seen = b""
    while b"broke off" not in seen:
        seen += os.read(log, 1 << 16)

reading = threading.Thread(target=read_log)
reading.start()
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0), most))
if sys.argv[1] == "batch":
    assert arrays.next()[0].tolist() == [ROW, ROW]
elif sys.argv[1] == "source":
    del source
else:
    del reader
reading.join()
growing.join()
assert "get memory for the feeder" in refused[0], refused
"""


@pytest.mark.parametrize("what", ["batch", "source", "reader"])
def test_giving_memory_back_does_not_stop_other_threads(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW_RELEASE, what],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
