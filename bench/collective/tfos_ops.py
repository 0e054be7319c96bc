"""One process of tfos as programs use it: all_reduce as an op of TensorFlow, in a tf.function.

    python bench/collective/tfos_ops.py BYTES,BYTES,... ROUNDS RANK TOKEN TRANSPORT PORT,PORT,...

TRANSPORT: shared-memory, tcp, tls or ucx. The first writes a line of JSON for each size.
"""

import socket
import sys

import contender
import tensorflow as tf

from tfos import collective
from tfos.base import training_nodes

sizes = [int(size) for size in sys.argv[1].split(",")]
rounds, rank = int(sys.argv[2]), int(sys.argv[3])
token, transport = sys.argv[4], sys.argv[5]
ports = [int(port) for port in sys.argv[6].split(",")]
members = len(ports)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", ports[rank]))
nodes = [
    {
        "node_id": node,
        "job_name": "worker",
        "task_index": node,
        "host": "localhost",
        "address": "127.0.0.1",
        "tensor_port": port,
        "rank": node,
    }
    for node, port in enumerate(ports)
]
training_nodes.use(
    nodes,
    rank,
    token,
    listener.fileno(),
    shared_memory=transport == "shared-memory",
    encrypt="true" if transport == "tls" else "false",
    rdma="required" if transport == "ucx" else "false",
)


@tf.function
def reduce(tensor):
    return collective.all_reduce(tensor, "sum")


contender.measure(
    "op, " + transport.replace("-", " "), reduce, sizes, rounds, rank, members, most_calls=200
)
collective.leave()
