"""Programs of two nodes that know the shapes of what they exchange at different times."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfos import collective


def known_at_different_times(ctx: Any, eager: bool) -> list[list[float]]:
    """What the nodes exchange in all ways, where one of them knows no sizes before it runs."""

    def exchange(rows: Any) -> list[Any]:
        return [
            collective.all_reduce(rows, "sum"),
            *collective.all_reduce([rows, rows[0]], "sum"),
            collective.broadcast(rows),
            collective.all_gather(rows),
        ]

    if collective.rank() == 0:
        exchange = tf.function(exchange, input_signature=[tf.TensorSpec([None, None])])
    elif not eager:
        exchange = tf.function(exchange)
    return [value.numpy().tolist() for value in exchange(tf.constant([[1.0, 2.0]]))]


def of_many_shapes(ctx: Any) -> None:
    """Fails: one of thirty tensors has another shape, and as many elements."""
    shapes = [[2, 3]] * 30
    if collective.rank() == 0:
        shapes[29] = [3, 2]
    collective.all_reduce([tf.zeros(shape) for shape in shapes])
