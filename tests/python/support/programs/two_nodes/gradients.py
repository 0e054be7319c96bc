"""Programs of two nodes that differentiate what they exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfos import collective

#: The rows of each node: they differ in number.
ROWS = [np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]]), np.array([[2.0, 5.0], [-3.0, 1.0]])]
#: What a node weighs in a mean.
WEIGHTS = [3.0, 1.0]


def scores(rank: int, values: Any) -> Any:
    """Of each node other ones, so gradients from its own loss alone would be others."""
    return tf.reduce_sum(tf.square(values) * (rank + 1.5) + values)


def gathered(exchange: Any, rank: int, rows: Any) -> Any:
    return scores(rank, exchange.gather(rows))


def summed(exchange: Any, rank: int, rows: Any) -> Any:
    return scores(rank, exchange.reduce(rows[:2], "sum"))


def averaged(exchange: Any, rank: int, rows: Any) -> Any:
    return scores(rank, exchange.reduce(rows[:2], "mean"))


def weighed(exchange: Any, rank: int, rows: Any) -> Any:
    return scores(rank, exchange.reduce(rows[:2], "weighed"))


def broadcast(exchange: Any, rank: int, rows: Any) -> Any:
    return scores(rank, exchange.broadcast(rows[:2])) + tf.reduce_sum(rows)


def partly(exchange: Any, rank: int, rows: Any) -> Any:
    """Some rows alone, so their gradient is sparse; and of one node no loss at all."""
    found = tf.gather(exchange.gather(rows), [4, 0, 0])
    return scores(rank, found) * (1.0 if rank == 0 else 0.0)


def contrastive(exchange: Any, rank: int, rows: Any) -> Any:
    """Each row against those of all nodes."""
    similar = tf.matmul(rows, exchange.gather(rows), transpose_b=True)
    return -tf.reduce_sum(tf.linalg.diag_part(tf.nn.log_softmax(similar)))


LOSSES: list[Callable[[Any, int, Any], Any]] = [
    gathered,
    summed,
    averaged,
    weighed,
    broadcast,
    partly,
    contrastive,
]


class Nodes:
    """What a node of two does."""

    def __init__(self, rank: int):
        self._rank = rank

    def gather(self, rows: Any) -> Any:
        return collective.all_gather(rows)

    def broadcast(self, rows: Any) -> Any:
        return collective.broadcast(rows, root=1)

    def reduce(self, rows: Any, how: str) -> Any:
        if how == "weighed":
            return collective.all_reduce(rows, weight=WEIGHTS[self._rank])
        return collective.all_reduce(rows, how)


def left_in_between(ctx: Any, in_graph: bool) -> list[np.ndarray]:
    """The gradients of gathered rows and of a mean, of a node that is alone when it asks for
    them: the other has left after what they did together."""
    rank = collective.rank()
    # So that they fit in the place of the other node's, too.
    rows = tf.constant(ROWS[rank][:2])

    def exchange(rows: Any) -> Any:
        scales = tf.constant([[1.0], [2.0], [3.0], [4.0]], tf.float64)
        return collective.all_gather(rows) * scales, collective.all_reduce(rows, weight=3.0 - rank)

    def gradients_of(rows: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(rows)
            gathered, mean = exchange(rows)
        return [tape.gradient(value, rows) for value in (gathered, mean)]

    work = exchange if rank == 0 else gradients_of
    return [each.numpy() for each in (tf.function(work) if in_graph else work)(rows)]


def differentiate(ctx: Any, in_graph: bool) -> list[np.ndarray]:
    """This node's gradient of each loss."""
    rank = collective.rank()
    # In a graph, rows of which nobody knows before how many there are.
    shape = [None, 2] if in_graph else ROWS[rank].shape
    found = []
    for loss in LOSSES:

        def gradient_of(rows: Any, loss: Any = loss) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(rows)
                value = loss(Nodes(rank), rank, rows)
            return tf.convert_to_tensor(tape.gradient(value, rows))

        compute: Any = gradient_of
        if in_graph:
            compute = tf.function(gradient_of, input_signature=[tf.TensorSpec(shape, tf.float64)])
        found.append(compute(tf.constant(ROWS[rank])).numpy())
    return found
