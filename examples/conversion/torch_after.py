"""A custom loop, fed by Spark: torch_after.py DIGITS.parquet MODEL.keras"""

import sys

from pyspark.sql import SparkSession

import tfos


def train(ctx):
    import tensorflow as tf

    import keras

    model_path, epochs = ctx.args
    batches = ctx.dataset(32, features="pixels", label="label", remainder="drop")
    layers = keras.layers
    model = keras.Sequential([layers.Input((64,)), layers.Dense(64, "relu"), layers.Dense(10)])
    optimizer = ctx.distribute(keras.optimizers.Adam(3e-3))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(pixels, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(pixels, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(epochs):
        for pixels, labels in batches:
            loss = step(pixels, labels)
        ctx.report(epoch=epoch, loss=float(loss))
    if ctx.is_chief:
        model.save(model_path)


spark = SparkSession.builder.getOrCreate()
data_path, model_path = sys.argv[1:]
with tfos.run(spark, train, nodes=2, args=(model_path, 5)) as cluster:
    cluster.train(spark.read.parquet(data_path), epochs=5, shuffle=True)
