"""Programs whose cluster is in a run of MLflow."""

from __future__ import annotations

import os
import pathlib


def model_of(learning_rate, distribute=lambda optimizer: optimizer):
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [keras.layers.Input((2,), name="x"), keras.layers.Dense(1, name="line")]
    )
    model.compile(distribute(keras.optimizers.SGD(learning_rate)), "mse", metrics=["mae"])
    return model


def train(ctx):
    """One line of it knows of MLflow, and that on a worker."""
    train_without_mlflow(ctx)
    if ctx.rank == 1:
        import mlflow

        mlflow.log_metric("of_a_worker", ctx.rank)


def train_without_mlflow(ctx):
    model = model_of(ctx.args["learning_rate"], ctx.distribute)
    history = model.fit(
        ctx.dataset(32, features="x", label="y"),
        epochs=ctx.args["epochs"],
        initial_epoch=ctx.args.get("initial_epoch", 0),
        callbacks=[ctx.average_metrics()],
        verbose=0,
    )
    if ctx.is_chief and "out" in ctx.args:
        pathlib.Path(ctx.args["out"]).write_text(
            f"{history.history['loss'][-1]!r} {os.environ.get('MLFLOW_TRACKING_PASSWORD')}"
        )
