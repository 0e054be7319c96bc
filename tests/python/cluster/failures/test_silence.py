"""When a coordinator counts as one that stands still."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from support.waiting import BOUND_SECONDS, wait_for
from tfos.cluster import silence as silence_module
from tfos.cluster.silence import Silence, SilenceWatch, signs_of_life, why_silent

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
        before = signs_of_life(process.pid)
        wait_for(lambda: signs_of_life(process.pid) != before, "the process to run")
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
        wait_for(lambda: signs_of_life(process.pid) is None, "its end, which nobody has waited for")
        process.wait()
    assert signs_of_life(process.pid) is None and why_silent(process.pid) == ""
    before = set(threading.enumerate())
    SilenceWatch(process.pid, 0.1, silent.set)
    for thread in set(threading.enumerate()) - before:
        thread.join(BOUND_SECONDS)
        assert not thread.is_alive()
    assert not silent.is_set()


@pytest.mark.parametrize("status", ["State:\tS (sleeping)\nThreads:\t1\n", ""])
def test_where_the_kernel_counts_nothing_nobody_is_silent(monkeypatch, status):
    """As in some sandboxes for containers."""
    monkeypatch.setattr(silence_module, "_read", lambda pid, name: status)
    assert signs_of_life(os.getpid()) is None


def test_what_can_not_be_read_for_a_moment_tells_nothing(monkeypatch):
    def fails(pid, name):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with process_of(WAKES) as process:
        assert signs_of_life(process.pid)
        monkeypatch.setattr(silence_module, "_read", fails)
        assert signs_of_life(process.pid) == ()


def test_a_process_that_computes_without_a_pause_is_alive():
    with process_of("while True: pass") as process:
        before = signs_of_life(process.pid)
        wait_for(lambda: signs_of_life(process.pid)[2:] > before[2:], "the process to run")
