"""When a coordinator counts as one that stands still."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading

import pytest

from support.waiting import BOUND_SECONDS, wait_for
from tfos.cluster.silence import Silence, SilenceWatch, why_silent

LIMIT = 10.0


@pytest.fixture
def silence():
    """Of somebody who has answered once."""
    silence = Silence(LIMIT, 1.0)
    silence.answer()
    return silence


def test_it_is_too_long_at_its_limit(silence):
    assert [silence.goes_on(1.0) for _ in range(10)] == [False] * 9 + [True]


def test_a_sign_of_life_ends_it(silence):
    for _ in range(3):
        assert not any(silence.goes_on(1.0) for _ in range(9))
        silence.end()


def test_a_driver_that_was_suspended_has_not_listened_for_as_long(silence):
    assert not any(silence.goes_on(3600.0) for _ in range(4)), "two looks each at most"


def test_who_can_not_be_reached_is_not_silent():
    """A firewall, say, or no descriptor is left for a connection."""
    silence = Silence(LIMIT, 1.0)
    assert not any(silence.goes_on(1.0) for _ in range(100))


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(BOUND_SECONDS)
        yield server


def answer(server):
    connection, _ = server.accept()
    with connection:
        assert connection.recv(4096).startswith(b"GET / HTTP/1.1\r\n")
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def test_what_has_answered_and_takes_no_more_connections_is_noticed(server):
    silent = threading.Event()
    watch = SilenceWatch("127.0.0.1", server.getsockname()[1], 0.5, lambda: 0, silent.set)
    for _ in range(3):
        answer(server)
        assert not silent.is_set()
    assert silent.wait(BOUND_SECONDS)
    watch.stop()


def test_messages_are_signs_of_life(server):
    """Connections wait where a process has no descriptor left, while its messages come."""
    said, silent, asked_often = [0], threading.Event(), threading.Event()

    def message():
        said[0] += 1
        if said[0] > 100:
            asked_often.set()
        return said[0]

    watch = SilenceWatch("127.0.0.1", server.getsockname()[1], 0.1, message, silent.set)
    answer(server)
    assert asked_often.wait(BOUND_SECONDS)
    assert not silent.is_set()
    watch.stop()


def test_the_kernel_says_why():
    process = subprocess.Popen(["sleep", "1000"])
    try:
        assert why_silent(process.pid) == ""
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: "SIGSTOP" in why_silent(process.pid), "the process to stop")
    finally:
        process.kill()
        process.wait()
    assert why_silent(process.pid) == ""
