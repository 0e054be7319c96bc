"""Task slots of a session that others hold."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from support.waiting import wait_for

#: Tests hold slots while a cluster starts, or nodes of it come.
_MOST_SECONDS = 600.0


@contextlib.contextmanager
def slot_held(sc: Any, directory: pathlib.Path) -> Iterator[Callable[[], None]]:
    """A task of ``sc`` holds one slot until the function that this gives is called, or at the end.

    directory: where a file tells the task, so on a host that both see.
    """
    free = directory / "free"

    def hold(_: Iterable[int]) -> list[int]:
        wait_for(free.exists, "the end of the hold", _MOST_SECONDS)
        return []

    thread = threading.Thread(target=sc.parallelize([0], 1).mapPartitions(hold).collect)

    def release() -> None:
        free.touch()
        thread.join()

    thread.start()
    try:
        wait_for(sc.statusTracker().getActiveStageIds, "the task that holds a slot")
        yield release
    finally:
        release()
