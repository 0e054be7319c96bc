"""The models beside the pages of the protocols: what they say of the rules, and of worse ones."""

import pytest
import take_over


@pytest.mark.parametrize(
    "rules",
    [
        take_over.Rules(),
        pytest.param(take_over.Rules(attempts=3, items=1), marks=pytest.mark.long),
    ],
)
def test_attempts_that_overlap_bring_every_row_once(rules: take_over.Rules) -> None:
    outcome = take_over.search(rules)
    assert outcome.broken == {}
    assert outcome.states > 10_000, "the search ended early"


def test_the_order_of_arrival_brings_rows_twice_and_ends_all_attempts() -> None:
    outcome = take_over.search(take_over.Rules(by_arrival=True))
    assert outcome.broken.keys() == {take_over.ONCE, take_over.LAST}
    assert sum("sends item 0" in step for step in outcome.broken[take_over.ONCE]) == 2


def test_doing_without_a_node_that_runs_brings_rows_twice() -> None:
    outcome = take_over.search(take_over.Rules(leaves_out=True))
    assert outcome.broken.keys() == {take_over.ONCE}
    assert any("leaves node" in step for step in outcome.broken[take_over.ONCE])
