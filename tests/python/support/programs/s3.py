"""A program whose data, checkpoints and model are on s3a://; in a module that nodes can import."""

from __future__ import annotations

import os
import signal

import numpy as np
import pyarrow as pa

from support.programs.checkpoints import after_batch, wait_for_checkpoint, wait_for_writer

ROWS, EPOCHS = 96, 3
#: When all nodes are killed, and there is such a checkpoint.
MOMENT = (1, 2)
SCHEMA = pa.schema([("x", pa.list_(pa.float32(), 2)), ("y", pa.float32())])


def train(ctx):
    """``ctx.args``: the directory, and whether all nodes die at a moment of it."""
    directory, dies = ctx.args
    import keras

    def die(model):
        wait_for_checkpoint(f"{directory}/run", *MOMENT)
        os.kill(os.getpid(), signal.SIGKILL)

    dataset = ctx.tfrecords(f"{directory}/records", SCHEMA, 16).map(
        lambda columns: (columns["x"], columns["y"])
    )
    model = keras.Sequential([keras.layers.Input((2,), name="x"), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.Adam(0.05)), "mse")
    checkpoints = ctx.checkpoint(f"{directory}/run", every_seconds=0, keep=2)
    history = model.fit(
        dataset,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[
            checkpoints,
            wait_for_writer(checkpoints),
            *([after_batch(*MOMENT, die)] if dies else []),
        ],
    )
    if ctx.is_chief:
        model.export(f"{directory}/model")
        model.save(f"{directory}/model.keras")
        loaded = keras.saving.load_model(f"{directory}/model.keras", compile=False)
        for one, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
            assert np.array_equal(one, other)
    return history.epoch
