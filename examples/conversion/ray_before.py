"""Keras through Ray Train: ray_before.py DIGITS.parquet MODEL.keras"""

import sys

import ray.data
import tensorflow as tf
import tf_keras as keras
from ray import train
from ray.train.tensorflow import TensorflowTrainer


def train_loop(config):
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, "softmax")])
        model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    rows = train.get_dataset_shard("train").to_tf("pixels", "label", batch_size=32)
    for _ in range(5):
        train.report({"loss": model.fit(rows, verbose=0).history["loss"][0]})
    if train.get_context().get_world_rank() == 0:
        model.save(config["path"])


data = {"train": ray.data.read_parquet(sys.argv[1])}
workers = train.ScalingConfig(num_workers=2)
TensorflowTrainer(
    train_loop, train_loop_config={"path": sys.argv[2]}, scaling_config=workers, datasets=data
).fit()
