"""Closing a cluster, in whatever way its driver program leaves it."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tfos.cluster.coordinator import Coordinator
from tfos.cluster.ending import Ending
from tfos.cluster.feed.tally import Tally
from tfos.cluster.launcher import Launcher
from tfos.errors import ClusterStoppedError
from tfos.spark.connect import ConnectContext
from tfos.spark.jobs import SparkJobs

#: For launch tasks to end by themselves, and for Spark to notice, when all agents have left.
_LAUNCH_END_SECONDS = 5.0
#: As long, where they bring what the programs returned.
_RESULTS_SECONDS = 120.0
#: For the coordinator to end, beyond the nodes' grace: it waits for open pages (up to 12 s).
_CLOSE_SECONDS = 15.0


class Closing:
    """Has the nodes of one cluster end, and closes what the driver has of it, once and in order.

    Owner and lifetime: the :class:`tfos.Cluster`.
    Threads: one, that of the driver program; ``stop_as_asked`` from another one.
    Errors: what is interrupted or fails on the way is raised, and all is closed nevertheless.

    feeds: whether Spark feeds the nodes. stop_grace: seconds between TERM and KILL. show_end: shows
    the last of the cluster once its nodes have ended, with the failure of the driver program, if it
    had one. forget: called last.

    Attributes:
        has_begun: whether the program has begun to end the cluster.
        ended: set once the nodes have ended, or have had the time to.
        wants_results: whether what the programs returned is waited for.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        tally: Tally,
        ending: Ending,
        launcher: Launcher,
        jobs: SparkJobs,
        feeds: bool,
        stop_grace: float,
        show_end: Callable[[dict[str, Any] | None], None],
        forget: Callable[[], None],
    ):
        self._coordinator = coordinator
        self._tally = tally
        self._ending = ending
        self._launcher = launcher
        self._jobs = jobs
        self._feeds = feeds
        self._stop_grace = stop_grace
        self._show_end = show_end
        self._forget = forget
        self._failure_of_driver: dict[str, Any] | None = None
        self._process = os.getpid()
        self.has_begun = False
        self.ended = threading.Event()
        self.wants_results = False

    def follow_exit(self) -> None:
        """From now on the cluster ends with the driver program, should that not end it before."""
        atexit.register(self._at_exit)

    def shut_down(self, wait: Callable[[], None]) -> None:
        """In order: ``wait`` returns when the programs have."""
        self.has_begun = True
        try:
            wait()
        except BaseException as error:
            self._ending.stop(f"the driver's shutdown ended with {type(error).__name__}")
            raise
        finally:
            self._close()

    def abort(self, reason: str) -> None:
        """Without waiting for the programs."""
        self.has_begun = True
        try:
            self._tally.cut_short()  # Nodes have no time for a last word.
            self._ending.stop(reason)
        finally:
            self._close()

    def abort_after(self, error: BaseException) -> None:
        """Because of what the driver program raised. Raises the cluster's failure, if that is what
        is behind it."""
        failure = self._coordinator.failure_behind(error)
        cause = failure or error
        stopped = isinstance(cause, ClusterStoppedError)
        kind = type(error)
        if failure is None:
            message = f"{kind.__name__}: {error}"
            self._failure_of_driver = {"step": "run the driver program", "message": message}
        how = "was interrupted" if kind is KeyboardInterrupt else f"failed: {kind.__name__}"
        self.abort(str(cause) if stopped else f"the driver program {how}")
        if failure is not None:
            raise failure from error

    def stop_as_asked(self, reason: str, timeout: float) -> None:
        """Has the nodes end as somebody has asked for with ``tfos stop``. The program hears of it
        wherever it waits, and closes the cluster."""
        self._launcher.close()
        if self._feeds:
            self._tally.cut_short()
            self._jobs.cancel()
        self._ending.end_as_asked(reason, timeout)

    def _at_exit(self) -> None:
        """The driver program ends without having shut the cluster down."""
        if os.getpid() != self._process:
            return  # A child that it has forked, which has its exit handlers and its pipes.
        self._ending.stop("the driver program has ended")
        # Spark's own end takes the jobs along, but a server of Spark Connect goes on.
        self._close(cancel=isinstance(self._jobs.spark_context, ConnectContext))

    def _close(self, cancel: bool = True) -> None:
        """Ends the coordinator once the nodes have, or have had the time to: they were told to.

        Nobody closes the cluster again. So neither Spark's jobs nor the coordinator go on where
        this is interrupted, or something in it fails."""
        with ExitStack() as at_last:  # What is named first is done last.
            at_last.callback(atexit.unregister, self._at_exit)
            at_last.callback(self._forget)
            at_last.callback(self._coordinator.close, timeout=self._stop_grace + _CLOSE_SECONDS)
            if cancel:
                at_last.callback(self._launcher.release_executors)
                at_last.callback(self._jobs.cancel)
            self._launcher.close()
            try:
                self._ending.await_nodes()
            finally:
                self.ended.set()
            self._show_end(self._failure_of_driver)
            if cancel and self._coordinator.finished:
                # Its tasks end with their agents: cancelled now, a good run would show a failed
                # job.
                self._launcher.wait(_RESULTS_SECONDS if self.wants_results else _LAUNCH_END_SECONDS)
