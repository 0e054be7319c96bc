"""When a coordinator counts as one that stands still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from support.waiting import BOUND_SECONDS, wait_for
from tfos.cluster.silence import Silence, SilenceWatch, switches_of, why_silent

LIMIT = 10.0


@pytest.fixture
def silence():
    return Silence(LIMIT, 1.0)


def test_it_is_too_long_at_its_limit(silence):
    assert [silence.goes_on(1.0) for _ in range(10)] == [False] * 9 + [True]


def test_a_sign_of_life_ends_it(silence):
    for _ in range(3):
        assert not any(silence.goes_on(1.0) for _ in range(9))
        silence.end()


def test_a_driver_that_was_suspended_has_not_listened_for_as_long(silence):
    assert not any(silence.goes_on(3600.0) for _ in range(4)), "two looks each at most"


@contextlib.contextmanager
def process_of(program):
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            yield process
        finally:
            process.kill()


WAKES = "import time\nwhile True: time.sleep(0.001)"


def test_a_process_that_stands_still_is_noticed():
    silent = threading.Event()
    with process_of(WAKES) as process:
        before = switches_of(process.pid)
        wait_for(lambda: switches_of(process.pid) > before, "the process to run")
        watch = SilenceWatch(process.pid, 0.5, silent.set)
        assert not silent.is_set()
        os.kill(process.pid, signal.SIGSTOP)
        assert silent.wait(BOUND_SECONDS)
        assert "SIGSTOP" in why_silent(process.pid)
        watch.stop()


def test_a_process_that_wakes_says_nothing_and_is_alive():
    looked, silent = threading.Event(), threading.Event()
    with process_of(WAKES) as process:
        watch = SilenceWatch(process.pid, 3, silent.set)
        # Another one, of a process that sleeps, has its limit at the same time.
        with process_of("import signal\nsignal.pause()") as asleep:
            other = SilenceWatch(asleep.pid, 3, looked.set)
            assert looked.wait(BOUND_SECONDS)
            other.stop()
        watch.stop()
        assert why_silent(process.pid) == ""
    assert not silent.is_set()


def test_a_process_that_has_ended_is_not_silent():
    silent = threading.Event()
    with process_of("") as process:
        wait_for(lambda: switches_of(process.pid) is None, "its end, which nobody has waited for")
        process.wait()
    assert switches_of(process.pid) is None and why_silent(process.pid) == ""
    before = set(threading.enumerate())
    SilenceWatch(process.pid, 0.1, silent.set)
    for thread in set(threading.enumerate()) - before:
        thread.join(BOUND_SECONDS)
        assert not thread.is_alive()
    assert not silent.is_set()
