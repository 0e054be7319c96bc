"""Which sessions of models are kept, and which threads wait for a load."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfos.inference.sessions import Sessions

BOUND_SECONDS = 60


class Load:
    """Loads what it returns, or fails, once the test lets it."""

    def __init__(self, outcome):
        self._outcome = outcome
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self):
        self.began.set()
        assert self.go.wait(BOUND_SECONDS)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def never():
    raise AssertionError("there is one")


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_a_load_holds_up_no_other_model(pool):
    sessions, slow = Sessions(most=2), Load("slow")
    assert sessions.get("kept", "1", lambda: "kept") == "kept"
    first = pool.submit(sessions.get, "slow", "1", slow)
    assert slow.began.wait(BOUND_SECONDS)
    assert sessions.get("kept", "1", never) == "kept"
    assert sessions.get("new", "1", lambda: "new") == "new"
    slow.go.set()
    assert first.result(BOUND_SECONDS) == "slow"


def test_a_load_is_shared(pool):
    sessions, slow = Sessions(most=2), Load("slow")
    first = pool.submit(sessions.get, "slow", "1", slow)
    assert slow.began.wait(BOUND_SECONDS)
    second = pool.submit(sessions.get, "slow", "1", never)
    slow.go.set()
    assert first.result(BOUND_SECONDS) == second.result(BOUND_SECONDS) == "slow"
    assert sessions.loaded() == ["slow"]


def test_a_failed_load_is_not_kept(pool):
    sessions, broken = Sessions(most=2), Load(OSError("the disk is gone"))
    first = pool.submit(sessions.get, "a", "1", broken)
    assert broken.began.wait(BOUND_SECONDS)
    broken.go.set()
    with pytest.raises(OSError, match="the disk is gone"):
        first.result(BOUND_SECONDS)
    assert sessions.get("a", "1", lambda: "again") == "again"


def test_a_failed_load_takes_no_newer_one_with_it(pool):
    sessions, broken = Sessions(most=2), Load(OSError("the disk is gone"))
    first = pool.submit(sessions.get, "a", "1", broken)
    assert broken.began.wait(BOUND_SECONDS)
    assert sessions.get("a", "2", lambda: "newer") == "newer"
    broken.go.set()
    with pytest.raises(OSError, match="the disk is gone"):
        first.result(BOUND_SECONDS)
    assert sessions.get("a", "2", never) == "newer"


def test_the_last_ones_are_kept_with_the_stamp_they_had():
    sessions = Sessions(most=2)
    for key, stamp in (("a", "1"), ("b", "1"), ("a", "1"), ("c", "1"), ("c", "2")):
        sessions.get(key, stamp, lambda key=key, stamp=stamp: key + stamp)
    assert sessions.loaded() == ["a1", "c2"]
    assert sessions.get("a", "1", never) == "a1"
