#!/usr/bin/env python3
"""Text: tells English from Python, line by line, in Python's own standard library.

    python examples/text.py [--epochs N] [--directory DIR]

A line of a docstring is English, any other line that is not a comment is Python. The driver learns the vocabulary
(`TextVectorization.adapt`); the nodes get it with the program, and strings of a DataFrame through
`ctx.dataset`. They then answer lines of modules that nothing was learned from. The
model is kept with the vocabulary in it, so that it takes lines.
"""

import argparse
import ast
import pathlib
import random
import sys
import sysconfig
import tempfile

from pyspark.sql import functions

import tfos
from tfos.examples import spark_session

WORDS_OF_A_LINE = 16
SEED = 20


def vectorization(**options):
    import keras

    return keras.layers.TextVectorization(
        max_tokens=5000, standardize="lower", output_sequence_length=WORDS_OF_A_LINE, **options
    )


def train(ctx):
    """Runs in every node."""
    import numpy as np
    import tensorflow as tf

    import keras

    keras.utils.set_random_seed(7)
    words = vectorization(vocabulary=ctx.args["vocabulary"])
    model = keras.Sequential(
        [
            keras.layers.Input((WORDS_OF_A_LINE,), dtype="int64"),
            keras.layers.Embedding(words.vocabulary_size(), 16),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    # The gradients of the embedding are of the words in the batch; nodes exchange just those.
    model.compile(
        ctx.distribute(keras.optimizers.Adam(0.01)), "binary_crossentropy", metrics=["accuracy"]
    )

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(step=int(model.optimizer.iterations), **logs)

    lines = ctx.dataset(64, features="line", label="is_english", remainder="drop")
    model.fit(
        lines.map(lambda line, label: (words(line), label)).prefetch(2),
        epochs=ctx.args["epochs"],
        callbacks=[Report()],
        verbose=0,
    )
    if ctx.is_chief:
        line = keras.layers.Input((), dtype="string", name="line")
        keras.Model(line, model(words(line))).export(ctx.args["model"], verbose=False)

    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(256)
        if rows:
            scores = model.predict_on_batch(words(tf.constant([row.line for row in rows])))
            ctx.feed.batch_results({"english": np.asarray(scores)[:, 0]})


def lines_of(module):
    """Yields (line, whether it is English) of a Python file."""
    source = module.read_text(encoding="utf-8")
    english = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            text = node.body[0]
            english.update(range(text.lineno, text.end_lineno + 1))
    for number, line in enumerate(source.splitlines(), 1):
        line = line.strip(' \t"')
        if len(line.split()) > 2 and not line.startswith("#"):
            yield line, int(number in english)


def load(count):
    """Lines for training, `count` of each kind, and a quarter as many of other modules for the test."""
    modules = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    shuffled = random.Random(SEED)
    parts = []
    for part, wanted in ((modules[1::6], count), (modules[0::12], count // 4)):
        lines = sorted({line for module in part for line in lines_of(module)})
        kinds = [[line for line in lines if line[1] == kind] for kind in (0, 1)]
        rows = [line for kind in kinds for line in shuffled.sample(kind, min(wanted, len(kind)))]
        parts.append(shuffled.sample(rows, len(rows)))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--lines", type=int, default=2000, help="of each kind, to train with")
    parser.add_argument("--epochs", type=int, default=4)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--min-accuracy", type=float, default=0.85)
    options = parser.parse_args()

    directory = options.directory or tempfile.mkdtemp(prefix="tfos-text-")
    known, unknown = load(options.lines)
    words = vectorization()
    words.adapt([line for line, _ in known])
    arguments = {
        "epochs": options.epochs,
        "model": f"{directory}/model",
        "vocabulary": words.get_vocabulary(),
    }

    with spark_session.session("text", options.master) as spark:
        known, unknown = (
            spark.createDataFrame(rows, "line string, is_english int").repartition(4).cache()
            for rows in (known, unknown)
        )
        with tfos.run(spark, train, nodes=2, args=arguments) as cluster:
            cluster.train(known, epochs=options.epochs)
            # What is a key is carried through, not fed.
            answers = cluster.inference(
                unknown.withColumn("text", unknown.line),
                schema="english float",
                keys=["text", "is_english"],
            ).cache()
            # In an order that mixes both kinds, and is the same each time.
            answers.orderBy(functions.hash("text")).show(8, truncate=60)
            accuracy = answers.where("is_english = int(english > 0.5)").count() / answers.count()
        print(f"Accuracy: {accuracy:.2%} (at least {options.min_accuracy:.0%} is expected)")
        print(f"The model is {directory}/model")
    return 0 if accuracy >= options.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
