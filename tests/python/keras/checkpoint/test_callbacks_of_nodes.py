"""Callbacks of Keras that change what is in the model or in files, in a training that goes on."""

from __future__ import annotations

import pytest

from support.comparing import assert_same
from support.programs.two_nodes import optimizer as programs
from support.two_nodes import TwoNodes


@pytest.fixture(scope="module")
def nodes():
    with TwoNodes() as both:
        yield both


def test_averages_that_were_in_the_model_go_back_to_their_place(nodes, tmp_path):
    (stopped, whole), (others_stopped, _) = nodes.run(programs.swapped, str(tmp_path))
    assert_same(stopped, whole)
    assert_same(stopped, others_stopped)


def test_the_best_model_is_not_replaced_by_a_worse_one(nodes, tmp_path):
    nodes.run(programs.kept_best, str(tmp_path))
    saved = sorted(path.name for path in tmp_path.glob("best-*"))
    assert saved == [f"best-{epoch}.weights.h5" for epoch in (1, 2, 4)]
