"""Which rows a node was given. Programs of nodes use it."""

from __future__ import annotations

from typing import Any, TextIO


def with_notes(ids: Any, file: TextIO, rows: int) -> Any:
    """A dataset of batches of features and labels, made of one of ids up to ``rows``. Writes the
    ids of each batch into ``file``, a line for each."""
    import tensorflow as tf

    def note(batch):
        print(*batch.numpy(), file=file, flush=True)
        return batch

    def noted(batch):
        batch = tf.py_function(note, [batch], tf.int64)
        batch.set_shape([None])
        x = tf.cast(batch, tf.float32)[:, None] / rows
        return x, 3 * x

    return ids.map(noted)
