"""Metrics over nodes, compared with those of one machine that has the rows of both."""

from __future__ import annotations

import numpy as np
import pytest

from support.programs.two_nodes import metrics as programs
from support.two_nodes import TwoNodes


@pytest.fixture(scope="module")
def nodes():
    with TwoNodes() as both:
        yield both


def assert_as_one_machine(nodes, *arguments):
    chief, worker = nodes.run(programs.logs_of, *arguments)
    expected = programs.logs_of(None, *arguments)
    assert chief == worker and set(chief) == set(expected)
    assert "val_loss" in chief
    for name, values in expected.items():
        np.testing.assert_allclose(chief[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("outputs", [("a",), ("a", "b")], ids=["one output", "several"])
@pytest.mark.parametrize("package", ["keras", pytest.param("tf_keras", marks=pytest.mark.long)])
def test_metrics_are_those_of_one_machine(nodes, package, outputs):
    assert_as_one_machine(nodes, package, "on all", outputs)


def test_a_node_without_rows_to_validate_with_gets_the_metrics_of_the_others(nodes):
    assert_as_one_machine(nodes, "keras", "on one", ("a",))


def test_what_a_step_returns_by_itself_is_averaged(nodes):
    chief, worker = nodes.run(programs.own_steps, "d_loss")
    assert chief == worker == {"d_loss": [2.5, 2.5]}  # of 1 and 4
    # Keras takes this one for its own metric, which has counted nothing.
    assert nodes.run(programs.own_steps, "loss") == [programs.own_steps(None, "loss")] * 2


def test_variables_that_are_no_sums_are_averaged_by_rows(nodes):
    chief, worker = nodes.run(programs.own_metrics)
    assert chief["largest"] == worker["largest"] == [20.0]  # of 8 in one row, and 24 in three
    assert chief["rank"] == worker["rank"] == [0.75]
    assert (chief["largest left"], worker["largest left"]) == (8.0, 24.0)
