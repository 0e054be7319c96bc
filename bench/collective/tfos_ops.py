"""One process of tfos as programs use it: all_reduce as an op of TensorFlow, in a tf.function.

    python bench/collective/tfos_ops.py BYTES,BYTES,... ROUNDS RANK TOKEN SHARED_MEMORY PORT,PORT,...

The first writes a line of JSON for each size.
"""

import json
import socket
import sys
import time

import numpy as np
import tensorflow as tf

from tfos import collective

sizes = [int(size) for size in sys.argv[1].split(",")]
rounds, rank = int(sys.argv[2]), int(sys.argv[3])
token, shared_memory = sys.argv[4], sys.argv[5] == "yes"
ports = [int(port) for port in sys.argv[6].split(",")]
members = len(ports)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", ports[rank]))
nodes = [{"node_id": node, "job_name": "worker", "task_index": node, "host": "localhost",
          "address": "127.0.0.1", "tensor_port": port} for node, port in enumerate(ports)]
collective.use(nodes, rank, token, listener.fileno(), shared_memory=shared_memory)

for size in sizes:
    count = size // 4
    value = tf.range(count, dtype=tf.float32) % 1000 + float(rank)

    @tf.function
    def reduce(tensor):
        return collective.all_reduce(tensor, "sum")

    found = reduce(value).numpy()
    expected = (np.arange(count, dtype=np.float32) % 1000) * members + members * (members - 1) / 2
    np.testing.assert_array_equal(found, expected)
    times = max(1, min(200, (32 << 20) // size))
    seconds = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        for _ in range(times):
            result = reduce(value)
        result.numpy()
        seconds.append((time.perf_counter() - begin) / times)
    if rank == 0:
        name = "op, shared memory" if shared_memory else "op, tcp"
        print("RESULT", json.dumps({"members": members, "bytes": size, "contender": name,
                                    "seconds": seconds[1:]}), flush=True)
collective.leave()
