#!/usr/bin/env python3
"""One Keras 3 model on two nodes with the JAX backend: `ctx.batches` and `keras.distribution`.

    python examples/jax_digits.py [--epochs N] [--directory DIR]

Needs `pip install jax`; nodes need no TensorFlow. JAX's own collectives average the gradients. The
variables that it and Keras read are set in each node. The model is kept.
"""

import argparse
import os
import tempfile

import tfos
from tfos.examples import digits, spark_session


def train(ctx):
    """Runs in every node, which reads batches of its own rows."""
    import keras

    keras.distribution.initialize()
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

    class Report(keras.callbacks.Callback):
        """Shows in the driver how far this node is."""

        def on_epoch_end(self, epoch, logs=None):
            ctx.report(step=int(model.optimizer.iterations), **logs)

    rows = ctx.batches(32, features="pixels", label="label", remainder="drop")
    model.fit(rows, epochs=ctx.args["epochs"], callbacks=[Report()], verbose=0)
    if ctx.is_chief:
        # Else Keras would wait for the other nodes while it saves.
        keras.distribution.set_distribution(None)
        if ":/" not in ctx.args["model"]:
            os.makedirs(os.path.dirname(ctx.args["model"]), exist_ok=True)
        model.save(ctx.args["model"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--epochs", type=int, default=12)
    spark_session.add_directory_argument(parser)
    options = parser.parse_args()
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-jax-digits-")
    arguments = {"epochs": options.epochs, "model": f"{directory}/model.keras"}

    with spark_session.session("jax-digits", options.master) as spark:
        known, _ = digits.load()
        data = spark.createDataFrame(known, "pixels array<float>, label int").repartition(4).cache()
        with tfos.run(spark, train, nodes=2, keras_backend="jax", args=arguments) as cluster:
            cluster.train(data, epochs=options.epochs, shuffle=True)
        accuracies = [node.metrics["accuracy"] for node in cluster.status()]
        steps = [node.metrics["step"] for node in cluster.status()]
        print(f"steps of the nodes: {steps}, accuracy {min(accuracies):.2%}")
        print(f"The model is {directory}/model.keras")
    return 0 if min(accuracies) > 0.9 and len(set(steps)) == 1 else 1


if __name__ == "__main__":
    raise SystemExit(main())
