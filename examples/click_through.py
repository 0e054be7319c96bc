#!/usr/bin/env python3
"""Click-through rates: a wide and deep model on 20 columns of numbers and text from Parquet.

    python examples/click_through.py [--rows N] [--epochs N] [--directory DIR]

Spark makes the table (impressions of advertisements, with clicks of a known model), scales its
numbers and crosses two of its columns. Two nodes train one model on named columns: embeddings and
dense layers learn what generalises, and a weight for each crossed value learns exceptions. The
exported model then scores rows that it has not seen.
"""

import argparse
import sys
import tempfile

from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.sql import functions as F

import tfos
from tfos.examples import spark_session
from tfos.ml import Model

NUMBERS = [f"number_{i}" for i in range(10)]
#: Columns of text, and how many values each has.
TEXTS = {"site": 40, "advertiser": 60, "device": 3, "country": 20, "hour": 24, "format": 5}
TEXTS |= {"campaign": 200, "browser": 6, "segment": 100}
#: What a pair of values adds to the chance of a click can't be learned from each of them alone.
CROSSED = "site_and_device"
INPUTS = [*NUMBERS, *TEXTS, CROSSED]
CLICKED = "clicked"


def make_table(spark, rows):
    """Impressions: numbers, text, and whether somebody clicked."""

    def chance(column):
        """From 0 to 1 in each row, the same in every run. Spark adds a partition's number to the seed,
        so seeds that are far apart keep columns from being copies of each other."""
        return F.rand(100 * [*NUMBERS, *TEXTS, CLICKED].index(column))

    def value(name, count):
        return F.concat(F.lit(f"{name}-"), F.floor(chance(name) ** 2 * count).cast("string"))

    table = spark.range(rows, numPartitions=4).select(
        *((chance(name) * 10 * (i + 1)).alias(name) for i, name in enumerate(NUMBERS)),
        *(value(name, count).alias(name) for name, count in TEXTS.items()),
    )

    def effect(*columns):
        """A number from -1 to 1 for each value of the columns, always the same."""
        return (F.abs(F.xxhash64(*columns)) % 2001 - 1000) / 1000

    score = (
        F.col("number_0") / 5
        - F.col("number_1") / 10
        + 1.5 * effect("advertiser")
        + 1.5 * effect("country")
        + 2.0 * effect("site", "device")
        - 1.0
    )
    return table.withColumn(CLICKED, (chance(CLICKED) < 1 / (1 + F.exp(-score))).cast("int"))


def prepared(table):
    """What the model takes: numbers around 0, and the crossed column."""
    moments = table.agg(
        *(F.mean(name).alias(f"mean_{name}") for name in NUMBERS),
        *(F.stddev(name).alias(f"deviation_{name}") for name in NUMBERS),
    ).first()
    return table.select(
        *(
            ((F.col(name) - moments[f"mean_{name}"]) / moments[f"deviation_{name}"])
            .cast("float")
            .alias(name)
            for name in NUMBERS
        ),
        *TEXTS,
        F.concat_ws("*", "site", "device").alias(CROSSED),
        CLICKED,
    )


def train(ctx):
    """Runs in every node."""
    import keras

    layers = keras.layers
    keras.utils.set_random_seed(3)
    numbers = {name: layers.Input((1,), name=name) for name in NUMBERS}
    texts = {name: layers.Input((1,), name=name, dtype="string") for name in [*TEXTS, CROSSED]}

    def bucket(name, count):
        return layers.Hashing(count)(texts[name])

    embedded = [
        layers.Flatten()(layers.Embedding(4 * count, 8)(bucket(name, 4 * count)))
        for name, count in TEXTS.items()
    ]
    deep = layers.Concatenate()([*numbers.values(), *embedded])
    for units in (64, 32):
        deep = layers.Dense(units, activation="relu")(deep)
    wide = layers.Flatten()(layers.Embedding(2000, 1)(bucket(CROSSED, 2000)))
    logit = layers.Add()([layers.Dense(1)(deep), wide])
    chance = layers.Activation("sigmoid", name="chance")(logit)

    model = keras.Model({**numbers, **texts}, {"chance": chance})
    optimizer = ctx.distribute(keras.optimizers.Adam(3e-3))
    model.compile(optimizer, "binary_crossentropy")

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(epoch=epoch + 1, step=int(optimizer.iterations), loss=logs["loss"])

    model.fit(
        ctx.dataset(256, features=INPUTS, label=CLICKED),
        epochs=ctx.args["epochs"],
        callbacks=[ctx.average_metrics(), Report()],
        verbose=0,
    )
    if ctx.is_chief:
        model.export(ctx.args["model"], verbose=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--epochs", type=int, default=4)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--min-area", type=float, default=0.75, help="below the ROC curve")
    options = parser.parse_args()
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-click-through-")

    with spark_session.session("click_through", options.master) as spark:
        make_table(spark, options.rows).write.mode("overwrite").parquet(f"{directory}/impressions")
        table = prepared(spark.read.parquet(f"{directory}/impressions"))
        training, test = (part.cache() for part in table.randomSplit([0.9, 0.1], seed=5))

        arguments = {"epochs": options.epochs, "model": f"{directory}/model"}
        with tfos.run(spark, train, nodes=2, args=arguments) as cluster:
            # From the second epoch on, the nodes have the rows: Spark reads them once.
            cluster.train(training, epochs=options.epochs, cache="memory")

        scored = Model(modelDir=f"{directory}/model").transform(test)
        scored.write.mode("overwrite").parquet(f"{directory}/scored")
        scored = spark.read.parquet(f"{directory}/scored").withColumn(
            "score", F.col("chance").cast("double")
        )
        scored.select("site", "device", "advertiser", CLICKED, "chance").show(5)
        area = BinaryClassificationEvaluator(rawPredictionCol="score", labelCol=CLICKED).evaluate(
            scored
        )
        print(f"Area below the ROC curve: {area:.3f} (at least {options.min_area} is expected)")
        print(f"The model and the scored rows are in {directory}")
    return 0 if area >= options.min_area else 1


if __name__ == "__main__":
    sys.exit(main())
