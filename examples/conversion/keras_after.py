"""Recognises handwritten digits: keras_after.py DIGITS.parquet MODEL.keras"""

import sys

import numpy as np
import pandas
from pyspark.sql import SparkSession

import keras
import tfos

DATA, MODEL = sys.argv[1:]


def train(ctx):
    data = pandas.read_parquet(DATA)[ctx.rank :: ctx.size]
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(ctx.distribute(keras.optimizers.Adam(3e-3)), "sparse_categorical_crossentropy")
    model.fit(np.stack(data["pixels"]), data["label"], batch_size=32, epochs=5, verbose=2)
    if ctx.is_chief:
        model.save(MODEL)


tfos.run(SparkSession.builder.getOrCreate(), train, nodes=2, input_mode="tensorflow").wait()
