"""From a feeder to tensors, without Spark: shared memory against memcpy, TCP against a bare socket.

    python bench/feed/channels.py [--repeat 5] [--output docs/performance.md]

A second process feeds Arrow record batches (float32[784] and int32) to a node in this one, which
reads them as `ctx.dataset(128)` does. "Touched" is a consumer that sums every byte of each batch, as
64-bit integers, and its rival the same sum over memory of this process; memory is copied and summed
by one thread in blocks of the batch's size.
"""

import argparse
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import threading
import time

import report

ROWS = 128 * 2000
BATCH = 128
FEATURES = 784
EPOCHS_CACHED = 4
_GIGABYTE = 1e9

_FEEDER = """
import json, sys, numpy as np, pyarrow as pa
from tfos import _native
for line in sys.stdin:
    job = json.loads(line)
    rows = job.pop("rows")
    values = pa.array(np.arange(1000 * 784, dtype=np.float32))
    batch = pa.RecordBatch.from_arrays(
        [pa.FixedSizeListArray.from_arrays(values, 784), pa.array(np.arange(1000, dtype=np.int32))],
        ["features", "label"])
    writer = _native.FeedWriter(job_id=b"j" * 16, **job)
    fed = 0
    while fed < rows:
        begin = fed % 1000
        end = min(begin + 334, 1000, begin + rows - fed)
        writer.write_arrow(batch, begin, end, False)
        fed += end - begin
    writer.finish()
    writer.close()
    print("done", flush=True)
"""


