"""What takes its time is waited for by looking."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

#: One step of a cluster, such as a start, takes less on the slowest machine. A test of many steps
#: or of more daemons has its own bound.
BOUND_SECONDS = 120
_POLL_SECONDS = 0.02


def wait_for(condition: Callable[[], Value], what: object, seconds: float = BOUND_SECONDS) -> Value:
    """The first true value of ``condition()``.

    ``what`` stands for it in the message when it never comes; a function is called for it then.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(
                f"waited {seconds} s in vain for {what() if callable(what) else what}"
            )
        time.sleep(_POLL_SECONDS)
    return value
