#!/usr/bin/env python3
"""A search for the best learning rate with TFParallel: independent instances in Spark tasks.

python examples/parameter_search.py [--rates 0.0001 0.001 ...] [--epochs N]
"""

import argparse
import sys

import digits
import spark_session

from tensorflowonspark import TFParallel


def search(args, ctx):
    """Runs in every instance: tries its share of the learning rates."""
    import numpy as np

    import keras

    keras.utils.set_random_seed(7)
    pixels, labels = (np.array(column) for column in zip(*args.train_rows, strict=True))
    test_pixels, test_labels = (np.array(column) for column in zip(*args.test_rows, strict=True))
    found = {}
    for rate in args.rates[ctx.executor_id :: ctx.num_workers]:
        model = keras.Sequential(
            [
                keras.layers.Input((len(pixels[0]),)),
                keras.layers.Dense(32, activation="relu"),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
        model.compile(
            keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
        )
        model.fit(pixels, labels, batch_size=32, epochs=args.epochs, verbose=0)
        found[rate] = model.evaluate(test_pixels, test_labels, verbose=0)[1]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.00001, 0.0003, 0.003, 1.0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--instances", type=int, default=2)
    args = parser.parse_args()
    args.train_rows, args.test_rows = digits.load()

    with spark_session.session("parameter_search", args.master, args.instances) as spark:
        found = TFParallel.run(spark.sparkContext, search, args, args.instances)
    accuracies = {rate: share for of_instance in found for rate, share in of_instance.items()}
    for rate, share in sorted(accuracies.items()):
        print(f"learning rate {rate:<8g} recognises {share:.2%}")
    best = max(accuracies, key=accuracies.get)
    print(f"Best learning rate: {best:g}")
    return 0 if len(accuracies) == len(args.rates) else 1


if __name__ == "__main__":
    sys.exit(main())
