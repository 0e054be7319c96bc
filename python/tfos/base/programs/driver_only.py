"""What a program may not take along from the driver."""

from __future__ import annotations

from typing import NoReturn


def refuse(value: object) -> NoReturn:
    """The ``__reduce__`` of a class whose objects only work in the process that made them.

    Raises TypeError, which says why a program pickles one, and what to do instead.
    """
    raise TypeError(
        f"a {type(value).__name__} works in the driver program only, and a function that uses it "
        "was to run elsewhere: in a task, or over Spark Connect in foreachBatch, which runs on "
        "Spark's server. Feed what has come from the driver instead: cluster.train with a "
        "DataFrame, as often as there is more"
    )
