"""What a node says of its collective operations, without a group."""

from __future__ import annotations

import sys

import pytest

from support.places import ROOT
from tfos.keras.rates import OF_COLLECTIVES
from tfos.node import collectives


class Node:
    """Counters and a clock that a test moves."""

    def __init__(self):
        self.now, self.taken = 1000.0, {}
        self.recent = collectives.Recent(lambda: self.taken, lambda: self.now)

    def after(self, seconds, took=0.0, waited=0.0, moved=0.0):
        """What it reports then."""
        self.now += seconds
        grown = dict(zip(OF_COLLECTIVES, (took, waited, moved), strict=True))
        self.taken = {name: self.taken.get(name, 0.0) + grown[name] for name in grown}
        return self.recent.look()


def test_a_process_without_a_group_says_nothing(monkeypatch):
    monkeypatch.delitem(sys.modules, "tfos.collective", raising=False)
    assert collectives.counters() == {} and collectives.Recent().look() == {}


def test_rates_are_of_the_time_since_the_first_look():
    node = Node()
    assert node.after(5, took=3) == {}, "of the time before nobody knows when it began"
    assert node.after(2, took=0.5, waited=0.25, moved=100) == {
        "share_in_collectives": 0.25,
        "share_waiting_for_nodes": 0.125,
        "collective_bytes_per_second": 50,
    }


def test_what_is_long_ago_does_not_count():
    node = Node()
    node.after(1)
    for _ in range(100):
        node.after(0.5, took=0.5)
    for _ in range(20):
        said = node.after(0.5, took=0.125)
    assert said["share_in_collectives"] == pytest.approx(0.25)
    assert node.after(1000)["share_in_collectives"] == 0


def test_looks_that_follow_fast_are_not_all_kept():
    node = Node()
    for _ in range(10_000):
        node.after(1 / 1024, took=1 / 2048)
    assert len(node.recent._looks) <= 21
    assert node.recent.look()["share_in_collectives"] == pytest.approx(0.5)


def test_a_share_is_at_most_all_of_the_time():
    """An operation that began a minute ago has ended."""
    node = Node()
    node.after(1)
    said = node.after(1, took=60, waited=59, moved=8)
    assert said == {
        "share_in_collectives": 1,
        "share_waiting_for_nodes": 1,
        "collective_bytes_per_second": 8,
    }


def test_the_page_for_operators_explains_them():
    text = (ROOT / "docs/metrics.md").read_text()
    assert [name for name in OF_COLLECTIVES.values() if f"| `{name}` |" not in text] == []
