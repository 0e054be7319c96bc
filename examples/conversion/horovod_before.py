"""Horovod on Spark: horovod_before.py DIGITS.parquet MODEL.keras"""

import sys

import horovod.spark
import horovod.tensorflow.keras as hvd
import numpy as np
import pandas
import tensorflow as tf
from pyspark.sql import SparkSession

DATA, MODEL = sys.argv[1:]


def train():
    hvd.init()
    data = pandas.read_parquet(DATA)
    share = data[hvd.rank() : len(data) - len(data) % hvd.size() : hvd.size()]
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((64,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.Adam(2e-3 * hvd.size()), compression=hvd.Compression.fp16
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        np.stack(share["pixels"]),
        share["label"],
        batch_size=32,
        epochs=5,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
        ],
        verbose=2 if hvd.rank() == 0 else 0,
    )
    if hvd.rank() == 0:
        model.save(MODEL)


spark = SparkSession.builder.getOrCreate()
horovod.spark.run(train, num_proc=2)
