#!/usr/bin/env python3
"""Handwritten digits, read by the nodes themselves: InputMode.TENSORFLOW.

    python examples/legacy/mnist_tensorflow.py [--mnist DIRECTORY] [--epochs N] [--directory DIR]

The driver writes the digits into files; each node reads its share of the files with tf.data, and
all train one model together, with MultiWorkerMirroredStrategy and legacy Keras. All hosts must
see the directories.
"""

import argparse
import math
import os
import shutil
import sys
import tempfile

import numpy as np

from tensorflowonspark import TFCluster
from tfos.examples import digits, spark_session


def train(args, ctx):
    """Runs in every node."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # MultiWorkerMirroredStrategy does not know Keras 3
    import tensorflow as tf

    from tensorflowonspark import compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def dataset(input_context):
        mine = range(input_context.input_pipeline_id, args.files, input_context.num_input_pipelines)
        parts = [np.load(data_file(args.data_dir, number)) for number in mine]
        pixels = np.concatenate([part["pixels"] for part in parts])
        labels = np.concatenate([part["labels"] for part in parts])
        data = tf.data.Dataset.from_tensor_slices((pixels, labels))
        # Without an end: nodes may have different numbers of rows, but must take the same steps.
        return data.shuffle(len(labels), seed=ctx.executor_id).repeat().batch(args.batch_size)

    with strategy.scope():
        layers = tf.keras.layers
        model = tf.keras.Sequential(
            [
                layers.InputLayer(input_shape=(args.pixels,)),
                layers.Dense(128, activation="relu"),
                layers.Dense(10, activation="softmax"),
            ]
        )
        model.compile(
            optimizer=tf.keras.optimizers.legacy.Adam(args.learning_rate),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(),
        )
    model.fit(
        strategy.distribute_datasets_from_function(dataset),
        epochs=args.epochs,
        steps_per_epoch=args.steps_per_epoch,
        callbacks=[
            tf.keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: ctx.report(step=epoch + 1, loss=logs["loss"])
            )
        ],
        verbose=0,
    )
    compat.export_saved_model(model, args.export_dir, is_chief=ctx.job_name == "chief")


def data_file(directory, number):
    return os.path.join(directory, f"digits-{number:03d}.npz")


def write_files(rows, directory, count):
    """Deals the rows out to `count` files."""
    for number in range(count):
        pixels, labels = zip(*rows[number::count], strict=True)
        np.savez(data_file(directory, number), pixels=np.float32(pixels), labels=np.int64(labels))


def accuracy(export_dir, rows):
    """Returns the share of rows that the exported model recognises."""
    import tensorflow as tf

    from tfos import tensorflow  # noqa: F401  (hdfs:// in the driver; nodes have it)

    pixels, labels = zip(*rows, strict=True)
    predict = tf.saved_model.load(export_dir).signatures["serving_default"]
    (input_name,) = predict.structured_input_signature[1]
    (output,) = predict(**{input_name: tf.constant(pixels, tf.float32)}).values()
    return float(np.mean(np.argmax(output, axis=1) == np.array(labels)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--files", type=int, default=6)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--min-accuracy", type=float, default=0.9)
    args = parser.parse_args()

    train_rows, test_rows = digits.load(args.mnist)
    args.pixels = len(train_rows[0][0])
    args.steps_per_epoch = math.ceil(len(train_rows) / (args.batch_size * args.nodes))
    scratch = tempfile.mkdtemp(prefix="mnist-")
    args.data_dir = scratch
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-mnist-tensorflow-")
    args.export_dir = os.path.join(args.directory, "model")
    spark = spark_session.session("mnist_tensorflow", args.master, args.nodes)
    try:
        write_files(train_rows, args.data_dir, args.files)
        cluster = TFCluster.run(
            spark.sparkContext,
            train,
            args,
            args.nodes,
            input_mode=TFCluster.InputMode.TENSORFLOW,
            master_node="chief",
        )
        cluster.shutdown()
        share = accuracy(args.export_dir, test_rows)
    finally:
        spark.stop()
        shutil.rmtree(scratch)
    print(f"Accuracy: {share:.2%} (at least {args.min_accuracy:.0%} is expected)")
    print(f"The model is {args.export_dir}")
    return 0 if share >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
