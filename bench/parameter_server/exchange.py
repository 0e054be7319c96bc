#!/usr/bin/env python3
"""How long a push and a pull take, as a ratio to copying the same bytes; and the MNIST softmax's
weights as the old tensorspark sent them (JSON) against as tfos does.

    python bench/parameter_server/exchange.py --megabytes 100 --repeat 15

Shared memory: the client and the server are processes of this host. TCP: the same over loopback.
The rival is one thread that copies the bytes into shared memory and out of it again. What arrives
is checked before anything is timed.
"""

import argparse
import dataclasses
import json
import mmap
import socket
import statistics
import threading
import time

import numpy as np

from tfos.parameter_server import connection, rules
from tfos.parameter_server.process import ParameterServerProcess


def seconds_of(action, repeat):
    """Median and spread (the quartiles) of `repeat` runs, after a few to warm up."""
    for _ in range(3):
        action()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    quartiles = statistics.quantiles(times, n=4)
    return statistics.median(times), quartiles[0], quartiles[2]


def copier(values):
    """Copies `values` into shared memory, and from there to other memory."""
    shared = np.frombuffer(mmap.mmap(-1, values.nbytes), np.uint8)
    target = np.zeros(values.nbytes, np.uint8)
    source = values.view(np.uint8)

    def copy():
        np.copyto(shared, source)
        np.copyto(target, shared)

    return copy


class Exchange:
    def __init__(self, process, size, local, combiner="delta"):
        server = process.server if local else dataclasses.replace(process.server, id="elsewhere")
        self.values = np.zeros(size, np.float32)
        self.bytes = [connection.as_bytes(self.values)]
        rule, self.pushed = rules.make_rule(combiner, None, 0)
        worker = connection.Worker(0, "the bench", True, 1)
        self.client = connection.connect([server], [self.values], rule, worker, process.key)
        assert self.client.local_servers == int(local)
        self.client.write(0, self.bytes)
        self.client.start_at(0)
        self.client.run(None, True, False, [])

    def check(self):
        self.values += np.arange(self.values.size, dtype=np.float32) % 7
        self.client.run(self.pushed, True, False, self.bytes)
        got = np.empty_like(self.values)
        self.client.copy_values([connection.as_bytes(got)])
        assert np.array_equal(got, self.values), "what came back is not what was pushed"

    def __call__(self):
        self.client.run(self.pushed, True, False, self.bytes)


def json_over_a_socket(values):
    """One push and one pull of the old kind: lists as JSON, over a plain socket (a WebSocket frame
    adds a few bytes). The other end parses and answers with the same. Returns (action, bytes)."""
    ours, theirs = socket.socketpair()
    message = {
        "worker_id": 0,
        "worker_op": "push",
        "param_version": 1,
        "parameters": {name: value.tolist() for name, value in values.items()},
    }
    size = len(json.dumps(message).encode())

    def receive(end):
        head = end.recv(8, socket.MSG_WAITALL)
        if not head:
            return None
        return json.loads(end.recv(int.from_bytes(head), socket.MSG_WAITALL))

    def send(end, what):
        text = json.dumps(what).encode()
        end.sendall(len(text).to_bytes(8) + text)

    def serve():
        held = None
        while (got := receive(theirs)) is not None:
            held = {name: np.array(value) for name, value in got["parameters"].items()}
            send(theirs, {"parameters": {name: value.tolist() for name, value in held.items()}})

    threading.Thread(target=serve, daemon=True).start()

    def exchange():
        send(
            ours,
            {**message, "parameters": {name: value.tolist() for name, value in values.items()}},
        )
        return {name: np.array(value) for name, value in receive(ours)["parameters"].items()}

    back = exchange()
    assert all(np.allclose(back[name], values[name]) for name in values)
    return exchange, 2 * size


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    size = options.megabytes * 1_000_000 // 4

    def say(what, measured, rival=None):
        median, low, high = measured
        ratio = "" if rival is None else f", {rival[0] / median:.2f} of memcpy"
        print(
            f"{what:42} {median * 1e3:8.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f}){ratio}",
            flush=True,
        )

    values = np.random.default_rng(0).random(size, np.float32)
    memcpy = seconds_of(copier(values), options.repeat)
    say(f"memcpy of {options.megabytes} MB, in and out", memcpy)
    for local, combiner in ((True, "delta"), (True, "update-mean"), (False, "delta")):
        process = ParameterServerProcess("127.0.0.1")
        exchange = Exchange(process, size, local, combiner)
        if combiner == "delta":
            exchange.check()
        way = "shared memory" if local else "TCP, loopback"
        say(f"push and pull, {combiner}, {way}", seconds_of(exchange, options.repeat), memcpy)
        process.close()
    say(f"memcpy of {options.megabytes} MB again", seconds_of(copier(values), options.repeat))

    rng = np.random.default_rng(1)
    weights = {
        "W": rng.standard_normal((784, 10)).astype(np.float32),
        "b": rng.standard_normal(10).astype(np.float32),
    }
    old, old_bytes = json_over_a_socket(weights)
    process = ParameterServerProcess("127.0.0.1")
    exchange = Exchange(process, sum(value.size for value in weights.values()), False)
    exchange.check()
    then, now = seconds_of(old, 50), seconds_of(exchange, 50)
    own_bytes = 2 * exchange.values.nbytes
    print(
        f"MNIST softmax weights, push and pull over a socket: JSON {old_bytes} bytes, {then[0] * 1e3:.2f} ms; "
        f"tfos (TCP) {own_bytes} bytes, {now[0] * 1e3:.2f} ms: {old_bytes / own_bytes:.1f} times fewer bytes, "
        f"{then[0] / now[0]:.0f} times faster"
    )
    process.close()


if __name__ == "__main__":
    main()
