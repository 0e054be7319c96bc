#!/usr/bin/env python3
"""Handwritten digits on HDFS, the whole way: data, training in both modes, models, predictions.

    python examples/mnist_hdfs.py --directory hdfs://namenode:8020/user/me/mnist

In the directory, which may be on any file system that all hosts reach and must be new, it leaves

    csv/                   the digits as lines of text: label, pixels
    tfrecords/train, test  the same as TFRecords
    tensorflow/            InputMode.TENSORFLOW: nodes read their share of the TFRecords
        checkpoints/ events/ model/ predictions/
    spark/                 InputMode.SPARK: Spark reads the text and feeds the nodes
        model/ predictions/

Nothing but the paths says HDFS: nodes and driver reach it through tfos. The nodes train one model of
Keras 3 together, through `ctx.distribute`.
"""

import argparse
import math
import sys

import tfos
from tfos.examples import digits, spark_session

COLUMNS = "label bigint, pixels array<float>"


def compiled_model(ctx):
    """The model of both modes."""
    import keras

    model = keras.Sequential(
        [
            keras.layers.Input((ctx.args.pixels,), name="pixels"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax", name="digit"),
        ]
    )
    model.compile(
        ctx.distribute(keras.optimizers.Adam(ctx.args.learning_rate)),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def train_from_files(ctx):
    """InputMode.TENSORFLOW. Runs in every node."""
    import pyarrow as pa

    import keras

    args = ctx.args
    schema = pa.schema([("label", pa.int64()), ("pixels", pa.list_(pa.float32(), args.pixels))])
    rows = ctx.tfrecords(f"{args.directory}/tfrecords/train", schema, args.batch_size)
    # Without an end: nodes may have different numbers of rows, but take the same steps.
    rows = rows.map(lambda row: (row["pixels"], row["label"])).repeat()
    model = compiled_model(ctx)
    output = f"{args.directory}/tensorflow"
    callbacks = [
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: ctx.report(step=epoch + 1, loss=logs["loss"])
        )
    ]
    if ctx.is_chief:
        callbacks += [
            keras.callbacks.ModelCheckpoint(f"{output}/checkpoints/epoch-{{epoch:02d}}.keras"),
            keras.callbacks.TensorBoard(f"{output}/events"),
        ]
    model.fit(
        rows,
        epochs=args.epochs,
        steps_per_epoch=args.steps_per_epoch,
        callbacks=callbacks,
        verbose=0,
    )
    if ctx.is_chief:
        model.export(f"{output}/model", verbose=False)


def train_from_spark(ctx):
    """InputMode.SPARK. Runs in every node."""
    args = ctx.args
    model = compiled_model(ctx)
    rows = ctx.dataset(args.batch_size, features="pixels", label="label", remainder="drop")
    model.fit(rows, epochs=args.epochs, verbose=0)
    if ctx.is_chief:
        model.export(f"{args.directory}/spark/model", verbose=False)


def predict(ctx):
    """Answers each row with the digit that the model sees in it. Runs in every node."""
    import numpy as np
    import tensorflow as tf

    model = tf.saved_model.load(ctx.args)
    feed = ctx.data_feed(input_mapping={"pixels": "pixels"})
    while not feed.should_stop():
        pixels = feed.next_batch(256)["pixels"]
        if len(pixels):
            feed.batch_results(np.argmax(model.serve(pixels), axis=1))


def prepare(spark, args):
    """Puts the digits there, as text and as TFRecords; returns how many are for training."""
    train_rows, test_rows = digits.load(args.mnist)
    args.pixels = len(train_rows[0][0])
    for name, rows in (("train", train_rows), ("test", test_rows)):
        frame = spark.createDataFrame([(label, pixels) for pixels, label in rows], COLUMNS)
        frame = frame.repartition(args.partitions).cache()
        lines = frame.selectExpr(
            "concat_ws(',', label, array_join(transform(pixels, x -> string(x)), ','))"
        )
        lines.write.text(f"{args.directory}/csv/{name}")
        tfos.save_tfrecords(frame, f"{args.directory}/tfrecords/{name}")
    return len(train_rows)


def read_csv(spark, path):
    """The digits of a directory of text, as a DataFrame."""
    fields = spark.read.text(path).selectExpr("split(value, ',') AS fields")
    return fields.selectExpr(
        "bigint(fields[0]) AS label",
        "transform(slice(fields, 2, size(fields) - 1), x -> float(x)) AS pixels",
    )


def train(spark, args, program, input_mode, rows=None):
    print(
        f"Training, input mode {input_mode}: {args.nodes} nodes, {args.epochs} epochs", flush=True
    )
    with tfos.run(
        spark, program, args=args, nodes=args.nodes, chief="chief", input_mode=input_mode
    ) as cluster:
        if rows is not None:
            cluster.train(rows, epochs=args.epochs)


def infer(spark, args, mode):
    """Has the model of a mode recognise the test digits, leaves the predictions beside it, and
    returns the share that is right."""
    rows = spark.read.format("tfrecord").schema(COLUMNS).load(f"{args.directory}/tfrecords/test")
    with tfos.run(
        spark, predict, args=f"{args.directory}/{mode}/model", nodes=args.nodes
    ) as cluster:
        answers = cluster.inference(rows, schema="prediction bigint", keys=["label"])
        answers.write.csv(f"{args.directory}/{mode}/predictions")
    found = spark.read.schema("label bigint, prediction bigint").csv(
        f"{args.directory}/{mode}/predictions"
    )
    (share,) = found.selectExpr("avg(int(label = prediction))").first()
    print(f"Predictions of {mode}: {share:.2%} of {found.count()} digits are right", flush=True)
    return share


def show(directory):
    """Lists the folders that have files, with the sizes of these."""
    import tensorflow as tf

    import tfos.tensorflow  # noqa: F401  (hdfs:// in the driver; nodes have it)

    for folder, _, files in sorted(tf.io.gfile.walk(directory)):
        if files:
            sizes = [tf.io.gfile.stat(f"{folder}/{name}").length for name in files]
            print(f"Left in {folder}: {sum(sizes):,} bytes")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument(
        "--directory",
        type=spark_session.full_path,
        required=True,
        help="for all of it, such as hdfs://.../mnist",
    )
    digits.add_mnist_argument(parser)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=0.002)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--min-accuracy", type=float, default=0.9)
    return parser.parse_args()


def main():
    args = parse_arguments()
    spark = spark_session.session("mnist_hdfs", args.master, args.nodes)
    tfos.register_tfrecords(spark)
    try:
        print(f"Putting the digits into {args.directory}", flush=True)
        rows = prepare(spark, args)
        args.steps_per_epoch = math.ceil(rows / (args.batch_size * args.nodes))
        train(spark, args, train_from_files, "tensorflow")
        train(
            spark, args, train_from_spark, "spark", read_csv(spark, f"{args.directory}/csv/train")
        )
        shares = [infer(spark, args, mode) for mode in ("tensorflow", "spark")]
    finally:
        spark.stop()
    show(args.directory)
    print(f"Accuracy: {min(shares):.2%} (at least {args.min_accuracy:.0%} is expected)")
    return 0 if min(shares) >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
