"""Recognises handwritten digits: keras_before.py DIGITS.parquet MODEL.keras"""

import sys

import numpy as np
import pandas

import keras

DATA, MODEL = sys.argv[1:]


def train():
    data = pandas.read_parquet(DATA)
    model = keras.Sequential(
        [
            keras.layers.Input((64,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    model.fit(np.stack(data["pixels"]), data["label"], batch_size=32, epochs=5, verbose=2)
    model.save(MODEL)


train()
