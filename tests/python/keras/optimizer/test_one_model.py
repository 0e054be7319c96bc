"""What could have each node train a model of its own, where all are to train one."""

from __future__ import annotations

import pytest

from support.programs import optimizer as programs
from support.two_nodes import TwoNodes


@pytest.fixture(scope="module")
def nodes():
    with TwoNodes() as both:
        yield both


@pytest.mark.parametrize("kind", ["by compile", "batch", "own", "both", "legacy"])
def test_a_scaling_of_losses_around_the_optimizer_is_refused(nodes, kind):
    """The node whose gradients overflow would leave out a step of the others."""
    for error in nodes.failures_of(programs.scaled_on_each_node, kind):
        assert error.startswith("BadInputError: LossScaleOptimizer")
        assert "Call ctx.distribute after set_dtype_policy" in error
