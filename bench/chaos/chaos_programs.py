"""What the nodes of bench/chaos run. Each says which rows it has read: a line for each batch, in a
file of its process. They pause after each batch, so that failures come in the middle."""

from __future__ import annotations

import os
import pathlib
import time


class Notes:
    """The file of this process. Owner: the program. Threads: any, one write for each line."""

    def __init__(self, ctx):
        self._pause = ctx.args["pause"]
        path = pathlib.Path(ctx.args["directory"], f"node-{ctx.node_id}-{os.getpid()}")
        self._file = open(path, "w")

    def epoch(self, number):
        print(f"epoch {number}", file=self._file, flush=True)

    def rows(self, ids):
        print(*ids, file=self._file, flush=True)
        time.sleep(self._pause)


def _fit(ctx, notes, dataset):
    import tensorflow as tf

    import keras

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            notes.epoch(epoch)

    def note(ids):
        notes.rows(ids.numpy())
        return ids

    def noted(ids):
        ids = tf.py_function(note, [ids], tf.int64)
        ids.set_shape([None])
        x = tf.cast(ids % 1000, tf.float32)[:, None] / 1000
        return x, 3 * x

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")
    model.fit(dataset.map(noted), epochs=ctx.args["epochs"], verbose=0, callbacks=[Watch()])
    weights = str([weight.tolist() for weight in model.get_weights()])
    pathlib.Path(ctx.args["directory"], f"weights-{ctx.node_id}-{os.getpid()}").write_text(weights)


def fed(ctx):
    """All train one model in step, with rows of Spark."""
    _fit(ctx, Notes(ctx), ctx.dataset(ctx.args["batch"]))


def reading(ctx):
    """All train one model in step, and each reads rows of its own."""
    import tensorflow as tf

    first = ctx.rank * ctx.args["rows"]
    rows = tf.data.Dataset.range(first, first + ctx.args["rows"]).batch(ctx.args["batch"])
    _fit(ctx, Notes(ctx), rows)


def asynchronous(ctx):
    """Each counts its rows in a variable of the parameter servers."""
    import numpy as np

    notes = Notes(ctx)
    count = [np.zeros(1, np.float32)]
    with ctx.parameter_server(count) as server:
        while not ctx.feed.should_stop():
            if rows := ctx.feed.next_batch(ctx.args["batch"]):
                notes.rows(rows)
                count[0] += len(rows)
                server.step()


def counting(ctx):
    """Each reads its rows."""
    notes = Notes(ctx)
    while not ctx.feed.should_stop():
        if rows := ctx.feed.next_batch(ctx.args["batch"]):
            notes.rows(rows)


def following(ctx):
    """Each reads its rows of a stream of DataFrames."""
    notes = Notes(ctx)
    while not ctx.feed.should_stop():
        if rows := ctx.feed.next_batch(ctx.args["batch"]):
            notes.rows([row.id for row in rows])


def answering(ctx):
    """Each answers rows with their doubles."""
    notes = Notes(ctx)
    while not ctx.feed.should_stop():
        if rows := ctx.feed.next_batch(ctx.args["batch"]):
            notes.rows(rows)
            ctx.feed.batch_results([2 * row for row in rows])


def ids_in_epochs(directory):
    """{(node, pid): {epoch: [ids]}}; epoch 0 where a program knows of none. A line that a process
    has not written to its end does not count."""
    found = {}
    for path in pathlib.Path(directory).glob("node-*"):
        _, node, pid = path.name.split("-")
        epochs = found[int(node), int(pid)] = {}
        number = 0
        for line in path.read_text().splitlines(keepends=True):
            if line.startswith("epoch") and line.endswith("\n"):
                number = int(line.split()[1])
            elif line.endswith("\n"):
                epochs.setdefault(number, []).extend(map(int, line.split()))
    return found
