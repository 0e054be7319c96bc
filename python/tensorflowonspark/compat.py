"""Differences between TensorFlow versions, as old programs expect them to be hidden."""

from __future__ import annotations

from tfos.inference import saved_model


def export_saved_model(model, export_dir, is_chief=False):
    """Exports a model; what nodes other than the chief write is thrown away."""
    saved_model.export(model, export_dir, write=is_chief)


def disable_auto_shard(options):
    """Makes ``options`` (tf.data.Options) leave every worker its whole dataset."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available():
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
