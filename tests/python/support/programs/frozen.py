"""Programs of test_frozen.py whose process stops, as SIGSTOP and debuggers do it, or only looks so."""

import ctypes
import os
import pathlib
import signal
import threading
import time

BATCH = 50


def freeze_after(ctx, batches):
    """Stops the victim's process; with `waits` once the test has seen how far it is."""
    if ctx.node_id == ctx.args["victim"] and batches == ctx.args["batches"]:
        ctx.report(epoch=1, step=batches)
        while ctx.args["waits"] and not os.path.exists(ctx.args["dir"] + "/may-freeze"):
            time.sleep(0.01)
        freeze(ctx)


def freeze(ctx):
    marker = pathlib.Path(ctx.args["dir"], "frozen")
    if not marker.exists():
        marker.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)


def keep(ctx, rows):
    """Writes the rows down before the node can stop."""
    with open(pathlib.Path(ctx.args["dir"], f"rows-{ctx.node_id}"), "a") as file:
        file.writelines(f"{row}\n" for row in rows)


def feeding(ctx):
    batches = 0
    while not ctx.feed.should_stop():
        keep(ctx, ctx.feed.next_batch(BATCH))
        freeze_after(ctx, batches := batches + 1)


def inference(ctx):
    batches = 0
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(BATCH)
        freeze_after(ctx, batches := batches + 1)
        ctx.feed.batch_results(rows)


def shutdown(ctx):
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(BATCH)
    if ctx.node_id == ctx.args["victim"]:
        freeze(ctx)


def all_reduce(ctx):
    import tensorflow as tf

    from tfos import collective

    for step in range(1_000_000):
        collective.all_reduce(tf.ones([1000]))
        freeze_after(ctx, step)


def fit(ctx):
    import keras

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.01)), "mse")

    class FreezeInTheMiddle(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            freeze_after(ctx, batch)

    dataset = ctx.dataset(BATCH, remainder="drop").map(lambda row: (row[:, :4], row[:, 4:]))
    model.fit(dataset, epochs=ctx.args["epochs"], verbose=0, callbacks=[FreezeInTheMiddle()])


def push_for_ever(ctx):
    import numpy as np

    values = [np.zeros(4, np.float32)]
    with ctx.parameter_server(values) as server:
        pathlib.Path(ctx.args["dir"], "pushes").touch()
        while True:
            values[0] += 1
            server.step()


def hold_the_interpreter(ctx):
    """Computes with Python's lock held, for far longer than a node may be silent."""
    ctx.feed.next_batch(1)
    ctypes.PyDLL(None).sleep(ctx.args["seconds"])
    while not ctx.feed.should_stop():
        keep(ctx, ctx.feed.next_batch(BATCH))


def run_for_ever(ctx):
    pathlib.Path(ctx.args["dir"], "runs").touch()
    while True:
        time.sleep(0.1)


def hang_after_some_steps(ctx):
    """The victim, whose process answers all the time. Others go on until the test has seen that."""
    for step in range(1, 1_000_000):
        ctx.report(step=step)
        if ctx.node_id == ctx.args["victim"] and step == 3:
            wait_for_what_never_comes()
        if pathlib.Path(ctx.args["dir"], "may-end").exists():
            return
        time.sleep(0.05)


def wait_for_what_never_comes():
    threading.Event().wait()


def stay_after_the_feed(ctx):
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(BATCH)
    run_for_ever(ctx)
