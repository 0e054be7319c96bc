#!/usr/bin/env python3
"""A search for the best learning rate: independent instances in Spark tasks, results as a DataFrame.

    python examples/parameter_search.py [--rates 0.0001 0.001 ...] [--epochs N] [--directory DIR]

`tfos.parallel` runs the instances, and each tries its share of the rates. The models and the table of
the results (Parquet) are kept. optuna_search.py chooses what to try by what it knows already.
"""

import argparse
import os
import sys
import tempfile

import tfos.parallel
from tfos.examples import digits, spark_session


def search(args, instance):
    """Runs in every instance: a row (rate, loss, accuracy, model) for each of its learning rates."""
    import numpy as np
    import tensorflow as tf

    import keras

    pixels, labels = (np.array(column) for column in zip(*args.train_rows, strict=True))
    test_pixels, test_labels = (np.array(column) for column in zip(*args.test_rows, strict=True))
    tf.io.gfile.makedirs(args.directory)
    found = []
    for rate in args.rates[instance.index :: instance.count]:
        keras.utils.set_random_seed(7)
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
        loss, accuracy = model.evaluate(test_pixels, test_labels, verbose=0)
        path = os.path.join(args.directory, f"rate-{rate:g}.keras")
        model.save(path)
        found.append((rate, float(loss), float(accuracy), path))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.00001, 0.0003, 0.003, 1.0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--instances", type=int, default=2)
    spark_session.add_directory_argument(parser)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-parameter-search-")
    args.train_rows, args.test_rows = digits.load()

    with spark_session.session("parameter_search", args.master, args.instances) as spark:
        found = tfos.parallel.run(
            spark, lambda instance: search(args, instance), instances=args.instances
        )
        rows = [row for of_instance in found for row in of_instance]
        results = spark.createDataFrame(
            rows, "rate double, loss double, accuracy double, model string"
        )
        results = results.orderBy("accuracy", ascending=False).coalesce(1)
        results.write.mode("overwrite").parquet(f"{args.directory}/results")
        results.drop("model").show()
        best = results.first()
    print(f"Best learning rate: {best.rate:g}, which recognises {best.accuracy:.2%}")
    print(f"The best model is {best.model}; the table is in {args.directory}/results")
    return 0 if len(rows) == len(args.rates) else 1


if __name__ == "__main__":
    sys.exit(main())
