#!/usr/bin/env python3
"""Handwritten digits, from an RDD: trains a convolutional network on the nodes of a cluster,
exports it, and has a second cluster recognise digits that it has never seen.

    python examples/mnist_spark.py [--mnist DIRECTORY] [--epochs N] [--nodes N]

The model is Keras 3's, and trains as on one machine except for `ctx.distribute`: the nodes average
their gradients in every step. Spark feeds them the rows.
"""

import argparse
import datetime
import os
import sys
import tempfile

import tfos
from tfos.examples import digits, spark_session


def train(ctx):
    """Runs in every node of the first cluster."""
    import keras

    args = ctx.args
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((args.side**2,)),
            layers.Reshape((args.side, args.side, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        ctx.distribute(keras.optimizers.Adam(args.learning_rate)), "sparse_categorical_crossentropy"
    )

    class Report(keras.callbacks.Callback):
        """Shows in the driver how far this node is."""

        def on_epoch_end(self, epoch, logs=None):
            ctx.report(step=int(model.optimizer.iterations), loss=logs["loss"])

    # Spark deals the rows out as the nodes take them; each makes as many full batches of them.
    rows = ctx.dataset(args.batch_size, remainder="drop")
    model.fit(rows, epochs=args.epochs, callbacks=[Report()], verbose=0)
    if ctx.is_chief:
        model.export(args.export_dir, verbose=False)


def infer(ctx):
    """Runs in every node of the second cluster: answers each row with a line."""
    import numpy as np
    import tensorflow as tf

    args = ctx.args
    model = tf.saved_model.load(args.export_dir)
    feed = ctx.data_feed()
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        if not batch:
            continue
        pixels = tf.constant([row[0] for row in batch], tf.float32)
        predictions = np.argmax(model.serve(pixels), axis=1)
        feed.batch_results(
            [
                f"{datetime.datetime.now().isoformat()} Label: {label}, Prediction: {prediction}"
                for (_, label), prediction in zip(batch, predictions, strict=True)
            ]
        )


def is_right(line):
    """Tells whether a line of `infer` has the prediction that its label asks for."""
    label, prediction = line.partition("Label: ")[2].split(", Prediction: ")
    return label == prediction


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--nodes", type=int, default=2, help="nodes of a cluster (default 2)")
    parser.add_argument("--epochs", type=int, help="passes over the rows (5 for MNIST, else 30)")
    parser.add_argument("--batch-size", type=int, default=64, help="of each node (default 64)")
    parser.add_argument("--learning-rate", type=float, default=0.003)
    parser.add_argument("--partitions", type=int, default=8, help="of the RDD (default 8)")
    parser.add_argument(
        "--export-dir",
        type=spark_session.full_path,
        help="for the model (default: in a temporary directory)",
    )
    parser.add_argument("--lines", type=int, default=10, help="predictions to print (default 10)")
    parser.add_argument("--min-accuracy", type=float, default=0.95, help="fail below it")
    args = parser.parse_args()
    args.epochs = args.epochs or (5 if args.mnist else 30)
    return args


def run(args, spark):
    """Trains, infers, and returns the share of test rows that were recognised."""
    sc = spark.sparkContext
    train_rows, test_rows = digits.load(args.mnist)
    args.side = digits.side(train_rows)

    print(
        f"Training: {args.nodes} nodes, {len(train_rows)} digits of {args.side}x{args.side}, "
        f"{args.epochs} epochs in batches of {args.batch_size} a node",
        flush=True,
    )
    with tfos.run(spark, train, args=args, nodes=args.nodes, chief="chief") as cluster:
        cluster.train(sc.parallelize(train_rows, args.partitions).cache(), epochs=args.epochs)
    print(f"Exported the model to {args.export_dir}", flush=True)

    print(f"Inference: {len(test_rows)} digits that were held out", flush=True)
    with tfos.run(spark, infer, args=args, nodes=args.nodes) as cluster:
        lines = cluster.inference(sc.parallelize(test_rows, args.partitions)).collect()
    print("\n".join(lines[: args.lines]))
    return sum(map(is_right, lines)) / len(test_rows)


def main():
    args = parse_arguments()
    if not args.export_dir:
        args.export_dir = os.path.join(tempfile.mkdtemp(prefix="tfos-mnist-"), "model")
    spark = spark_session.session("mnist_spark", args.master, args.nodes)
    try:
        accuracy = run(args, spark)
    finally:
        spark.stop()
    print(f"Accuracy: {accuracy:.2%} (at least {args.min_accuracy:.0%} is expected)")
    return 0 if accuracy >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
