"""TLS in a process where TensorFlow's BoringSSL was first."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import tensorflow as tf  # Before tfos, and so are its functions of OpenSSL's names.

import concurrent.futures
import dataclasses
import secrets
import socket

import numpy as np

from tfos import collective, parameter_server
from tfos.parameter_server import connection
from tfos.parameter_server.process import ParameterServerProcess

listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
nodes = [{"node_id": node, "job_name": "worker", "task_index": node, "rank": node, "host": "h",
          "address": "127.0.0.1", "tensor_port": listener.getsockname()[1]}
         for node, listener in enumerate(listeners)]
key = secrets.token_hex(32)


def take_part(node):
    group = collective.Group(nodes, node, key, listeners[node].detach(), shared_memory=False, encrypt="true")
    values = np.arange(300_000, dtype=np.float32) * (node + 1)
    (total,) = group.all_reduce([tf.constant(values)], None, "sum")
    group.leave()
    return group.transport, total.numpy()


with concurrent.futures.ThreadPoolExecutor(2) as threads:
    for transport, total in threads.map(take_part, range(2)):
        assert transport == "tcp with TLS", transport
        np.testing.assert_array_equal(total, np.arange(300_000, dtype=np.float32) * 3)

process = ParameterServerProcess("127.0.0.1", encrypt="true")
server = dataclasses.replace(process.server, id="of another host")
w = np.zeros(300_000, np.float32)
worker = connection.Worker(0, "worker:0 on host h", True, 1)
with parameter_server.ParameterServer([w], [server], worker, process.key, overlap=False,
                                      sync_interval=1) as values:
    assert values.local_servers == 0
    w += np.arange(300_000, dtype=np.float32)
    values.step()
    other = np.ones(300_000, np.float32)
    with parameter_server.ParameterServer([other], [server], dataclasses.replace(worker, number=1, starts=False),
                                          process.key):
        np.testing.assert_array_equal(other, np.arange(300_000, dtype=np.float32))
process.close()
print("through")
"""


def test_nodes_and_servers_encrypt_where_tensorflow_was_imported_first(leftovers):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "through"
