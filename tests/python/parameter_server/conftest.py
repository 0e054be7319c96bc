"""Fixtures of the tests of parameter servers."""

from __future__ import annotations

import contextlib

import pytest

from tfos.parameter_server.process import ParameterServerProcess


@pytest.fixture
def serving(leftovers):
    """A function that starts a server."""
    with contextlib.ExitStack() as stack:

        def start():
            process = ParameterServerProcess("127.0.0.1")
            stack.callback(process.close)
            return process

        yield start
