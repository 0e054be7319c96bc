"""The models that this process has loaded, kept for those that run them next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any


class Sessions:
    """The sessions that were used last, by what they were loaded from, with a stamp that changes
    when its files do. An engine keeps its own as long as it needs it.

    Owner and lifetime: the process. Threads: any. Those that ask for the same session share one
    load; others do not wait for it. Errors: those of a load reach all that wait for it, and the
    next one who asks loads again.
    """

    def __init__(self, most: int):
        """``most``: sessions that are kept, those being loaded included."""
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[str, Future[Any]]] = {}

    def get(self, key: Hashable, stamp: str, load: Callable[[], Any]) -> Any:
        """The session of ``key``, loaded where none with this stamp is kept."""
        with self._lock:
            had, session = self._kept.pop(key, ("", None))
            mine: Future[Any] | None = None
            if session is None or had != stamp:
                session = mine = Future()
                # Before it is loaded, so that there is memory for it.
                while len(self._kept) >= self._most:
                    del self._kept[next(iter(self._kept))]
            self._kept[key] = stamp, session
        if mine is not None:
            self._load(key, mine, load)
        return session.result()

    def loaded(self) -> list[Any]:
        """Those that are kept and loaded."""
        with self._lock:
            kept = [session for _, session in self._kept.values()]
        return [session.result() for session in kept if session.done()]

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

    def _load(self, key: Hashable, session: Future[Any], load: Callable[[], Any]) -> None:
        try:
            session.set_result(load())
        except BaseException as error:
            with self._lock:
                if self._kept.get(key, ("", None))[1] is session:
                    del self._kept[key]
            session.set_exception(error)
