"""Horovod on Spark, converted: horovod_after.py DIGITS.parquet MODEL.keras"""

import sys

import numpy as np
import pandas
import tensorflow as tf
from pyspark.sql import SparkSession

import tfos

DATA, MODEL = sys.argv[1:]


def train(ctx):
    data = pandas.read_parquet(DATA)
    share = data[ctx.rank : len(data) - len(data) % ctx.size : ctx.size]
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((64,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = ctx.distribute(tf.keras.optimizers.Adam(2e-3 * ctx.size), compression="float16")
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        np.stack(share["pixels"]),
        share["label"],
        batch_size=32,
        epochs=5,
        callbacks=[
            ctx.average_metrics(),
        ],
        verbose=2 if ctx.is_chief else 0,
    )
    if ctx.is_chief:
        model.save(MODEL)


spark = SparkSession.builder.getOrCreate()
tfos.run(spark, train, nodes=2, input_mode="tensorflow").shutdown()
