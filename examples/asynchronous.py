"""Asynchronous training with Keras 3 and native parameter servers.

Two nodes fit the same model, each with the rows that Spark feeds it and neither waiting for the other.
Every few batches they exchange what they have changed with the parameter server, which runs no Python.
"""

import argparse
import sys
import tempfile

import tfos
from tfos.examples import digits, spark_session

BATCH_SIZE = 32


def train(ctx):
    """Runs in every node."""
    import tensorflow as tf

    import keras

    pixels = ctx.args["pixels"]
    model = keras.Sequential(
        [
            keras.layers.Input((pixels,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    server = ctx.parameter_server(model, sync_interval=5, staleness=20)
    rows = ctx.dataset(BATCH_SIZE, features="pixels", label="label")
    for _ in range(ctx.args["epochs"]):  # A pass over the rows is an epoch of cluster.train.
        model.fit(rows, callbacks=[server.callback()], verbose=0)
    if ctx.is_chief:
        tf.io.gfile.makedirs(ctx.args["directory"])
        with server:  # What all have pushed by now.
            ctx.report(pushes=server.version)
            model.save(ctx.args["model"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--epochs", type=int, default=10)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--min-accuracy", type=float, default=0.88)
    options = parser.parse_args()

    training, test = digits.load(options.mnist)
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-asynchronous-")
    model_path = f"{directory}/model.keras"
    # Three nodes, and each needs an executor's core while it starts.
    spark = spark_session.session(
        "asynchronous", options.master or "local-cluster[3,1,2048]", cores=3
    )
    try:
        rows = spark.createDataFrame(training, "pixels array<float>, label int").repartition(4)
        arguments = {
            "pixels": len(training[0][0]),
            "directory": directory,
            "model": model_path,
            "epochs": options.epochs,
        }
        with tfos.run(spark, train, nodes=3, parameter_servers=1, args=arguments) as cluster:
            cluster.train(rows, epochs=options.epochs)
    finally:
        spark.stop()

    import numpy as np

    import keras
    from tfos import tensorflow  # noqa: F401  (hdfs:// in the driver; nodes have it)

    model = keras.models.load_model(model_path)
    pixels, labels = map(np.asarray, zip(*test))
    accuracy = float(np.mean(np.argmax(model.predict(pixels, verbose=0), axis=1) == labels))
    print(f"Accuracy: {accuracy:.2%}. The model is {model_path}")
    return 0 if accuracy >= options.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
