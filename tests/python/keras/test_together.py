"""How nodes with different numbers of batches come to the end of an epoch, with a stand-in for the
other nodes."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfos.keras import together


class Others:
    """What this node, of rank 1, hears of the others: a list of their rows for each meeting, of
    steps that they have missed, rank, iterations, and whether they are over."""

    def __init__(self, *meetings):
        self._meetings = list(meetings)
        self.roots = []

    def rank(self):
        return 1

    def all_gather(self, own, name):
        rows = [*self._meetings.pop(0), own.numpy()[0].tolist()]
        return tf.constant(sorted(rows, key=lambda row: row[1]), tf.int64)

    def broadcast_variables(self, variables, root, name):
        self.roots.append(root)
        if self._meetings:
            raise tf.errors.AbortedError(None, None, "the root was lost")


def end_epoch(monkeypatch, others, steps_of_others, iterations):
    """The end of an epoch on a node that goes along with so many steps, at each attempt."""
    monkeypatch.setattr(together, "collective", others)
    node = together.Together(None)
    node._like = []
    turns = [True] * steps_of_others + [False] + [False] * 9
    node._without_rows = lambda: turns.pop(0)
    node.end_epoch(iterations, [], [])


def test_all_get_the_values_of_the_one_that_made_all_steps(monkeypatch):
    others = Others([[11, 0, 10, 0], [0, 2, 21, 0]])
    end_epoch(monkeypatch, others, steps_of_others=1, iterations=20)
    assert others.roots == [2]


def test_after_a_loss_all_get_the_values_of_the_one_that_made_most_steps(monkeypatch):
    """Nobody makes a step between the two attempts, so only those before tell the nodes apart."""
    others = Others([[11, 0, 10, 0], [0, 2, 21, 0]], [[11, 0, 10, 0]])
    with pytest.warns(UserWarning, match="Its last steps are gone with it: 1"):
        end_epoch(monkeypatch, others, steps_of_others=1, iterations=20)
    assert others.roots == [2, 1]
