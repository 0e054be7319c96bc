#!/usr/bin/env python3
"""A DataFrame into Keras 3 without Python in between, and predictions back as a DataFrame:
`ctx.dataset` and `model.fit`, then `cluster.inference`.

    python examples/dataset.py [--epochs N] [--directory DIR]

The DataFrame's columns go through Arrow into shared memory, where TensorFlow reads them; a pass
over the dataset is an epoch of `cluster.train`. The node then answers digits that it has not seen,
column by column; their labels stay with Spark. The model is kept.
"""

import argparse
import tempfile

import tfos
from tfos.examples import digits, spark_session


def train(ctx):
    """Runs in the node: fits, reports how many digits were right, then predicts."""
    import numpy as np

    import keras

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

    rows = ctx.dataset(32, features="pixels", label="label")
    model.fit(rows, epochs=ctx.args["epochs"], callbacks=[Report()], verbose=0)
    model.export(ctx.args["model"], verbose=False)

    feed = ctx.data_feed(input_mapping={"pixels": "pixels"})
    while not feed.should_stop():
        pixels = feed.next_batch(128)["pixels"]
        if len(pixels):
            scores = model.predict_on_batch(pixels)
            feed.batch_results({"digit": np.argmax(scores, axis=1), "scores": scores})


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--epochs", type=int, default=10)
    spark_session.add_directory_argument(parser)
    options = parser.parse_args()
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-dataset-")
    arguments = {"epochs": options.epochs, "model": f"{directory}/model"}

    with spark_session.session("dataset", options.master) as spark:
        data, unseen = (
            spark.createDataFrame(rows, "pixels array<float>, label int").repartition(4).cache()
            for rows in digits.load()
        )
        with tfos.run(spark, train, nodes=1, args=arguments) as cluster:
            cluster.train(data, epochs=options.epochs)
            predicted = cluster.inference(
                unseen, schema="digit int, scores array<float>", keys=["label"]
            ).cache()
            predicted.select("label", "digit").show(5)
            accuracy = predicted.where("digit = label").count() / predicted.count()
        (node,) = cluster.status()
        print(
            f"{node.metrics['rows']:,} rows in {options.epochs} epochs and predictions, "
            f"accuracy {node.metrics['accuracy']:.2%}, of unseen digits {accuracy:.2%}"
        )
        print(f"The model is {directory}/model")
    return 0 if accuracy > 0.9 else 1


if __name__ == "__main__":
    raise SystemExit(main())
