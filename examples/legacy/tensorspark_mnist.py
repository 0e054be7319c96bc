"""A program of the old tensorspark: softmax regression in a TF1-style graph, trained on Spark.

Only the import of tf.compat.v1 is new. Each partition of the RDD trains by itself and exchanges the
weights with a parameter server on the driver. They are kept as a checkpoint.
"""

import argparse
import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

from tensorspark.core import spark_session as sps
from tensorspark.core import weight_combiner as comb
from tfos.examples import digits, spark_session


def in_two_columns(rows):
    """(pixels, one-hot label)"""
    return [
        (np.asarray(pixels, np.float32), np.eye(10, dtype=np.float32)[label])
        for pixels, label in rows
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument(
        "--port", type=int, default=10080, help="of the parameter server; 0: a free one"
    )
    parser.add_argument("--directory", help="for the checkpoint; default: a temporary one")
    parser.add_argument("--min-accuracy", type=float, default=0.88)
    options = parser.parse_args()
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-tensorspark-")

    training, test = map(in_two_columns, digits.load(options.mnist))
    # The digits are few: several passes over them are one epoch.
    training = training * max(1, 20000 // len(training))
    with spark_session.session("tensorspark_mnist", options.master) as spark:
        sc = spark.sparkContext
        image_label_rdd = sc.parallelize(training, options.partitions).cache()

        x = tf.placeholder(tf.float32, [None, len(training[0][0])])
        W = tf.Variable(tf.zeros([len(training[0][0]), 10]))
        b = tf.Variable(tf.zeros([10]))
        y = tf.nn.softmax(tf.matmul(x, W) + b)
        y_ = tf.placeholder(tf.float32, [None, 10])
        cross_entropy = tf.reduce_mean(
            -tf.reduce_sum(y_ * tf.log(y + 1e-10), reduction_indices=[1])
        )
        train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())

        feed_name_list = [x.name, y_.name]
        param_list = [W, b]
        spark_sess = sps.SparkSession(
            sc,
            sess,
            user="somebody",
            name="spark_mnist",
            server_host="localhost",
            server_port=options.port,
            sync_interval=100,
            batch_size=100,
        )
        for _ in range(options.epochs):
            spark_sess.run(
                train_step,
                feed_rdd=image_label_rdd,
                feed_name_list=feed_name_list,
                param_list=param_list,
                weight_combiner=comb.DeltaWeightCombiner(),
                shuffle_within_partition=True,
                server_reusable=True,
            )
        spark_sess.close()

    correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
    images, labels = map(np.stack, zip(*test))
    reached = float(sess.run(accuracy, feed_dict={x: images, y_: labels}))
    checkpoint = tf.train.Saver().save(sess, f"{directory}/model")
    print(f"Accuracy: {reached:.2%}. The checkpoint is {checkpoint}")
    return 0 if reached >= options.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
