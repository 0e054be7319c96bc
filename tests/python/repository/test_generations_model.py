"""The model of docs/formats/generations.md keeps its rules, and would find it if one was left out."""

import sys

import pytest

from support.places import ROOT

sys.path.append(str(ROOT / "docs/formats/generations_model"))

from generation_rules import Model
from generation_search import SIZES, search
from generation_states import initial


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "-".join(map(str, size)))
def test_every_run_keeps_the_rules_and_ends(size):
    assert size.search() > 1000


@pytest.mark.parametrize(
    ("rule", "nodes", "joins", "wrong"),
    [
        ("barrier", 3, 0, "hears Group"),
        pytest.param("committed", 3, 0, "waits for ever", marks=pytest.mark.long),
        ("leavers", 3, 0, "is one of"),
        ("admits", 2, 1, "members do different things"),
        ("state", 1, 1, "nobody has the state"),
    ],
)
def test_a_rule_that_is_left_out_shows(rule, nodes, joins, wrong):
    with pytest.raises(AssertionError, match=wrong):
        search(Model(2, break_rule=rule), initial(nodes, 1, joins))


@pytest.mark.parametrize("goal", ["has the state", "failed"])
def test_below_the_minimum_it_waits_for_another_or_fails(goal):
    """Both ends are reached, so neither is what always happens."""

    class Searching(Model):
        reached = False

        def check(self, world):
            newcomer = world.nodes[2]
            trained = newcomer.lacks == 0 and newcomer.doing == "gone" and newcomer.alive
            self.reached |= world.failed if goal == "failed" else bool(trained and world.lost)
            return super().check(world)

    model = Searching(2, min_nodes=2)
    search(model, initial(2, 1, 1))
    assert model.reached
