"""Programs that the cluster tests run in nodes. Kept in a module of its own, which nodes import,
as a user's would be."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import subprocess
import time


def collect_rows(ctx):
    """Reads the feed to its end and pickles the rows seen, in order."""
    rows = []
    while not ctx.feed.should_stop():
        rows += ctx.feed.next_batch(ctx.args["batch"])
    path = pathlib.Path(ctx.args["dir"], f"rows-{ctx.node_id}")
    path.with_suffix(".part").write_bytes(pickle.dumps(rows))
    path.with_suffix(".part").rename(path)


def echo(ctx):
    """Answers each row with (node, row)."""
    feed = ctx.data_feed(train=False)
    while not feed.should_stop():
        feed.batch_results([(ctx.node_id, row) for row in feed.next_batch(ctx.args["batch"])])


def fail_at_once(ctx):
    raise ValueError(f"broken on purpose in node {ctx.node_id}")


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
    path = pathlib.Path(ctx.args["dir"], f"pids-{ctx.node_id}")
    part = path.with_suffix(".part")
    part.write_text(" ".join(map(str, (os.getpid(), *others))))
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
