"""A member of a group of two hosts, for test_cut_network.py: RANK ADDRESS KEY.

It says its port, reads the other one's, and sums tensors with it for ever, saying `summed` each time,
until that fails: `failed`, with the error.
"""

import json
import socket
import sys

import tensorflow as tf

from tfos import collective
from tfos.base import training_nodes
from tfos.errors import TfosError

JOBS = ("chief", "worker")


def say(event, **what):
    print(json.dumps({"event": event, **what}), flush=True)


def main(rank, address, key):
    with socket.create_server((address, 0)) as listener:
        say("port", port=listener.getsockname()[1])
        ports, addresses, elements = json.loads(sys.stdin.readline())
        nodes = [
            {
                "node_id": number,
                "job_name": job,
                "task_index": 0,
                "rank": number,
                "host": f"host-{number}",
                "address": addresses[number],
                "tensor_port": ports[number],
            }
            for number, job in enumerate(JOBS)
        ]
        training_nodes.use(nodes, rank, key, listener.fileno(), encrypt="false")
        try:
            while True:
                collective.all_reduce(tf.ones([elements]))
                say("summed")
        except (TfosError, tf.errors.OpError) as error:
            say("failed", text=str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
