"""When nodes look whether a checkpoint is due, by a clock that the test moves. One node alone; with
others, as far as nothing but their answers is needed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tfos.keras.position import looks as looks_of
from tfos.keras.position.looks import Looks

pytestmark = pytest.mark.quick


class Feed:
    def begin_log(self):
        return ("input", 0)

    drawn = None

    def batches_drawn(self, queue, epoch):
        return self.drawn

    def position_after(self, queue, epoch, batches):
        return b"%d" % batches

    def merge_positions(self, nodes, before):
        return b",".join([before, *nodes])


class Training:
    """One epoch: steps take as long as they are told to, and checkpoints are noted."""

    def __init__(self, monkeypatch, every, due_in=None):
        self.now = 1000.0
        self.every = every
        self.last = self.now
        #: By step: the second, and the rows.
        self.written = []
        monkeypatch.setattr(looks_of.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(looks_of, "is_step_by_step", lambda *_: True)
        self.feed = Feed()
        self.looks = Looks(self.feed, every, due_in or self.due_in, self.save)
        self.step = 0

    def due_in(self):
        return self.last + self.every - self.now

    def save(self, trained):
        self.last = self.now
        self.written.append((self.step, self.now - 1000.0, trained))

    def begin(self):
        self.looks.begin_epoch(SimpleNamespace(optimizer=None), {}, [])

    def make(self, steps, seconds):
        for _ in range(steps):
            self.now += seconds
            self.step += 1
            self.looks.after_step(self.step)


@pytest.mark.parametrize(
    ("every", "fast", "slow"), [(600.0, 3, 0.2), (600.0, 500, 0.2), (60.0, 1, 1.0)]
)
def test_steps_that_become_slower_delay_a_checkpoint_little(monkeypatch, every, fast, slow):
    # As when the first rows were fed ahead, and later ones are waited for.
    training = Training(monkeypatch, every)
    training.begin()
    training.make(fast, 0.005)
    training.make(int(4 * every / slow), slow)
    times = [0.0, *(second for _, second, _ in training.written)]
    assert 3 <= len(training.written) <= 4
    assert max(np.diff(times)) < every + 60


def test_steps_that_become_much_slower_after_an_hour(monkeypatch):
    training = Training(monkeypatch, 600.0)
    training.begin()
    training.make(360_000, 0.01)
    training.make(7200, 1.0)
    times = [second for _, second, _ in training.written]
    # A look was to come 30 seconds later, as steps were: 3,000 steps.
    assert max(np.diff(times)) < 3000 + 600 + 60


def test_looks_are_few(monkeypatch):
    asked = 0

    def due_in():
        nonlocal asked
        asked += 1
        return training.due_in()

    training = Training(monkeypatch, 600.0, due_in)
    training.begin()
    training.make(360_000, 0.01)  # An hour.
    assert len(training.written) >= 5
    assert asked < 3600 / 30 + 60


def test_a_checkpoint_has_the_rows_of_its_step(monkeypatch):
    training = Training(monkeypatch, 0.0)
    training.looks.begin_after(5, b"before")
    training.step = 5
    training.begin()
    training.make(3, 1.0)
    assert [(step, trained) for step, _, trained in training.written] == [
        (6, ("input", b"before,1")),
        (7, ("input", b"before,2")),
        (8, ("input", b"before,3")),
    ]
    assert training.looks.end_epoch(lambda: True) == (True, None)
    training.begin()
    assert training.looks.end_epoch(lambda: False) == (False, ("input", b",0"))


@pytest.mark.parametrize(("drawn", "is_known"), [(2, True), (3, False), (None, True)])
def test_batches_that_were_no_steps_leave_later_epochs_without_rows(monkeypatch, drawn, is_known):
    training = Training(monkeypatch, 60.0)
    training.begin()
    training.make(2, 1.0)
    training.feed.drawn = drawn
    assert training.looks.end_epoch(lambda: True) == (True, None)
    training.begin()
    assert training.looks.is_known is is_known


def test_a_warning_names_all_that_may_have_hidden_the_rows(monkeypatch):
    training = Training(monkeypatch, 0.0)
    monkeypatch.setattr(training.feed, "position_after", lambda *_: None, raising=False)
    training.begin()
    training.make(1, 1.0)
    with pytest.warns(RuntimeWarning, match="replay them.*two calls.*else than fit"):
        training.looks.say_why_not()


def test_without_a_log_each_node_decides_for_itself(monkeypatch):
    training = Training(monkeypatch, 0.0)
    monkeypatch.setattr(looks_of, "is_step_by_step", lambda *_: False)
    training.begin()
    training.make(2, 1.0)
    assert training.written == []
    asked = []
    assert training.looks.end_epoch(lambda: asked.append(1) is None) == (None, None)
    assert not asked


@pytest.mark.parametrize(("own", "other", "whole"), [(1, 0, False), (0, 1, False), (0, 0, True)])
def test_an_epoch_that_one_node_has_not_had_whole_is_not_whole(monkeypatch, own, other, whole):
    training = Training(monkeypatch, None)
    looks = training.looks
    training.begin()
    looks._is_alone = False
    monkeypatch.setattr(looks_of.collective, "rank", lambda: 0)
    monkeypatch.setattr(
        looks_of,
        "_gather",
        lambda numbers, name: np.array([[0, *map(int, numbers)], [1, other, 0]]),
    )
    monkeypatch.setattr(looks_of, "_of_all", lambda part, is_alone: [part, b"of another"])
    found, trained = looks.end_epoch(lambda: not own)
    assert found is whole
    assert trained == (None if whole else ("input", b",0,of another"))
