"""Two hosts whose network is cut while they exchange tensors or rows: each end notices in the time that
net::kUnacknowledgedLimit gives, not in that of the kernel (a quarter of an hour)."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from support.feed_nodes import TIMEOUT, Nodes, infer
from support.namespaces import cut, joined_host
from support.parameter_servers import server_of
from support.places import SCRIPTS, TESTS
from tfos.parameter_server.process import ParameterServerProcess

pytestmark = pytest.mark.long

OURS = "10.213.80.1"
THEIRS = "10.213.80.2"
#: Bytes, of which a connection holds some on their way.
LARGE = 1 << 20


@pytest.fixture
def other_host():
    with joined_host(OURS, THEIRS) as host:
        yield host


class There:
    """A script of SCRIPTS; ``with`` ends it."""

    def __init__(self, script, *arguments, prefix=()):
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(SCRIPTS / script), *arguments],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.communicate()

    def tell(self, what):
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def hear(self, event):
        """What it says with the next ``event``."""
        for line in self._process.stdout:
            is_log = not line.startswith("{")
            if not is_log and (said := json.loads(line))["event"] == event:
                return said
        raise AssertionError(f"the script ended before it said {event!r}")


@pytest.mark.failure("network cut", "training")
@pytest.mark.parametrize("elements", [4, 4_000_000], ids=["small sums", "large sums"])
def test_each_member_names_the_other_one(other_host, elements):
    key = secrets.token_hex(32)
    there = other_host.prefix
    with (
        There("cut_member.py", "0", OURS, key) as ours,
        There("cut_member.py", "1", THEIRS, key, prefix=there) as theirs,
    ):
        members = (ours, theirs)
        ports = [member.hear("port")["port"] for member in members]
        for member in members:
            member.tell([ports, [OURS, THEIRS], elements])
        for member in members:
            member.hear("summed")
        cut(other_host)
        for member, other in ((ours, "worker:0"), (theirs, "chief:0")):
            error = member.hear("failed")["text"]
            assert other in error
            # The kernel may see first that the other host answers no ARP any more.
            noticed = ("acknowledged nothing for", "timed out", "No route to host")
            assert any(words in error for words in noticed), error


@pytest.mark.failure("network cut", "inference")
def test_a_node_gives_up_a_feeder_in_the_middle_of_its_results(other_host):
    """And answers those that wait behind it."""
    nodes = Nodes(1, address=OURS)
    reader = nodes.servers[0].reader("input")
    plan = nodes.plan(endpoints=nodes.endpoints(local=False))
    with (
        There("cut_feeder.py", plan, "64", prefix=other_host.prefix) as feeder,
        ThreadPoolExecutor(1) as pool,
    ):
        rows = reader.next_rows(64, False, TIMEOUT)
        reader.send_results([b"x" * LARGE])
        feeder.hear("result")
        cut(other_host)
        behind = pool.submit(infer, nodes, 2, [7])
        for _ in rows[1:]:
            reader.send_results([b"x" * LARGE])
        assert reader.next_rows(5, False, TIMEOUT) == [7]
        reader.send_results(["seven"])
        nodes.end_feed()
        assert reader.next_rows(5, False, TIMEOUT) == []
        assert behind.result(TIMEOUT) == ["seven"]


@pytest.mark.failure("network cut", "parameter servers")
def test_a_parameter_server_gives_up_a_worker_in_the_middle_of_its_values(other_host, leftovers):
    """And the others no longer wait for its pushes."""
    process = ParameterServerProcess(OURS)
    values = np.zeros(32 * LARGE // 4, np.float32)
    try:
        server = json.dumps(dataclasses.asdict(process.server))
        with server_of(process, [values], workers=2, staleness=1) as ours:
            arguments = ("cut_worker.py", server, process.key, str(values.size))
            with There(*arguments, prefix=other_host.prefix) as worker:
                for _ in range(2):
                    worker.hear("pulled")
                cut(other_host)
                for _ in range(4):
                    ours.step()
                    ours.push()
    finally:
        process.close()
