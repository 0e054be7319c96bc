#!/usr/bin/env python3
"""Restart after a kill: a node dies in the middle of the training, and the next cluster goes on.

    python examples/restart.py [--epochs N] [--directory DIR] [--kill-in EPOCH]

The program keeps checkpoints. When a node is lost, the cluster ends with an error that names it.
The driver then starts another cluster with the same program, which goes on from the newest
checkpoint (resume=), and is fed the epochs that are left. Here a node kills itself once
(--kill-in).
"""

import argparse
import os
import signal
import sys
import tempfile

import tfos
from tfos.errors import NodeFailedError
from tfos.examples import digits, spark_session

MOST_RESTARTS = 3


def train(ctx):
    """Runs in every node."""
    import tensorflow as tf

    import keras

    args = ctx.args
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Input((args.pixels,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        ctx.distribute(keras.optimizers.Adam(args.learning_rate)),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )

    class Accident(keras.callbacks.Callback):
        """Ends one node as a lack of memory or a lost host would, in the first cluster alone."""

        def on_epoch_begin(self, epoch, logs=None):
            if epoch + 1 == args.kill_in and args.is_first and not ctx.is_chief:
                os.kill(os.getpid(), signal.SIGKILL)

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(epoch=epoch + 1, **logs)

    # Without rows, as where all epochs are done, nothing else says what the columns are.
    spec = {
        "pixels": tf.TensorSpec([args.pixels], tf.float32),
        "label": tf.TensorSpec([], tf.int32),
    }
    model.fit(
        ctx.dataset(32, features="pixels", label="label", spec=spec),
        epochs=args.epochs,
        callbacks=[
            ctx.average_metrics(),
            Report(),
            Accident(),
            ctx.checkpoint(keep=2),
        ],
        verbose=0,
    )
    if ctx.is_chief:
        model.save(args.model)


def run(spark, args, rows):
    """Trains all epochs, in as many clusters as it takes. Returns how many were needed."""
    for clusters in range(1, MOST_RESTARTS + 2):
        kept = tfos.last_checkpoint(args.checkpoints)
        done = kept.epoch if kept else 0
        args.is_first = clusters == 1
        print(f"Cluster {clusters}: {done} of {args.epochs} epochs are done", flush=True)
        try:
            with tfos.run(spark, train, nodes=2, args=args, resume=args.checkpoints) as cluster:
                cluster.train(rows, epochs=args.epochs)  # If all are done, nodes save the model.
            break
        except NodeFailedError as error:
            if clusters > MOST_RESTARTS:
                raise
            print(f"Lost a node: {str(error).splitlines()[0]}", flush=True)
    return clusters


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.003)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--kill-in", type=int, default=4, help="epoch; 0: no accident (default 4)")
    parser.add_argument("--min-accuracy", type=float, default=0.9)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-restart-")
    args.checkpoints = os.path.join(args.directory, "checkpoints")
    args.model = os.path.join(args.directory, "model.keras")
    train_rows, test_rows = digits.load(args.mnist)
    args.pixels = len(train_rows[0][0])

    with spark_session.session("restart", args.master) as spark:
        rows = (
            spark.createDataFrame(train_rows, "pixels array<float>, label int")
            .repartition(4)
            .cache()
        )
        clusters = run(spark, args, rows)

    import numpy as np

    import keras
    from tfos import tensorflow  # noqa: F401  (hdfs:// in the driver; nodes have it)

    pixels, labels = (np.array(column) for column in zip(*test_rows, strict=True))
    model = keras.saving.load_model(args.model)
    accuracy = np.mean(np.argmax(model.predict(pixels, verbose=0), axis=1) == labels)
    steps = int(model.optimizer.iterations)
    print(f"{args.epochs} epochs in {clusters} clusters, {steps} steps, accuracy {accuracy:.2%}")
    print(f"The model is {args.model}")
    if args.kill_in and clusters == 1:
        print("No node was lost", file=sys.stderr)
        return 1
    return 0 if accuracy >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
