"""The thread that writes checkpoints while training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Writer:
    """Writes in a thread of its own, one after the other. What waits is replaced by what comes
    later. A caller that drops it before it makes more has at most two copies of the variables.

    Owner and lifetime: a callback; the thread ends when there is nothing to write. Threads: any.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: tuple[Callable[[], None], str, Callable[[], None] | None] | None = None
        #: What is to be said of what was dropped.
        self._to_tell: list[Callable[[], None]] = []
        self._outcomes: list[tuple[str, Exception | None]] = []

    @property
    def is_busy(self) -> bool:
        with self._changed:
            return self._thread is not None

    def write(
        self,
        write: Callable[[], None],
        what: str,
        dropped: Callable[[], None] | None = None,
    ) -> None:
        """``dropped``: called by the thread if this is replaced or dropped before it began."""
        with self._changed:
            self._drop()
            self._waiting = (write, what, dropped)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="tfos-checkpoints", daemon=True
                )
                self._thread.start()

    def drop_waiting(self) -> None:
        """Forgets what waits, if anything does."""
        with self._changed:
            self._drop()

    def _drop(self) -> None:
        """With the lock. What waits, waits for the thread, so that is there to tell."""
        if self._waiting is not None and self._waiting[2] is not None:
            self._to_tell.append(self._waiting[2])
        self._waiting = None

    def wait(self, timeout: float) -> bool:
        """Whether all is written, or has failed, within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def take_outcomes(self) -> list[tuple[str, Exception | None]]:
        """What was written since, each with its error or None."""
        with self._changed:
            outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _run(self) -> None:
        while True:
            with self._changed:
                tells = bool(self._to_tell)
                if tells:
                    write, what = self._to_tell.pop(0), "why a part of a checkpoint is missing"
                elif self._waiting is not None:
                    write, what, _ = self._waiting
                    self._waiting = None
                else:
                    self._thread = None
                    self._changed.notify_all()
                    return
            error: Exception | None = None
            try:
                write()
            except Exception as failure:  # The boundary: training goes on, whatever it is.
                error = failure
            del write  # And with it the copies.
            with self._changed:
                if not tells or error is not None:
                    self._outcomes.append((what, error))
