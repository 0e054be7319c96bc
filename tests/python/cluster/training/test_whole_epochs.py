"""What an elastic cluster waits for once an epoch was fed."""

from __future__ import annotations

import pytest

from tfos.cluster.feed.whole_epochs import Epoch, WholeEpochs


class Coordinator:
    """Has two nodes that train. It answers a question unless a node has not got a row."""

    drained = begun = 0

    def __init__(self):
        self.asked = []
        self.lost = set()

    def nodes(self):
        return [
            {
                "node_id": node_id,
                "job_name": "worker",
                "task_index": node_id,
                "rank": node_id,
                "host": "h",
                "state": "lost" if node_id in self.lost else "running",
            }
            for node_id in range(2)
        ]

    def send(self, kind, *, queue, epoch, number):
        self.asked.append((kind, epoch))
        if kind == "ask_drained":
            self.drained = number
        else:
            self.begun = number

    def wait(self, condition, timeout, while_waiting):
        assert condition(), "it would wait for ever"


@pytest.fixture
def coordinator():
    return Coordinator()


@pytest.fixture
def whole(coordinator):
    return WholeEpochs(coordinator, lambda doing: None, lambda: False, others_come=True)


def test_the_end_of_an_epoch_waits_for_the_steps_on_its_rows(coordinator, whole):
    whole.feed(lambda epoch: 5, Epoch("input", 3))
    assert coordinator.asked == [("begin_epoch", 3), ("ask_drained", 3)]


def test_an_epoch_without_rows_ends_at_once(coordinator, whole):
    """Programs that wait for their first row would never have made its steps."""
    whole.feed(lambda epoch: 0, Epoch("input", 3))
    assert coordinator.asked == [("begin_epoch", 3)]


def test_an_epoch_without_rows_ends_though_a_node_is_lost(coordinator, whole):
    def feed(epoch):
        coordinator.lost.add(1)
        return 0

    whole.feed(feed, Epoch("input", 3))
    assert coordinator.asked == [("begin_epoch", 3)]


def test_rows_that_were_fed_before_a_node_was_lost_are_waited_for(coordinator, whole):
    """Though all of them are with the others, so that nothing is fed again."""
    fed = []

    def feed(epoch):
        fed.append(epoch.repeats)
        if len(fed) > 1:
            return 0
        coordinator.lost.add(1)
        return 5

    whole.feed(feed, Epoch("input", 3))
    assert fed == [False, True]
    assert coordinator.asked == [("begin_epoch", 3), ("ask_drained", 3)]
