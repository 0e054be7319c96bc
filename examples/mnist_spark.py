#!/usr/bin/env python3
"""Handwritten digits, from an RDD: trains a convolutional network on the nodes of a cluster,
exports it, and has a second cluster recognise digits that it has never seen.

    python examples/mnist_spark.py [--mnist DIRECTORY] [--epochs N] [--nodes N]

This is a program for TensorFlowOnSpark, with InputMode.SPARK. The nodes train synchronously, with
TensorFlow's MultiWorkerMirroredStrategy and legacy Keras.
"""

import argparse
import datetime
import math
import os
import shutil
import sys
import tempfile

import digits
import spark_session

from tensorflowonspark import TFCluster

MODEL_LEARNS_THIS_SHARE_OF_ROWS = 0.9


def train(args, ctx):
    """Runs in every node of the first cluster."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # MultiWorkerMirroredStrategy does not know Keras 3
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    feed = ctx.get_data_feed()

    def batches():
        while not feed.should_stop():
            rows = feed.next_batch(args.batch_size)
            if len(rows) == args.batch_size:  # the last one may be short
                pixels, labels = zip(*rows, strict=True)
                yield np.array(pixels, np.float32), np.array(labels)

    def dataset(_input_context):
        # Each node has rows of its own, so nothing is to be divided among nodes.
        shapes = (
            tf.TensorSpec((args.batch_size, args.side**2), tf.float32),
            tf.TensorSpec((args.batch_size,), tf.int64),
        )
        return tf.data.Dataset.from_generator(batches, output_signature=shapes).prefetch(2)

    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential([
            layers.InputLayer(input_shape=(args.side**2,)),
            layers.Reshape((args.side, args.side, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ])
        model.compile(
            optimizer=tf.keras.optimizers.legacy.Adam(args.learning_rate),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(),
        )

    class Report(tf.keras.callbacks.Callback):
        """Shows in the driver how far this node is."""

        def on_train_batch_end(self, batch, logs=None):
            ctx.report(step=batch + 1, loss=logs["loss"])

    # Synchronous nodes wait for each other at every step, so all take the same number of steps:
    # fewer than there are rows for, as one node may get a few rows less than the others.
    model.fit(
        strategy.distribute_datasets_from_function(dataset),
        steps_per_epoch=args.steps,
        callbacks=[Report()],
        verbose=0,
    )
    feed.terminate()
    compat.export_saved_model(model, args.export_dir, is_chief=ctx.job_name == "chief")


def infer(args, ctx):
    """Runs in every node of the second cluster: answers each row with a line."""
    import numpy as np
    import tensorflow as tf

    model = tf.saved_model.load(args.export_dir)
    predict = model.signatures["serving_default"]
    (input_name,) = predict.structured_input_signature[1]
    (output_name,) = predict.structured_outputs
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        if not batch:
            continue
        pixels = tf.constant([row[0] for row in batch], tf.float32)
        predictions = np.argmax(predict(**{input_name: pixels})[output_name], axis=1)
        feed.batch_results([
            f"{datetime.datetime.now().isoformat()} Label: {label}, Prediction: {prediction}"
            for (_, label), prediction in zip(batch, predictions, strict=True)
        ])


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
    parser.add_argument("--export-dir", help="for the model (default: a temporary directory)")
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
    rows_of_a_step = args.batch_size * args.nodes
    total = len(train_rows) * args.epochs
    args.steps = math.floor(total * MODEL_LEARNS_THIS_SHARE_OF_ROWS / rows_of_a_step)

    print(f"Training: {args.nodes} nodes, {len(train_rows)} digits of {args.side}x{args.side}, "
          f"{args.epochs} epochs, {args.steps} steps of {rows_of_a_step}", flush=True)
    cluster = TFCluster.run(
        sc, train, args, args.nodes, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    cluster.train(sc.parallelize(train_rows, args.partitions).cache(), args.epochs)
    cluster.shutdown()
    print(f"Exported the model to {args.export_dir}", flush=True)

    print(f"Inference: {len(test_rows)} digits that were held out", flush=True)
    cluster = TFCluster.run(sc, infer, args, args.nodes, input_mode=TFCluster.InputMode.SPARK)
    lines = cluster.inference(sc.parallelize(test_rows, args.partitions)).collect()
    cluster.shutdown()
    print("\n".join(lines[:args.lines]))
    return sum(map(is_right, lines)) / len(test_rows)


def main():
    args = parse_arguments()
    scratch = None
    if not args.export_dir:
        scratch = tempfile.mkdtemp(prefix="mnist-")
        args.export_dir = os.path.join(scratch, "model")
    spark = spark_session.session("mnist_spark", args.master, args.nodes)
    try:
        accuracy = run(args, spark)
    finally:
        spark.stop()
        if scratch:
            shutil.rmtree(scratch)
    print(f"Accuracy: {accuracy:.2%} (at least {args.min_accuracy:.0%} is expected)")
    return 0 if accuracy >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
