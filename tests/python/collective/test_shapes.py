"""What nodes compare of the shapes of their tensors."""

from __future__ import annotations

import pytest

from support.programs.two_nodes import shapes as programs
from support.two_nodes import TwoNodes


@pytest.fixture(scope="module")
def two_nodes():
    with TwoNodes() as nodes:
        yield nodes


@pytest.mark.parametrize("eager", [False, True])
def test_nodes_may_know_shapes_at_different_times(two_nodes, eager):
    expected = [[[2, 4]], [[2, 4]], [2, 4], [[1, 2]], [[1, 2], [1, 2]]]
    assert two_nodes.run(programs.known_at_different_times, eager) == [expected, expected]


def test_another_shape_among_many_is_told(two_nodes):
    for failure in two_nodes.failures_of(programs.of_many_shapes):
        assert failure.count("30 shapes ") == 2, failure
        assert "all_reduce of 30 tensors of float32: (2,3,) (2,3,)" in failure
