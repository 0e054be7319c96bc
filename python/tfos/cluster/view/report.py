"""What the driver keeps of the coordinator's page, for when the coordinator has ended."""

from __future__ import annotations

import logging
import os
import threading

from tfos.base.page import PageLink, write_whole
from tfos.errors import TfosError

logger = logging.getLogger(__name__)

_FETCH_SECONDS = 60.0
#: At a cluster's end, where nobody has asked for a report.
_LAST_FETCH_SECONDS = 5.0


class Report:
    """The report of one cluster: of this moment, and of its end once it has ended.

    Owner and lifetime: the :class:`tfos.Cluster`. Threads: any.
    """

    def __init__(self, link: PageLink):
        self._link = link
        self._lock = threading.Lock()
        self._kept: bytes | None = None
        self._why_none: TfosError | None = None

    def keep(self) -> None:
        """The cluster has ended, and its coordinator is about to: takes the last report, once."""
        with self._lock:
            if self._kept is not None or self._why_none is not None:
                return
            try:
                self._kept = self._link.fetch_report(_LAST_FETCH_SECONDS)
            except TfosError as error:
                logger.info("no report of the cluster's end: %s", error)
                self._why_none = error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file of this host; one that is there is replaced as a whole."""
        if self._why_none is not None:
            raise self._why_none
        html = self._kept or self._link.fetch_report(_FETCH_SECONDS)
        write_whole(path, html)
