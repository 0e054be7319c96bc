"""MNIST by softmax regression, as the old package's example had it.

$ hadoop fs -mkdir -p /data/mnist; hadoop fs -put MNIST_data/* /data/mnist
>>> import tensorspark.example.spark_mnist as mnist
>>> mnist.train(sc=sc, sync_interval=100, batch_size=100, num_partition=1, num_epoch=2)
"""

from __future__ import annotations

import gzip
import itertools
import os
from typing import Any

import numpy as np
import tensorflow as tf

from tensorspark.core import spark_session as sps
from tensorspark.core import weight_combiner
from tfos.errors import BadInputError
from tfos.files import access as file_access
from tfos.files import paths

tf1 = tf.compat.v1

#: The directory of MNIST's four files, packed (.gz) or not: on Spark's default file system, which
#: is HDFS on a cluster, unless it is a URI.
data_dir = "/data/mnist"

#: Where the data are if they are not there: right in ``/data``, as the old package's readme says.
OTHER_DATA_DIR = "/data"

#: What the files are called after "train-images-" and so on: as published, and in the old package.
_IMAGES = ("idx3-ubyte", "idx1-ubyte")
_LABELS = ("idx1-ubyte",)


def train(
    sc: Any = None,
    user: str | None = None,
    name: str = "spark_mnist",
    server_host: str = "localhost",
    server_port: int = 10080,
    sync_interval: int = 100,
    batch_size: int = 100,
    num_partition: int = 1,
    num_epoch: int = 1,
    server_reusable: bool = True,
) -> Any:
    """Trains, prints the accuracy of the test images, and returns the session."""
    own = sc is None
    if own:
        from pyspark import SparkContext

        sc = SparkContext(appName=name)
    rows = sc.parallelize(read("train", paths.default_fs(sc)), num_partition).cache()
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 784])
        w = tf1.Variable(tf.zeros([784, 10]))
        b = tf1.Variable(tf.zeros([10]))
        logits = tf.matmul(x, w) + b
        y = tf1.placeholder(tf.float32, [None, 10])
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = tf1.train.GradientDescentOptimizer(0.5).minimize(loss)
        right = tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1))
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        session = tf1.Session()
        session.run(tf1.global_variables_initializer())
    spark_session = sps.SparkSession(
        sc,
        session,
        user=user or "",
        name=name,
        server_host=server_host,
        server_port=server_port,
        sync_interval=sync_interval,
        batch_size=batch_size,
    )
    for _ in range(num_epoch):
        spark_session.run(
            step,
            feed_rdd=rows,
            feed_name_list=[x.name, y.name],
            param_list=[w, b],
            weight_combiner=weight_combiner.DeltaWeightCombiner(),
            shuffle_within_partition=True,
            server_reusable=server_reusable,
        )
    spark_session.close()
    images, labels = zip(*read("t10k", paths.default_fs(sc)), strict=True)
    print(session.run(accuracy, {x: np.stack(images), y: np.stack(labels)}))
    if own:
        sc.stop()
    return session


def read(part: str, default_fs: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """``train`` or ``t10k`` as rows: 784 pixels from 0 to 1, and a one-hot label."""
    images = _read_file(default_fs, f"{part}-images", _IMAGES, 16).reshape(-1, 784) / np.float32(
        255
    )
    labels = np.eye(10, dtype=np.float32)[_read_file(default_fs, f"{part}-labels", _LABELS, 8)]
    return list(zip(images, labels, strict=True))


def _read_file(default_fs: str, name: str, kinds: tuple[str, ...], header_bytes: int) -> np.ndarray:
    looked_in = [
        paths.resolve(default_fs, os.getcwd(), directory)
        for directory in dict.fromkeys((data_dir, OTHER_DATA_DIR))
    ]
    for uri in looked_in:
        access, directory = file_access.access_for(uri)
        for kind, (ending, unpack) in itertools.product(
            kinds, (("", bytes), (".gz", gzip.decompress))
        ):
            path = f"{directory}/{name}-{kind}{ending}"
            if access.status(path) is not None:
                with access.open(path) as file:
                    return np.frombuffer(unpack(file.read()), np.uint8, offset=header_bytes)
    raise BadInputError(
        f"{name}-{kinds[0]} was not found in {' or '.join(looked_in)}: put MNIST's files "
        f"there, or set "
        "tensorspark.example.spark_mnist.data_dir to their directory"
    )
