"""What the driver makes of the position within an epoch that a checkpoint has."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tfos.cluster.feed.position import Position
from tfos.cluster.feed.run import _check_partitions
from tfos.cluster.resumption import Resumption
from tfos.cluster.training import plan_training
from tfos.errors import BadInputError

pytestmark = pytest.mark.quick

#: Partition, first item, item after the last, checksum, rows, first row, row after the last.
LINES = np.array(
    [
        [0, 0, 16, 4294967295, 16, 0, 16],
        [0, 16, 48, 7, 32, 0, 5],
        [0, 16, 48, 7, 32, 20, 22],
        [3, 0, 2, 8, 20, 0, 20],
    ],
    np.uint64,
)


def position(lines=LINES):
    return Position("input", lines)


def test_a_position_says_what_is_left_out_and_what_comes_in_part():
    found = position()
    assert (found.rows, found.partitions) == (43, 4)
    assert found.of_plan() == {
        0: "[[0, 16, 4294967295, true], [16, 48, 7, false]]",
        3: "[[0, 2, 8, true]]",
    }
    assert found.partly() == [(0, 16, 48, 7, 0, 5), (0, 16, 48, 7, 20, 22)]


def test_a_position_before_the_first_row():
    found = position(LINES[:0])
    assert (found.rows, found.partitions, found.of_plan(), found.partly()) == (0, 0, {}, [])


def test_nodes_hear_of_it():
    resumption = Resumption("file:///run", 2, 7, position())
    assert resumption.of_node() == {
        "directory": "file:///run",
        "epochs": 2,
        "step": 7,
        "queue": "input",
        "trained": position().partly(),
    }
    assert str(resumption).endswith(
        "| 2 epochs and 43 rows of the next one are done in file:///run"
    )
    first = Resumption("file:///run", 0, 7, position())
    assert str(first).endswith("| 43 rows of the first epoch are done in file:///run")
    anew = Resumption("file:///run", 2, 7, begins_anew="a reason")
    assert anew.of_node() == {"directory": "file:///run", "epochs": 2}
    assert str(anew).endswith(
        "| 2 epochs are done in file:///run, and the next one begins anew: a reason"
    )


class Level(str):
    def toString(self):
        return str(self)


class Rdd(SimpleNamespace):
    def getNumPartitions(self):
        return self.partitions


@pytest.mark.parametrize(
    ("asked", "begins_anew"),
    [
        ({}, ""),
        ({"queue": "other"}, ""),
        ({"shuffle": 5}, ""),
        ({"shuffle": True}, "shuffle=True has another order"),
        ({"cache": "memory"}, "the nodes keep the rows"),
        ({"cache": "memory", "may_lose_nodes": True}, ""),
        ({"cache": "memory", "epochs": 3}, ""),
        ({"partitions": 3}, "the data has 3 partitions, and had 4 at least"),
        ({"partitions": 5}, ""),
        ({"is_cached": False}, "Spark does not promise that they come in the same order"),
    ],
)
def test_when_the_epoch_begins_anew(asked, begins_anew):
    queue = asked.pop("queue", "input")
    shuffled = SimpleNamespace(
        rdd=lambda: SimpleNamespace(outputDeterministicLevel=lambda: Level("UNORDERED"))
    )
    data = Rdd(
        partitions=asked.pop("partitions", 4),
        is_cached=asked.pop("is_cached", True),
        is_checkpointed=False,
        _jrdd=shuffled,
    )
    how = {"epochs": 4, "shuffle": False, "cache": None, **asked}
    plan = plan_training(
        {queue: data}, **how, resumption=Resumption("file:///run", 2, 7, position())
    )
    assert begins_anew in plan.begins_anew and bool(begins_anew) == bool(plan.begins_anew)
    assert (plan.position is not None) == (queue == "input" and not begins_anew)


def test_partitions_that_are_gone_are_found_out():
    plan = SimpleNamespace(trained=position().of_plan())
    for fed in (0, 4, 5):
        _check_partitions(plan, fed)
    with pytest.raises(BadInputError, match="the data has 3 partitions, and had 4 at least"):
        _check_partitions(plan, 3)
    _check_partitions(SimpleNamespace(trained={}), 1)
