"""What a node's process tells of its threads, without an agent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.waiting import BOUND_SECONDS

pytestmark = pytest.mark.timeout(2 * BOUND_SECONDS)

_SERVE = """
import ctypes, os, threading
from tfos import _native
from tfos.node import stacks

class Link:
    native = _native.NodeLink.from_environment()

stacks.serve(Link)

def hang():
    print("hangs", flush=True)
    LIBRARY.read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
"""


_NO_KEY = "0" * 64
_BOOTSTRAP = {
    "type": "bootstrap",
    "cluster_id": "",
    "keys": {"feed": _NO_KEY, "parameters": _NO_KEY, "tensors": _NO_KEY},
    "encrypt": "auto",
    "node_id": 0,
    "executor_id": "",
    "job_name": "worker",
    "task_index": 0,
    "cluster_spec": {},
    "num_workers": 1,
    "nodes": [],
    "port": 0,
    "port_fd": -1,
    "tensor_port_fd": -1,
    "address": "",
    "host": "",
    "gpus": [],
    "gpu_fraction": 0.0,
    "coordinator": {"address": "", "port": 0},
    "node": {},
    "payload_bytes": 0,
}


class Node:
    def __init__(self, agent: socket.socket, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._agent = agent
        self._lines = agent.makefile("r", encoding="utf-8")

    def stacks(self, gentle: bool = False) -> str:
        self._agent.sendall(json.dumps({"type": "stacks", "gentle": gentle}).encode() + b"\n")
        while True:
            message = json.loads(self._lines.readline())
            if message["type"] == "stacks":
                return message["text"]


@contextmanager
def node_that_runs(program: str) -> Iterator[Node]:
    """Once it has printed a line."""
    agent, theirs = socket.socketpair()
    agent.settimeout(BOUND_SECONDS)
    agent.sendall(json.dumps(_BOOTSTRAP).encode() + b"\n")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE + program],
        env=os.environ | {"TFOS_AGENT_FD": str(theirs.fileno())},
        pass_fds=[theirs.fileno()],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        theirs.close()
        try:
            assert process.stdout is not None and process.stdout.readline()
            yield Node(agent, process)
        finally:
            process.kill()
            agent.close()


def native_half(text: str) -> str:
    """From "Native calls of all threads" on."""
    python, heading, native = text.partition("Native calls of all threads, the latest last:\n")
    assert heading, text
    assert "in hang" in python
    return native


# PyDLL keeps Python's lock, CDLL lets go of it.
@pytest.mark.parametrize("library", ["PyDLL", "CDLL"])
def test_the_native_call_that_hangs_is_shown_again_and_again(library):
    program = f"LIBRARY = ctypes.{library}(None)\nhang()\n"
    with node_that_runs(program) as node:
        for _ in range(3):
            text = node.stacks()
            held = "A thread holds Python's lock in native code" in text
            assert held == (library == "PyDLL")
            of_main = native_half(text).partition(f"thread {node.process.pid} ")[2]
            of_main = of_main.partition("\n\n")[0]
            assert "  ... Python, see above ...\n" in of_main
            assert "  read (libc.so.6)" in of_main
            assert "_PyEval" not in of_main
        assert node.process.poll() is None


@pytest.mark.parametrize("library", ["PyDLL", "CDLL"])
def test_one_that_waits_for_any_signal_is_shown_too(library):
    program = f"LIBRARY = ctypes.{library}(None)\n"
    program += (
        "def hang():\n    print('hangs', flush=True)\n    while True: LIBRARY.pause()\nhang()\n"
    )
    with node_that_runs(program) as node:
        assert "  pause (libc.so.6)" in native_half(node.stacks())


def test_threads_of_native_libraries_are_shown():
    program = """
import tensorflow as tf
dataset = tf.data.Dataset.range(10).map(lambda x: x + 1, num_parallel_calls=4)
assert len(list(dataset)) == 10
LIBRARY = ctypes.CDLL(None)
hang()
"""
    with node_that_runs(program) as node:
        native = native_half(node.stacks())
        assert "'tf_" in native
        assert " threads (" in native, "those that do the same are one"
        assert "Eigen::ThreadPoolTempl<...>" in native or "tsl::" in native


def test_who_asks_gently_sends_no_signals():
    with node_that_runs("LIBRARY = ctypes.CDLL(None)\nhang()\n") as node:
        text = node.stacks(gentle=True)
        assert "in hang" in text and "Native calls" not in text


def test_a_program_may_take_the_signal():
    program = """
import signal
signal.signal(signal.SIGRTMIN + 10, lambda *_: None)
LIBRARY = ctypes.PyDLL(None)
hang()
"""
    with node_that_runs(program) as node:
        text = node.stacks()
        assert "in hang" in text
        assert "no native calls of threads: the program has taken the signal" in text
