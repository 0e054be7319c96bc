"""The warnings of tfos where a program has set up no logging."""

from __future__ import annotations

import contextlib
import io
import logging
import sys


class LastResort(logging.Handler):
    """Does what ``logging.lastResort`` would, and says that a warning is from tfos, as each line of
    the progress does. A program that handles the log itself gets nothing from it.

    Owner and lifetime: the logger ``tfos`` of the driver. Threads: any.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter("tfos: %(message)s"))

    def filter(self, record: logging.LogRecord) -> bool:
        return super().filter(record) and not self._is_heard(record)

    def emit(self, record: logging.LogRecord) -> None:
        # As with the progress: where nothing can be written any more, the training is worth more.
        with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed.
            print(self.format(record), file=sys.stderr or io.StringIO(), flush=True)

    def _is_heard(self, record: logging.LogRecord) -> bool:
        """Whether anything else handles it."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def install() -> None:
    """Once in a process, however often it is called."""
    logger = logging.getLogger("tfos")
    if not any(isinstance(handler, LastResort) for handler in logger.handlers):
        logger.addHandler(LastResort())
