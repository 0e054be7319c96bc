"""The model of docs/formats/generations.md keeps its rules, and would find it if one was left out."""

import sys

import pytest

from support.places import ROOT

sys.path.append(str(ROOT / "docs/formats/generations_model"))

from generation_rules import Model
from generation_search import SIZES, search
from generation_states import initial


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "-".join(map(str, size)))
def test_every_run_keeps_the_rules_and_ends(size):
    transactions, nodes, failures, joins = size
    states = search(Model(transactions), initial(nodes, failures, joins))
    assert states > 1000


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [("barrier", "hears Group"), ("committed", "waits for ever"), ("leavers", "is one of")],
)
def test_a_rule_that_is_left_out_shows(rule, wrong):
    with pytest.raises(AssertionError, match=wrong):
        search(Model(2, break_rule=rule), initial(3, 1, 0))


def test_below_the_minimum_the_cluster_fails():
    states = search(Model(1, min_nodes=3), initial(3, 1, 0))
    assert states > 100
