#!/usr/bin/env python3
"""Time series: windows made by Spark, a forecast for the next hour by a recurrent network.

    python examples/time_series.py [--days N] [--epochs N] [--directory DIR]

Sensors report a value each hour. Spark's window functions turn each sensor's series into rows of 48
values and the one that follows. Two nodes learn to forecast it. The last fifth of the time is for
the test. The forecast must be better than the value of 24 hours before. The model is kept.
"""

import argparse
import sys
import tempfile

from pyspark.sql import Window
from pyspark.sql import functions as F

import tfos
from tfos.examples import spark_session
from tfos.ml import Model

HOURS = 48
SENSORS = 12


def make_series(spark, days):
    """(sensor, hour, value): a daily and a weekly rhythm, different for each sensor, and noise."""
    hours = spark.range(days * 24).withColumnRenamed("id", "hour")
    sensors = spark.range(SENSORS).withColumnRenamed("id", "sensor")
    daily = F.sin(2 * F.pi() * (F.col("hour") / 24 + F.col("sensor") / SENSORS))
    weekly = F.sin(2 * F.pi() * F.col("hour") / (24 * 7)) * (1 + F.col("sensor") % 3)
    value = daily + 0.5 * weekly + 0.1 * F.randn(11)
    return sensors.crossJoin(hours).withColumn("value", value.cast("float"))


def windows(series):
    """(sensor, hour, past: the values of the hours before, value)."""
    before = Window.partitionBy("sensor").orderBy("hour").rowsBetween(-HOURS, -1)
    rows = series.withColumn("past", F.collect_list("value").over(before))
    return rows.where(F.size("past") == HOURS)


def train(ctx):
    """Runs in every node."""
    import keras

    keras.utils.set_random_seed(5)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((HOURS,), name="past"),
            layers.Reshape((HOURS, 1)),
            layers.Conv1D(16, 6, strides=2, activation="relu"),
            layers.GRU(24),
            layers.Dense(1),
        ]
    )
    optimizer = ctx.distribute(keras.optimizers.Adam(0.005))
    model.compile(optimizer, "mse", metrics=["mae"])

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(epoch=epoch + 1, step=int(optimizer.iterations), **logs)

    model.fit(
        ctx.dataset(64, features="past", label="value"),
        epochs=ctx.args["epochs"],
        callbacks=[ctx.average_metrics(), Report()],
        verbose=0,
    )
    if ctx.is_chief:
        model.export(ctx.args["model"], verbose=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=8)
    spark_session.add_directory_argument(parser)
    options = parser.parse_args()
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-time-series-")

    with spark_session.session("time_series", options.master) as spark:
        # A shuffle of Spark makes 200 partitions. So few rows are fed faster in four.
        rows = windows(make_series(spark, options.days)).coalesce(4).cache()
        end = int(options.days * 24 * 0.8)
        # Train on the past, or the model would have seen the values that it is to forecast.
        training, test = rows.where(F.col("hour") < end), rows.where(F.col("hour") >= end)

        arguments = {"epochs": options.epochs, "model": f"{directory}/model"}
        with tfos.run(spark, train, nodes=2, args=arguments) as cluster:
            # Windows of one sensor follow each other; the order is shuffled for each epoch.
            cluster.train(training.select("past", "value"), epochs=options.epochs, shuffle=True)

        model = Model(modelDir=f"{directory}/model", outputMapping={"output_0": "forecast"})
        scored = model.transform(test)
        scored.select("sensor", "hour", "value", "forecast").show(5)
        mean, yesterday = scored.select(
            F.mean(F.abs(F.col("forecast") - F.col("value"))),
            F.mean(F.abs(F.element_at("past", HOURS - 24 + 1) - F.col("value"))),
        ).first()
        print(f"Mean error of the forecast: {mean:.3f}; of the value a day before: {yesterday:.3f}")
        print(f"The model is {directory}/model")
    return 0 if mean < yesterday else 1


if __name__ == "__main__":
    sys.exit(main())
