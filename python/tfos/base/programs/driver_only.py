"""What a program may not take along from the driver."""

from __future__ import annotations

from typing import NoReturn


class DriverOnly:
    """Base of what only the process can use that made it.

    Errors: pickling it raises TypeError, which says why a program did that, and what to do instead.
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} works in the driver program only, and a function that uses "
            "it was to run elsewhere: in a task, or over Spark Connect in foreachBatch, which runs "
            "on Spark's server. Feed what has come from the driver instead: cluster.train with a "
            "DataFrame, as often as there is more"
        )