class Rig:
    """A node here, and a process that feeds it."""

    def __init__(self):
        from tfos import _native

        self.token = secrets.token_hex(32)
        self.server = _native.FeedServer(
            node_id=0, cluster_id="bench", token_hex=self.token, queues=["input"],
            memory_bytes=256 << 20, cache_memory_bytes=4 << 30, cache_directory="/tmp",
            bind_address="127.0.0.1", ports="0")
        self.source = self.server.batch_source("input")
        self.process = subprocess.Popen([sys.executable, "-c", _FEEDER], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.epoch = 0

    def feed(self, rows, remote=False, replays=0):
        """Feeds an epoch, in the background."""
        import json

        endpoint = {"node_id": 0, "host": "here", "address": "127.0.0.1", **self.server.endpoint()}
        if remote:
            endpoint["socket"] = ""
        first = self.epoch
        self.epoch += 1 + replays
        job = {"rows": rows, "endpoints": [endpoint], "token_hex": self.token, "epoch": first,
               "partition": 0, "attempt": 0, "mode": "train", "queue": "input", "timeout_s": 60.0,
               "region_bytes": 32 << 20, "cache": "memory" if replays else "", "replays": replays,
               "shuffle_seed": 0}

        def run():
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n"
            self.server.end_epoch("input", self.epoch - 1)

        threading.Thread(target=run).start()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.source.close()
        self.server.close()


def read(dataset, touch):
    """Seconds and bytes of one pass, from the first batch to the end."""
    import tensorflow as tf

    begin, total = None, 0
    for features, label in dataset:
        if begin is None:
            begin = time.perf_counter()
            continue
        if touch:
            tf.reduce_sum(tf.bitcast(tf.reshape(features, [-1, 2]), tf.int64))
        total += features.shape[0] * (FEATURES * 4 + 4)
    return time.perf_counter() - begin, total


def copied(nbytes=BATCH * FEATURES * 4):
    """Bytes a second of memcpy from a large array, by blocks as large as a batch."""
    import numpy as np

    source = np.ones(1 << 28, np.uint8)
    target = np.empty(nbytes, np.uint8)
    np.copyto(target, source[:nbytes])
    begin = time.perf_counter()
    for start in range(0, len(source) - nbytes, nbytes):
        np.copyto(target, source[start:start + nbytes])
    return len(source) / (time.perf_counter() - begin)


def summed(nbytes=BATCH * FEATURES * 4):
    """Bytes a second that TensorFlow sums of batches of this process's own memory."""
    import numpy as np
    import tensorflow as tf

    batches = [tf.constant(np.ones([BATCH, FEATURES], np.float32)) for _ in range(200)]
    begin = time.perf_counter()
    for features in batches:
        tf.reduce_sum(tf.bitcast(tf.reshape(features, [-1, 2]), tf.int64))
    return len(batches) * nbytes / (time.perf_counter() - begin)


_SENDER = """
import socket, sys
sender = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
block = bytearray(1 << 20)
for _ in range(int(sys.argv[2])):
    sender.sendall(block)
sender.close()
"""


def through_socket(mebibytes=800):
    """Bytes a second of a bare loopback connection between two processes, received into memory."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen([sys.executable, "-c", _SENDER, str(port), str(mebibytes)])
        connection, _ = listener.accept()
        buffer = bytearray(1 << 20)
        total = connection.recv_into(buffer)
        begin = time.perf_counter()
        while received := connection.recv_into(buffer):
            total += received
        seconds = time.perf_counter() - begin
        process.wait()
    return total / seconds


def overhead(dataset, rig):
    """CPU microseconds of this process for each batch whose bytes nobody looks at, without what
    its thread for sockets takes: batches that are there already."""
    before = rig.server.counters()["items"]
    rig.feed(BATCH * 64)
    while rig.server.counters()["items"] < BATCH * 64 + before:
        time.sleep(0.01)
    iterator = iter(dataset)
    next(iterator)
    begin = time.process_time()
    count = sum(1 for _ in iterator)
    return (time.process_time() - begin) / count * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    from tfos.dataset import make_dataset

    rig = Rig()
    rig.feed(BATCH)
    dataset = make_dataset(rig.source, BATCH, features="features", label="label",
                           drop_remainder=True, remainder="join", ragged=(), spec=None)
    read(dataset, False)

    def passes(touch, **how):
        rates = []
        for _ in range(options.repeat):
            rig.feed(ROWS, **how)
            seconds, total = read(dataset, touch)
            rates.append(total / seconds)
            for _ in range(how.get("replays", 0)):
                read(dataset, touch)
        return statistics.median(rates)

    def replayed():
        rates = []
        for _ in range(options.repeat):
            rig.feed(ROWS, replays=EPOCHS_CACHED)
            read(dataset, True)
            replays = [read(dataset, True) for _ in range(EPOCHS_CACHED)]
            rates += [total / seconds for seconds, total in replays]
        return statistics.median(rates)

    memcpy = statistics.median(copied() for _ in range(options.repeat))
    own = statistics.median(summed() for _ in range(options.repeat))
    bare = statistics.median(through_socket() for _ in range(options.repeat))
    lines = ["| | rate | rival | ratio | to reach |", "|---|---|---|---|---|"]

    def line(what, rate, rival, rival_name, target):
        lines.append(f"| {what} | {rate / _GIGABYTE:.2f} GB/s | {rival_name}: "
                     f"{rival / _GIGABYTE:.2f} GB/s | **{rate / rival:.2f}** | {target} |")
        print(lines[-1], flush=True)

    line("shared memory to tensors, touched", passes(True), own, "the same sum of own memory", 0.8)
    line("cached epochs, touched", replayed(), memcpy, "memcpy", 0.7)
    line("over loopback TCP", passes(False, remote=True), bare, "a bare socket", 0.7)
    costs = []
    for _ in range(options.repeat):
        costs.append(overhead(dataset, rig))
    lines.append(f"| a batch of {BATCH * FEATURES * 4 // 1024} KiB that nobody looks at | "
                 f"{statistics.median(costs):.0f} us of CPU | | | 60 us |")
    print(lines[-1], flush=True)
    rig.close()
    report.publish("channels.py", options.repeat, "Medians.", lines, options.output)


if __name__ == "__main__":
    main()
