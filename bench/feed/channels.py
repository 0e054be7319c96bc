"""From a feeder to tensors, without Spark: shared memory against memcpy, TCP against a bare socket,
TLS against TCP.

    python bench/feed/channels.py [--repeat 5] [--samples FILE] [--output docs/performance.md]

A second process feeds Arrow record batches (float32[784] and int32) to a node in this one. It
reads them as `ctx.dataset` does, a chunk of 1 MiB at a time, in a graph (as `model.fit` does), and
copies each batch. The rival is the same loop over as many batches of this process's own memory; a
single one, copied again and again, would never leave the cache. One thread copies. Rates are those
of the batches: what TensorFlow does when a pass begins is not timed. Each measurement follows one
of its rival, and the ratio is that of the two.
"""

import argparse
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import report

FEATURES = 784
#: Rows of a batch, and of a chunk: 1 MiB of features.
BATCH = 334
BATCH_BYTES = BATCH * FEATURES * 4
#: The batches of a pass.
BATCHES = 1000
#: Batches that are taken before the clock is started.
WARM_UP = 10
#: Regions that are full before anybody reads, and the chunks in each.
REGIONS = 7
CHUNKS = 30
REGION_BYTES = 32 << 20
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
    partition = job.pop("partition")
    writer = _native.FeedWriter(json.dumps(job), "", partition, 0, "train")
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

        self.key = secrets.token_hex(32)
        self.server = _native.FeedServer(
            node_id=0,
            cluster_id="bench",
            key_hex=self.key,
            queues=["input"],
            memory_bytes=256 << 20,
            cache_memory_bytes=4 << 30,
            cache_directory="/tmp",
            bind_address="127.0.0.1",
            ports="0",
            encrypt="auto",
            pickle=True,
        )
        self.source = self.server.batch_source("input")
        self.process = subprocess.Popen(
            [sys.executable, "-c", _FEEDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.epoch = 0

    def feed(self, batches, remote=False, encrypt=False, replays=0, partitions=1):
        """Feeds an epoch, which each partition brings so many batches of, in the background.
        Returns the thread, which ends when all is fed."""
        endpoint = {
            "node_id": 0,
            "address": "127.0.0.1",
            "executor_id": "",
            **self.server.endpoint(),
        }
        if remote:
            endpoint["socket"] = ""
        first = self.epoch
        self.epoch += 1 + replays
        job = {
            "rows": batches * BATCH,
            "endpoints": [endpoint],
            "feed_key": self.key,
            "ask_key": self.key,
            "encrypt": "true" if encrypt else "auto",
            "pickle": True,
            "job_id": "6a" * 16,
            "epoch": first,
            "queue": "input",
            "timeout": 60.0,
            "answer_timeout": 0,
            "region_bytes": REGION_BYTES,
            "cache": "memory" if replays else "",
            "replays": replays,
            "shuffle_seed": 0,
            "check_retries": True,
            "until_read": False,
            "bears_losses": False,
            "repeats": False,
            "trained": {},
        }

        def run():
            for partition in range(partitions):
                self.process.stdin.write(json.dumps({**job, "partition": partition}) + "\n")
                self.process.stdin.flush()
                assert self.process.stdout.readline() == "done\n"
            self.server.end_epoch("input", self.epoch - 1)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.source.close()
        self.server.close()


def make_loops():
    """Take so many batches from an iterator in a graph, and copy each, or not."""
    import tensorflow as tf

    @tf.function
    def copy(iterator, batches):
        for _ in tf.range(batches):
            features, _ = next(iterator)
            tf.raw_ops.DeepCopy(x=features)  # stateful: it is not left out

    @tf.function
    def take(iterator, batches):
        for _ in tf.range(batches):
            next(iterator)

    return copy, take


class Measured(NamedTuple):
    #: Bytes a second.
    rate: float
    #: CPU microseconds of this process for each batch.
    cpu: float = 0


def timed(loop, dataset, batches=BATCHES):
    """Measures a pass over the dataset, which has so many batches."""
    iterator = iter(dataset)
    loop(iterator, WARM_UP)
    batches -= WARM_UP
    begin, used = time.perf_counter(), time.process_time()
    loop(iterator, batches)
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    for _ in iterator:  # to its end
        raise AssertionError("there is a batch more")
    return Measured(batches * BATCH_BYTES / seconds, used / batches * 1e6)


def own_memory(batches):
    """A dataset of so many batches that this process holds, and of as many as a pass has."""
    import tensorflow as tf

    values = (tf.fill([batches, BATCH, FEATURES], 1.0), tf.zeros([batches, BATCH], tf.int32))
    return tf.data.Dataset.from_tensor_slices(values).repeat().take(BATCHES)


_SENDER = """
import socket, sys
sender = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
block = memoryview(bytearray(3 << 20))
for i in range(int(sys.argv[2])):
    begin = (i % 3) << 20
    sender.sendall(block[begin : begin + (1 << 20)])
sender.close()
"""


def through_socket(mebibytes=BATCHES):
    """A bare loopback connection between two processes: from as much memory as the feeder's rows
    have into as much as its region has."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen([sys.executable, "-c", _SENDER, str(port), str(mebibytes)])
        connection, _ = listener.accept()
        room = memoryview(bytearray(REGION_BYTES))
        total, at = connection.recv_into(room), 0
        begin = time.perf_counter()
        while received := connection.recv_into(room[at : at + (1 << 20)]):
            total += received
            at = (at + received) % len(room)
        seconds = time.perf_counter() - begin
        process.wait()
    return Measured(total / seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--samples", type=pathlib.Path, help="a file for the rates, as JSON lines")
    options = parser.parse_args()
    from tfos.cluster.launch import NODE_MALLOC

    if not NODE_MALLOC.items() <= os.environ.items():  # read when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **NODE_MALLOC})
    import tensorflow as tf

    from tfos.feed.columns import Request
    from tfos.feed.dataset import make_dataset

    tf.config.threading.set_intra_op_parallelism_threads(1)
    rig = Rig()
    copy, take = make_loops()
    rig.feed(WARM_UP + 1)
    request = Request(BATCH, features="features", label="label", drop_remainder=True)
    dataset = make_dataset(rig.source, request)
    own, own_few = own_memory(BATCHES), own_memory(REGIONS * CHUNKS)
    timed(take, dataset, WARM_UP + 1)
    for loop in (copy, take):  # traced here
        timed(loop, own)

    def fed(loop, **how):
        rig.feed(BATCHES, **how)
        return timed(loop, dataset)

    def lying_there():
        rig.feed(CHUNKS, partitions=REGIONS).join()
        return timed(copy, dataset, REGIONS * CHUNKS)

    def cached(loop):
        fed(take, replays=1)
        return timed(loop, dataset)

    samples = []
    lines = ["| | rate | rival | ratio | to reach |", "|---|---|---|---|---|"]

    def pairs(measure, rival):
        measure()  # warm
        return [(measure(), rival()) for _ in range(options.repeat)]

    def line(what, measure, rival, rival_name, target):
        measured = pairs(measure, rival)
        rate, of_rival = (
            statistics.median(m.rate for m in side) / _GIGABYTE for side in zip(*measured)
        )
        samples.append(json.dumps({"what": what, "rate": rate * _GIGABYTE}) + "\n")
        ratios = [ours.rate / theirs.rate for ours, theirs in measured]
        lines.append(
            f"| {what} | {rate:.2f} GB/s | {rival_name}: {of_rival:.2f} GB/s | "
            f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to "
            f"{max(ratios):.2f}) | {target} |"
        )
        print(lines[-1], flush=True)

    line(
        "chunks that lie in shared memory, copied",
        lying_there,
        lambda: timed(copy, own_few),
        "own memory",
        0.8,
    )
    line(
        "the same while the feeder writes them",
        lambda: fed(copy),
        lambda: timed(copy, own),
        "own memory, nobody writes",
        "",
    )
    line("cached epochs, copied", lambda: cached(copy), lambda: timed(copy, own), "own memory", 0.7)
    line("over loopback TCP", lambda: fed(take, remote=True), through_socket, "a bare socket", 0.7)
    line(
        "the same with TLS",
        lambda: fed(take, remote=True, encrypt=True),
        lambda: fed(take, remote=True),
        "plain TCP",
        0.5,
    )
    used = pairs(lambda: cached(take), lambda: timed(take, own))
    ours, theirs = (statistics.median(m.cpu for m in side) for side in zip(*used))
    lines.append(
        f"| a batch of 1 MiB that nobody looks at | {ours:.0f} us of CPU | own memory: "
        f"{theirs:.0f} us | | 60 us |"
    )
    print(lines[-1], flush=True)
    rig.close()
    if options.samples:
        options.samples.write_text("".join(samples))
    report.publish(
        "channels.py",
        options.repeat,
        "Medians; ratios with minimum and maximum.",
        lines,
        options.output,
    )


if __name__ == "__main__":
    main()
