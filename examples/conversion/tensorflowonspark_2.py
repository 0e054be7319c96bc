"""A program for tensorflowonspark 2.2.5, as it was: tensorflowonspark_2.py DIGITS.parquet MODEL

Nothing of it changes: tfos brings a package of that name.
"""

import argparse

from pyspark.context import SparkContext
from pyspark.sql import SparkSession

from tensorflowonspark import TFCluster, TFNode, compat


def main_fun(args, ctx):
    import numpy as np
    import tensorflow as tf

    tf_feed = TFNode.DataFeed(ctx.mgr, True)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((64,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(tf.keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy")
    while not tf_feed.should_stop():
        batch = tf_feed.next_batch(args.batch_size)
        if batch:
            pixels, labels = zip(*batch)
            model.train_on_batch(np.array(pixels, np.float32), np.array(labels))
    compat.export_saved_model(model, args.model, ctx.job_name == "chief")


parser = argparse.ArgumentParser()
parser.add_argument("data")
parser.add_argument("model")
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--cluster_size", type=int, default=2)
parser.add_argument("--epochs", type=int, default=8)
args = parser.parse_args()

sc = SparkContext.getOrCreate()
spark = SparkSession(sc)
rows = spark.read.parquet(args.data).rdd.map(lambda row: (row.pixels, row.label))
cluster = TFCluster.run(
    sc,
    main_fun,
    args,
    args.cluster_size,
    num_ps=0,
    tensorboard=False,
    input_mode=TFCluster.InputMode.SPARK,
    master_node="chief",
)
cluster.train(rows, args.epochs)
cluster.shutdown()
