"""Programs that the cluster tests run in nodes. Kept in a module of its own, which nodes import,
as a user's would be."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time


def collect_rows(ctx):
    """Reads the feed to its end and pickles the rows seen, in order."""
    _collect(ctx, [])


def collect_rows_and_say_when_fed(ctx):
    """The same; a file `fed` is there as soon as the first row is."""
    rows = ctx.feed.next_batch(1)
    pathlib.Path(ctx.args["dir"], "fed").touch()
    _collect(ctx, rows)


def _collect(ctx, rows):
    while not ctx.feed.should_stop():
        rows += ctx.feed.next_batch(ctx.args["batch"])
    path = pathlib.Path(ctx.args["dir"], f"rows-{ctx.node_id}")
    path.with_suffix(".part").write_bytes(pickle.dumps(rows))
    path.with_suffix(".part").rename(path)


def store_each_row(ctx):
    """Pickles each row into a file of its own, row-0, row-1, ..., as soon as it has it."""
    number = 0
    while not ctx.feed.should_stop():
        for row in ctx.feed.next_batch(1):
            path = pathlib.Path(ctx.args["dir"], f"row-{number}")
            path.with_suffix(".part").write_bytes(pickle.dumps(row))
            path.with_suffix(".part").rename(path)
            number += 1


def echo(ctx):
    """Answers each row with (node, row)."""
    feed = ctx.data_feed(train=False)
    while not feed.should_stop():
        feed.batch_results([(ctx.node_id, row) for row in feed.next_batch(ctx.args["batch"])])


def fail_at_once(ctx):
    raise ValueError(f"broken on purpose in node {ctx.node_id}")


def fail_with_a_name_that_is_no_text(ctx):
    raise ValueError("can't read " + os.fsdecode(b"/data/caf\xe9"))


def fail_with_a_long_text(ctx):
    raise ValueError("begin" + "x" * (5 << 20) + "end")


def fail_with_closed_streams(ctx):
    sys.stderr.close()
    sys.stdout.close()
    raise ValueError("nothing to print to")


def write_environment(ctx):
    """Writes the environment as it is, as null-terminated bytes."""
    path = pathlib.Path(ctx.args["dir"], f"environment-{ctx.node_id}")
    path.write_bytes(b"".join(k + b"=" + v + b"\0" for k, v in os.environb.items()))


def fail_after_first_batch(ctx):
    feed = ctx.data_feed(train=ctx.args["train"])
    feed.next_batch(1)
    raise ValueError("broken while reading")


def fail_after_the_feed(ctx):
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(100)
    raise OSError("broken while exporting")


def take_one_batch_and_stop(ctx):
    ctx.feed.next_batch(10)
    ctx.feed.terminate()


def return_at_once(ctx):
    return None


def read_slowly_with_a_child(ctx):
    """Starts a child process of its own, says its pids, and reads one row at a time for ever."""
    child = subprocess.Popen(["sleep", "1000"])
    say_pids(ctx, child.pid)
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(1)
        time.sleep(0.01)


class HangsWhileLoading:
    """A program that its node never gets to call, as when an import of it hangs. The node says its
    pid."""

    def __init__(self, directory):
        self.directory = directory

    def __reduce__(self):
        return hang_while_loading, (self.directory,)


def hang_while_loading(directory):
    write_pids(directory, os.getpid(), os.getpid())
    signal.pause()


def wait_for_ever_with_a_child(ctx):
    child = subprocess.Popen(["sleep", "1000"])
    say_pids(ctx, child.pid)
    signal.pause()


def ignore_stop(ctx):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say_pids(ctx)
    signal.pause()
    while True:
        signal.pause()


def say_pids(ctx, *others):
    write_pids(ctx.args["dir"], ctx.node_id, os.getpid(), *others)


def write_pids(directory, name, *pids):
    path = pathlib.Path(directory, f"pids-{name}")
    part = path.with_suffix(".part")
    part.write_text(" ".join(map(str, pids)))
    part.rename(path)


def leave_a_row_unanswered(ctx):
    """Answers all rows of a partition but one, and returns."""
    feed = ctx.data_feed(train=False)
    feed.batch_results(feed.next_batch(100)[1:])


def fit_dataset(ctx):
    """Trains on the feed for one pass and notes the rows and steps that it took."""
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    spec = [tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.float32)]
    model.fit(ctx.dataset(8, spec=spec), verbose=0)
    steps = int(model.optimizer.iterations)
    rows = ctx.feed_source.server.counters()["rows"]
    pathlib.Path(ctx.args["dir"], f"fit-{ctx.node_id}").write_bytes(pickle.dumps((rows, steps)))


def read_passes(ctx):
    """Reads passes over the dataset of each queue in turn, and stores the labels of every batch as
    JSON. Padding is left out."""
    import tensorflow as tf

    args = ctx.args
    spec = None
    if args.get("spec"):
        spec = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.int64)}
    datasets = [ctx.dataset(args["batch"], queue=queue, remainder=args.get("remainder", "join"),
                            spec=spec)
                for queue in args["queues"]]
    passes = []
    for _ in range(args["passes"]):
        for dataset in datasets:
            passes.append([])
            for element in dataset:
                labels, mask = (element[0][1], element[1]) if (
                    args.get("remainder") == "pad") else (element[1], None)
                labels = labels.numpy()
                if mask is not None:
                    assert len(labels) == args["batch"]
                    labels = labels[mask.numpy() > 0]
                passes[-1].append(labels.tolist())
    path = pathlib.Path(ctx.args["dir"], f"passes-{ctx.node_id}")
    path.write_text(json.dumps(passes))
