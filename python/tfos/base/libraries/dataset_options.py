"""The options of the ``tf.data`` datasets that tfos makes."""

from __future__ import annotations

import tensorflow as tf


def make() -> tf.data.Options:
    """New ones, for the caller to add to. A program can set others with ``with_options``."""
    options = tf.data.Options()
    # Each node reads its own rows or files already: nothing is to be sharded once more.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # At the end of an epoch, Keras drops the iterator and waits for the thread that tunes the
    # pipeline. TensorFlow wakes that thread before it marks the iterator as cancelled
    # (CancellationManager::StartCancelWithStatus). On a host with busy cores, the thread looks too
    # early, and sleeps on until its next turn: for up to a minute, in which all nodes wait.
    # Without it, AUTOTUNE means as many calls at once as there are cores, and
    # at most 16.
    options.autotune.enabled = False
    return options
