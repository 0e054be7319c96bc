#!/usr/bin/env python3
"""Images from files: a convolutional network tells pieces of two photographs apart.

    python examples/images.py [--directory DIR] [--epochs N]

The pieces are PNG files in DIR/train/china, DIR/train/flower and the same below DIR/test, as data sets
of images are often stored. With --directory, what is there is used. On a cluster DIR must be one that
all hosts reach. They are cut out of scikit-learn's sample photographs, those for the test from the right
quarter, which is not trained on. Spark reads the files, every node decodes what it is fed, and two train
one model together. It is kept in DIR/model with the decoding in it, so that it answers files.
"""

import argparse
import pathlib
import sys
import tempfile

from pyspark.sql import functions

import tfos
import tfos.ml
from tfos.examples import spark_session

CLASSES = ("china", "flower")
SIDE = 32
SEED = 20


def train(ctx):
    """Runs in every node."""
    import tensorflow as tf

    import keras

    def decoded(content):
        """Images of a batch of files, from 0 to 1."""

        def one(png):
            image = tf.io.decode_png(png, channels=3)
            return tf.ensure_shape(image, [SIDE, SIDE, 3])

        return tf.cast(tf.map_fn(one, content, fn_output_signature=tf.uint8), tf.float32) / 255

    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((SIDE, SIDE, 3)),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(len(CLASSES), activation="softmax"),
        ]
    )
    # Divided by the rows that count: those that fill batches up do not.
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="mean_with_sample_weight")
    model.compile(ctx.distribute(keras.optimizers.Adam(ctx.args["learning_rate"])), loss)

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(step=int(model.optimizer.iterations), **logs)

    files = ctx.dataset(16, features="content", label="label", remainder="pad")
    # A row of padding holds an empty string, which is not an image.
    blank = tf.io.encode_png(tf.zeros([SIDE, SIDE, 3], tf.uint8))

    def images(content, label, mask):
        return decoded(tf.where(mask > 0, content, blank)), label, mask

    model.fit(
        files.map(images).prefetch(2), epochs=ctx.args["epochs"], callbacks=[Report()], verbose=0
    )
    if ctx.is_chief:

        def serve(content):
            return {"name": tf.gather(CLASSES, tf.argmax(model(decoded(content)), axis=1))}

        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", serve, [tf.TensorSpec([None], tf.string, name="content")])
        archive.write_out(ctx.args["model"], verbose=False)


def write_pieces(directory, count):
    """Cuts `count` pieces for training, and a quarter as many for the test, out of each photograph."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_sample_image

    random = np.random.default_rng(SEED)
    for name in CLASSES:
        photograph = load_sample_image(f"{name}.jpg")
        height, width, _ = photograph.shape
        border = width * 3 // 4
        for part, left, right, pieces in (
            ("train", 0, border, count),
            ("test", border, width, count // 4),
        ):
            place = pathlib.Path(directory, part, name)
            place.mkdir(parents=True)
            for number in range(pieces):
                x = random.integers(left, right - SIDE, endpoint=True)
                y = random.integers(0, height - SIDE, endpoint=True)
                piece = photograph[y : y + SIDE, x : x + SIDE]
                Image.fromarray(piece).save(place / f"{number:04}.png")


def read(spark, directory):
    """A DataFrame of files: path, content, and the name of the directory as a number."""
    files = (
        spark.read.format("binaryFile")
        .option("pathGlobFilter", "*.png")
        .option("recursiveFileLookup", True)
        .load(directory)
    )
    names = functions.array(*map(functions.lit, CLASSES))
    name = functions.element_at(functions.split("path", "/"), -2)
    return files.select(
        "path",
        "content",
        name.alias("truth"),
        (functions.array_position(names, name) - 1).cast("int").alias("label"),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--pieces", type=int, default=200, help="to cut out of each photograph")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--min-accuracy", type=float, default=0.8)
    options = parser.parse_args()

    directory = options.directory or tempfile.mkdtemp(prefix="tfos-images-")
    arguments = {
        "epochs": options.epochs,
        "learning_rate": options.learning_rate,
        "model": f"{directory}/model",
    }
    with spark_session.session("images", options.master) as spark:
        if not options.directory:
            write_pieces(directory, options.pieces)
        pieces = read(spark, f"{directory}/train").repartition(4).cache()
        with tfos.run(spark, train, nodes=2, chief="chief", args=arguments) as cluster:
            cluster.train(pieces.select("content", "label"), epochs=options.epochs, shuffle=SEED)
        model = tfos.ml.Model(
            modelDir=f"{directory}/model",
            outputMapping={"name": "answer"},
            inputMapping={"content": "content"},
        )
        answers = model.transform(read(spark, f"{directory}/test")).drop("content").cache()
        answers.select("path", "answer").show(5, truncate=60)
        accuracy = answers.where("answer = truth").count() / answers.count()
    print(f"Accuracy: {accuracy:.2%} (at least {options.min_accuracy:.0%} is expected)")
    print(f"The model is {directory}/model")
    return 0 if accuracy >= options.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
