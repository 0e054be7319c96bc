"""Two hosts whose network is cut while their nodes exchange tensors: each names the other one, in the
time that net::kUnacknowledgedLimit gives, not in that of the kernel (a quarter of an hour)."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys

import pytest

from support.namespaces import cut, joined_host
from support.places import SCRIPTS, TESTS

OURS = "10.213.80.1"
THEIRS = "10.213.80.2"


@pytest.fixture
def other_host():
    with joined_host(OURS, THEIRS) as host:
        yield host


class Member:
    """A process of `cut_member.py`; ``with`` ends it."""

    def __init__(self, rank, address, key, prefix=()):
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(SCRIPTS / "cut_member.py"), str(rank), address, key],
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
        raise AssertionError(f"the member ended before it said {event!r}")


@pytest.mark.parametrize("elements", [4, 4_000_000], ids=["small sums", "large sums"])
def test_each_member_names_the_other_one(other_host, elements):
    key = secrets.token_hex(32)
    with Member(0, OURS, key) as ours, Member(1, THEIRS, key, other_host.prefix) as theirs:
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
            assert "acknowledged nothing for" in error or "timed out" in error
