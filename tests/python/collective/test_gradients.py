"""Losses of what other nodes have given, against the same sum of losses on one machine."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from support.programs.two_nodes import gradients as programs
from support.two_nodes import TwoNodes


class Together:
    """All nodes' rows on one machine, which has nothing to exchange."""

    def __init__(self, nodes):
        self._nodes = nodes

    def gather(self, rows):
        return tf.concat(self._nodes, axis=0)

    def broadcast(self, rows):
        return self._nodes[1][:2]

    def reduce(self, rows, how):
        weights = {"sum": [1, 1], "mean": [0.5, 0.5], "weighed": [0.75, 0.25]}[how]
        return sum(weight * node[:2] for weight, node in zip(weights, self._nodes, strict=True))


def on_one_machine(loss):
    """The gradient of each node's rows."""
    nodes = [tf.constant(rows) for rows in programs.ROWS]
    with tf.GradientTape() as tape:
        tape.watch(nodes)
        together = Together(nodes)
        total = sum(loss(together, rank, rows) for rank, rows in enumerate(nodes))
    return [tf.convert_to_tensor(each).numpy() for each in tape.gradient(total, nodes)]


@pytest.fixture(scope="module")
def two_nodes():
    with TwoNodes() as nodes:
        yield nodes


@pytest.mark.parametrize("in_graph", [pytest.param(False, marks=pytest.mark.long), True])
def test_gradients_are_those_of_the_sum_of_all_losses(two_nodes, in_graph):
    found = two_nodes.run(programs.differentiate, in_graph)
    for place, loss in enumerate(programs.LOSSES):
        expected = on_one_machine(loss)
        for rank, gradients in enumerate(found):
            np.testing.assert_allclose(
                gradients[place], expected[rank], rtol=1e-12, err_msg=f"{loss.__name__} of {rank}"
            )
            assert np.abs(expected[rank]).max() > 0


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_node_that_leaves_in_between_moves_no_gradient(two_nodes, in_graph):
    _, (gathered, mean) = two_nodes.run(programs.left_in_between, in_graph)
    np.testing.assert_array_equal(gathered, [[3, 3], [4, 4]])  # And not the other's 1 and 2.
    np.testing.assert_array_equal(mean, np.full((2, 2), 2 / 5))  # The other weighed 3.
