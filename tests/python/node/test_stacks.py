"""What a node's process tells of its threads, without an agent, and what its native calls are."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.waiting import BOUND_SECONDS, wait_for
from tfos.base import executable

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
    "bind_address": "",
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
def node_that_runs(program: str, **environment: str) -> Iterator[Node]:
    """Once it has printed a line."""
    agent, theirs = socket.socketpair()
    agent.settimeout(BOUND_SECONDS)
    agent.sendall(json.dumps(_BOOTSTRAP).encode() + b"\n")
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE + program],
        env=os.environ | environment | {"TFOS_AGENT_FD": str(theirs.fileno())},
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


def native_calls(node: Node) -> str:
    """As the agent asks for them."""
    command = [executable.path(), "native-stacks", str(node.process.pid)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS)
    assert found.returncode == 0, found.stderr
    heading, _, native = found.stdout.partition("\n")
    assert heading == "Native calls of all threads, the latest last:", found.stdout
    return native


def await_call(node: Node, name: str) -> str:
    """The native calls of all threads, with this one. The line that the program prints comes before
    it. And where all cores are busy, a thread may not stop in time to be looked at."""

    def with_call() -> str:
        calls = native_calls(node)
        return calls if f"  {name} (libc.so.6)" in calls else ""

    return wait_for(with_call, f"the call of {name}")


# PyDLL keeps Python's lock, CDLL lets go of it.
@pytest.mark.parametrize("library", ["PyDLL", "CDLL"])
def test_the_native_call_that_hangs_is_shown_again_and_again(library):
    program = f"LIBRARY = ctypes.{library}(None)\nhang()\n"
    with node_that_runs(program) as node:
        await_call(node, "read")
        for _ in range(3):
            text = node.stacks()
            held = "A thread holds Python's lock in native code" in text
            assert held == (library == "PyDLL")
            assert "in hang" in text
            of_main = await_call(node, "read").partition(f"thread {node.process.pid} ")[2]
            of_main = of_main.partition("\n\n")[0]
            assert "  ... Python, see above ...\n" in of_main
            assert "  read (libc.so.6)" in of_main
            assert "_PyEval" not in of_main
        assert node.process.poll() is None


@pytest.mark.parametrize("library", ["PyDLL", "CDLL"])
def test_one_that_waits_for_any_signal_goes_on_waiting(library):
    program = f"LIBRARY = ctypes.{library}(None)\n"
    program += "def hang():\n    print('hangs', flush=True)\n    LIBRARY.pause()\n    os._exit(1)\nhang()\n"
    with node_that_runs(program) as node:
        for _ in range(3):
            await_call(node, "pause")
        assert node.process.poll() is None


def test_threads_of_native_libraries_are_shown():
    program = """
import tensorflow as tf
dataset = tf.data.Dataset.range(10).map(lambda x: x + 1, num_parallel_calls=4)
assert len(list(dataset)) == 10
LIBRARY = ctypes.CDLL(None)
hang()
"""
    with node_that_runs(program) as node:
        native = native_calls(node)
        assert "'tf_" in native
        assert " threads (" in native, "those that do the same are one"
        assert "Eigen::ThreadPoolTempl<...>" in native or "tsl::" in native


@pytest.mark.long
def test_tensorflow_that_computes_is_not_harmed():
    """Its kernels keep data where the stack would be, so a signal's handler would destroy it."""
    program = """
import tensorflow as tf
matrix = tf.random.stateless_normal((300, 300), (1, 2))
print("computes", flush=True)
first = tf.matmul(matrix, matrix).numpy()
while not os.path.exists(os.environ["END"]):
    for _ in range(100):
        product = tf.matmul(matrix, matrix)
    assert abs(product.numpy() - first).max() < 1e-3
"""
    with tempfile.TemporaryDirectory() as folder:
        end = os.path.join(folder, "end")
        with node_that_runs(program, END=end) as node:
            assert any("MatMul" in native_calls(node) for _ in range(100))
            for _ in range(50):
                native_calls(node)
            with open(end, "x"):
                pass
            assert node.process.wait(BOUND_SECONDS) == 0


def test_the_node_itself_tells_no_native_calls():
    with node_that_runs("LIBRARY = ctypes.CDLL(None)\nhang()\n") as node:
        for gentle in (False, True):
            text = node.stacks(gentle=gentle)
            assert "in hang" in text and "Native calls" not in text
