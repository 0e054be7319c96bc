"""What takes its time is waited for by looking."""

from __future__ import annotations

import time

#: Nothing that a test waits for takes so long on the slowest machine.
BOUND_SECONDS = 120
_POLL_SECONDS = 0.02


def wait_for(condition, what, seconds=BOUND_SECONDS):
    """The first true value of ``condition()``; ``what``: what it stands for, when it never comes."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(_POLL_SECONDS)
    return value
