"""What is raised when a child of tfos begins with something else than where it listens."""

from __future__ import annotations

import re
import sys

import pytest

from tfos.base import child, executable
from tfos.cluster import keeper
from tfos.cluster.coordinator import Coordinator
from tfos.errors import TfosError
from tfos.parameter_server.process import ParameterServerProcess
from tfos.spark import executor

STARTS = {
    "the coordinator": lambda: Coordinator({"max_lost_nodes": 0}, on_failure=lambda: None),
    "the parameter server": lambda: ParameterServerProcess("127.0.0.1"),
}
#: As `echo` or `printf` writes them, and as errors quote them.
LINES = {
    "words": ("echo 'no locale'", "no locale"),
    "another message": ("""echo '{"type":"node"}'""", '{"type":"node"}'),
    "no object": ("echo '[1]'", "[1]"),
    "bytes": (r"printf '\377\n'", r"\xff\n"),
}


@pytest.fixture
def script(tmp_path):
    """Makes an executable of shell commands; its path."""

    def make(*commands):
        path = tmp_path / "program"
        path.write_text("\n".join(["#!/bin/sh", *commands]) + "\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def children(monkeypatch):
    """Those that were started, each with both ends of its pipes."""
    started = []
    start = child.start

    def start_and_keep(*arguments, **options):
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(child, "start", start_and_keep)
    return started


@pytest.mark.parametrize("who", STARTS)
@pytest.mark.parametrize(("says", "quoted"), LINES.values(), ids=LINES)
def test_a_child_that_says_something_else_is_named_and_ended(
    monkeypatch, script, children, who, says, quoted
):
    path = script("read -r start", says, "cat >/dev/null")
    monkeypatch.setattr(executable, "path", lambda: path)
    with pytest.raises(TfosError) as raised:
        STARTS[who]()
    ((process, to_child, from_child),) = children
    assert re.match(rf"{who} \(process {process.pid} on \S+\) said b'", str(raised.value))
    assert quoted in str(raised.value) and "where it listens" in str(raised.value)
    assert process.returncode is not None
    assert to_child.closed and from_child.closed


@pytest.mark.parametrize("who", STARTS)
def test_a_child_that_ends_in_its_first_line_did_not_start(monkeypatch, script, children, who):
    path = script("read -r start", """printf '{"type":"list'""", "exit 3")
    monkeypatch.setattr(executable, "path", lambda: path)
    with pytest.raises(TfosError, match="exited with code 3|it has ended"):
        STARTS[who]()
    ((process, to_child, from_child),) = children
    assert process.returncode == 3
    assert to_child.closed and from_child.closed


def test_a_keeper_that_says_something_else_is_told_as_the_reason(monkeypatch, script):
    monkeypatch.setattr(executor, "executor_id", lambda: "1")
    path = script("cat >/dev/null", "echo 'no locale'")
    monkeypatch.setattr(sys, "executable", path)
    first = keeper.start({})
    assert first["type"] == "fatal"
    assert re.match(r"the coordinator's keeper \(process \d+ on \S+\) said b'no", first["message"])
