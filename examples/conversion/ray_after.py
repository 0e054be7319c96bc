"""Keras through tfos: ray_after.py DIGITS.parquet MODEL.keras"""

import sys

from pyspark.sql import SparkSession

import tfos


def train_loop(ctx):
    import keras

    model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, "softmax")])
    optimizer = ctx.distribute(keras.optimizers.Adam(0.01))
    model.compile(optimizer, "sparse_categorical_crossentropy")
    model.fit(ctx.dataset(32, features="pixels", label="label"), epochs=5, verbose=0)
    if ctx.is_chief:
        model.save(ctx.args["path"])


spark = SparkSession.builder.getOrCreate()
with tfos.run(spark, train_loop, nodes=2, args={"path": sys.argv[2]}) as cluster:
    cluster.train(spark.read.parquet(sys.argv[1]), epochs=5, shuffle=True)
