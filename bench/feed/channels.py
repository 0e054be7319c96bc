"""From a feeder to tensors, without Spark: shared memory against memcpy, TCP against a bare socket.

    python bench/feed/channels.py [--repeat 5] [--output docs/performance.md]

A second process feeds Arrow record batches (float32[784] and int32) to a node in this one, which
reads them as `ctx.dataset` does, a chunk of 1 MiB at a time, in a graph (as `model.fit` does), and
copies each batch. Its rival is the same loop over one tensor of this process's own memory. The
feeder copies as much at the same time, from Arrow into the shared memory.
"""

import argparse
import json
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import threading
import time

import report

FEATURES = 784
#: Rows of a batch, and of a chunk: 1 MiB of features.
BATCH = 334
BATCHES = 2000
BATCH_BYTES = BATCH * FEATURES * 4
_GIGABYTE = 1e9

_FEEDER = """
import json, sys, numpy as np, pyarrow as pa
from tfos import _native
for line in sys.stdin:
    job = json.loads(line)
    rows = job.pop("rows")
    values = pa.array(np.arange(1002 * 784, dtype=np.float32))
    batch = pa.RecordBatch.from_arrays(
        [pa.FixedSizeListArray.from_arrays(values, 784), pa.array(np.arange(1002, dtype=np.int32))],
        ["features", "label"])
    writer = _native.FeedWriter(job_id=b"j" * 16, **job)
    fed = 0
    while fed < rows:
        begin = fed % 1002
        end = min(begin + 334, 1002, begin + rows - fed)
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


def make_loops():
    """Passes over a dataset in a graph, which copy each batch, or only count them."""
    import tensorflow as tf

    @tf.function
    def copy(dataset):
        count = tf.constant(0)
        for features, _ in dataset:
            tf.raw_ops.DeepCopy(x=features)  # stateful: it is not left out
            count += 1
        return count

    @tf.function
    def count(dataset):
        batches = tf.constant(0)
        for _ in dataset:
            batches += 1
        return batches

    return copy, count


def timed(loop, dataset):
    """Bytes a second, and CPU microseconds of this process for each batch."""
    begin, used = time.perf_counter(), time.process_time()
    batches = int(loop(dataset))
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    return batches * BATCH_BYTES / seconds, used / batches * 1e6


def own_memory():
    """A dataset of a batch that this process holds, again and again."""
    import tensorflow as tf

    batch = (tf.zeros([BATCH, FEATURES]), tf.zeros([BATCH], tf.int32))
    return tf.data.Dataset.from_tensors(batch).repeat(BATCHES)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    from tfos.dataset import make_dataset

    rig = Rig()
    copy, count = make_loops()

    def median(measure):
        return statistics.median(measure() for _ in range(options.repeat))

    rig.feed(BATCH)
    dataset = make_dataset(rig.source, BATCH, features="features", label="label",
                           drop_remainder=True, remainder="join", ragged=(), spec=None)
    for loop in (copy, count):  # traced here
        loop(dataset)
        rig.feed(BATCH)
    loop(dataset)

    def fed(loop, **how):
        rig.feed(BATCH * BATCHES, **how)
        return timed(loop, dataset)

    def cached(loop):
        fed(count, replays=1)
        return timed(loop, dataset)

    own = own_memory()
    copy(own)
    rival = median(lambda: timed(copy, own)[0])
    lines = ["| | rate | rival | ratio | to reach |", "|---|---|---|---|---|"]

    def line(what, rate, rival, rival_name, target):
        lines.append(f"| {what} | {rate / _GIGABYTE:.2f} GB/s | {rival_name}: "
                     f"{rival / _GIGABYTE:.2f} GB/s | **{rate / rival:.2f}** | {target} |")
        print(lines[-1], flush=True)

    line("shared memory to tensors", median(lambda: fed(copy)[0]), rival, "own memory", 0.8)
    line("cached epochs", median(lambda: cached(copy)[0]), rival, "own memory", 0.7)
    line("over loopback TCP", median(lambda: fed(count, remote=True)[0]), median(through_socket),
         "a bare socket", 0.7)
    lines.append(f"| a batch of 1 MiB that nobody looks at | "
                 f"{median(lambda: cached(count)[1]):.0f} us of CPU | | | 60 us |")
    print(lines[-1], flush=True)
    rig.close()
    report.publish("channels.py", options.repeat, "Medians.", lines, options.output)


if __name__ == "__main__":
    main()
