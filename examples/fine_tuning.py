#!/usr/bin/env python3
"""Fine-tuning: a network that knows other images, read from a file, learns new classes from few images.

    python examples/fine_tuning.py [--weights FILE] [--directory DIR]

FILE has the weights of `base`: a .weights.h5 or .keras file, on disk or on HDFS. Without it, two
nodes first train such a network on the digits 0 to 4 and write that file. Then they learn the digits
5 to 9 from a dozen images of each: first only a new head, while the base is frozen, then also the last
layer of the base, with a small learning rate. The same without the file shows what it is good for.
"""

import argparse
import os
import sys
import tempfile

import tfos
from tfos.examples import digits, spark_session

CLASSES = 5
BATCH_SIZE = 8


def base(side):
    """The layers that are kept. docs/training.md shows how to take a network of keras.applications."""
    import keras

    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((side, side, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
        ]
    )


def with_head(kept, side):
    """A network of `kept` and a new layer that tells the classes apart."""
    import keras

    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((side * side,)),
            layers.Reshape((side, side, 1)),
            kept,
            layers.Flatten(),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )


def fit(ctx, model, rate, rows, epochs):
    """Trains what is not frozen, on all nodes. compile looks at what is frozen, so each part has one."""
    import keras

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(step=int(model.optimizer.iterations), **logs)

    model.compile(
        ctx.distribute(keras.optimizers.Adam(rate)),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(rows, epochs=epochs, callbacks=[ctx.average_metrics(), Report()], verbose=0)


def pretrain(ctx):
    """Runs in every node: makes the file of weights."""
    import tensorflow as tf

    import keras

    args = ctx.args
    keras.utils.set_random_seed(7)
    kept = base(args.side)
    rows = ctx.dataset(32, features="pixels", label="label")
    fit(ctx, with_head(kept, args.side), 0.003, rows, args.base_epochs)
    if ctx.is_chief:
        tf.io.gfile.makedirs(args.directory)
        kept.save_weights(args.weights)


def tune(ctx):
    """Runs in every node: learns new classes, with the weights of the file or with random ones."""
    import numpy as np
    import tensorflow as tf

    import keras

    args, weights = ctx.args
    keras.utils.set_random_seed(7)
    kept = base(args.side)
    if weights:
        kept.load_weights(weights)
    model = with_head(kept, args.side)
    pixels, labels = (np.array(column) for column in zip(*args.test, strict=True))

    def accuracy():
        return model.evaluate(pixels, labels, verbose=0)[1]

    rows = ctx.dataset(BATCH_SIZE, features="pixels", label="label")
    kept.trainable = False
    fit(ctx, model, 0.01, rows, args.head_epochs)
    ctx.report(head=accuracy())

    kept.trainable = True
    for layer in kept.layers[:-1]:
        layer.trainable = False
    fit(ctx, model, 0.0002, rows, args.top_epochs)
    ctx.report(tuned=accuracy())
    if weights and ctx.is_chief:
        tf.io.gfile.makedirs(args.directory)
        model.save(args.model)


def of_classes(rows, first, most=None):
    """Up to `most` rows of each of the digits from `first` on, which is class 0."""
    return [
        (pixels, label - first)
        for digit in range(first, first + CLASSES)
        for pixels, label in [row for row in rows if row[1] == digit][:most]
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument(
        "--weights",
        type=spark_session.full_path,
        metavar="FILE",
        help="of the base (default: trained here)",
    )
    parser.add_argument("--images", type=int, default=12, help="of each new class")
    parser.add_argument("--base-epochs", type=int, default=10)
    parser.add_argument("--head-epochs", type=int, default=12)
    parser.add_argument("--top-epochs", type=int, default=4)
    spark_session.add_directory_argument(parser)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-fine-tuning-")
    args.model = os.path.join(args.directory, "tuned.keras")
    known, unseen = digits.load(args.mnist)
    args.side = digits.side(known)
    args.test = of_classes(unseen, CLASSES)

    with spark_session.session("fine_tuning", args.master) as spark:

        def run(program, program_args, rows, epochs):
            data = spark.createDataFrame(rows, "pixels array<float>, label int").repartition(4)
            with tfos.run(spark, program, nodes=2, chief="chief", args=program_args) as cluster:
                cluster.train(data.cache(), epochs=epochs, shuffle=True)
            return cluster.status()[0].metrics

        if not args.weights:
            args.weights = os.path.join(args.directory, "base.weights.h5")
            run(pretrain, args, of_classes(known, 0), args.base_epochs)
        few = of_classes(known, CLASSES, args.images)
        epochs = args.head_epochs + args.top_epochs
        found = {
            weights: run(tune, (args, weights), few, epochs) for weights in (args.weights, None)
        }

    for weights, reached in found.items():
        print(
            f"{'With' if weights else 'Without'} the weights of the file: accuracy {reached['head']:.2%} "
            f"with a new head, {reached['tuned']:.2%} when tuned"
        )
    print(f"The weights were read from {args.weights}; the tuned model is {args.model}")
    return 0 if found[args.weights]["tuned"] > found[None]["tuned"] else 1


if __name__ == "__main__":
    sys.exit(main())
