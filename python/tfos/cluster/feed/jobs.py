"""The Spark jobs of a feed: what is waited for while they run, and what is raised of their
errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES, Coordinator
from tfos.cluster.feed.plans import fed_nodes
from tfos.errors import NodeFailedError, NodeLostError, TfosError
from tfos.spark import failures, persisted, sources
from tfos.spark.jobs import SparkJobs

logger = logging.getLogger(__name__)

_FORGET_SECONDS = 5.0
#: After a node's failure Spark's own error for the same event may arrive first; this long the
#: driver waits for the failure that explains it.
_EXPLANATION_SECONDS = 3.0


class FeedJobs:
    """Runs the Spark jobs that feed one cluster, and those that are needed for that.

    Owner and lifetime: the :class:`tfos.cluster.feed.cluster_feed.ClusterFeed`.
    Threads: any; each waits for the jobs that it has started.
    Errors: the cluster's failure where one explains what went wrong, else Spark's own.

    jobs: where they run, and are cancelled when the cluster fails. nobody_wants_rows: whether
    nothing is to be fed any more. cut_short: called where nobody knows what a job has fed. elastic:
    the nodes go on without those that are lost.
    """

    def __init__(
        self,
        jobs: SparkJobs,
        coordinator: Coordinator,
        nobody_wants_rows: Callable[[], bool],
        cut_short: Callable[[], None],
        elastic: bool,
    ):
        self._jobs = jobs
        self._coordinator = coordinator
        self._nobody_wants_rows = nobody_wants_rows
        self._cut_short = cut_short
        self._elastic = elastic

    @property
    def spark_context(self) -> Any:
        return self._jobs.spark_context

    def name_of(self, source: Any) -> str:
        """What Spark's pages call the rows."""
        return sources.name_of(source, self.spark_context.appName)

    def ask(self, kind: str, doing: str, question: Callable[[], Any]) -> Any:
        """The answer to ``question()``, or the cluster's failure, should that come first. pyspark
        asks a server of Spark Connect that has died again for ten minutes."""
        job = self._jobs.start(kind, doing, question, lambda _job: self._coordinator.notify())
        self._coordinator.wait(lambda: job.done, None)
        return job.result()

    @contextmanager
    def kept(self, source: Any, cache: str) -> Iterator[None]:
        """Has Spark keep the rows in the block."""
        job = self._jobs.start(
            "cache",
            f"keep {self.name_of(source)}",
            partial(persisted.keep, source, cache),
            lambda _job: self._coordinator.notify(),
        )
        try:
            self._coordinator.wait(lambda: job.done, None)
            job.result()
            yield
        finally:
            self._forget(lambda: job.result() and source.unpersist())

    def _forget(self, unpersist: Callable[[], Any]) -> None:
        try:
            # The program's next call must not find what is about to go.
            job = self._jobs.start("uncache", "forget rows", unpersist, lambda _job: None)
            job.wait(_FORGET_SECONDS)
        except Exception as error:  # The session has ended, and what it has kept is gone with it.
            logger.info("Spark is not asked to forget rows: %s", error)

    def feed(
        self, title: str, collect: Callable[[], list[Any]], show: Callable[[float], None]
    ) -> list[Any]:
        """Runs a job that feeds, until it has ended or no node wants more rows, and returns what
        its tasks did, as far as it ended. ``show`` is called again and again meanwhile, with the
        share that Spark has done."""
        job = self._jobs.start("feed", title, collect, lambda _job: self._coordinator.notify())
        try:
            self._coordinator.wait(
                lambda: job.done or self._nobody_wants_rows(),
                None,
                while_waiting=lambda: show(job.share_done()),
            )
        finally:
            cancelled = not job.done
            if cancelled:
                job.cancel()
            if cancelled or job.error is not None:
                self._cut_short()
        if job.error is None and not cancelled:
            # Nobody knows what a node that wants no more took of what was on its way to it.
            final = FINAL_STATES - ({"lost"} if self._elastic else set())
            ended = any(node["state"] in final for node in fed_nodes(self._coordinator))
            if ended or self._coordinator.terminated_nodes():
                self._cut_short()
            return job.result()
        if job.error is not None and not self._nobody_wants_rows():
            self._raise_explained(job.error)
        return []

    def _raise_explained(self, error: Exception) -> None:
        """Raises the cluster's failure if ``error`` came of one, else what the task said."""
        found = failures.explained(error)
        if isinstance(found, (NodeLostError, NodeFailedError)):
            self._coordinator.wait(lambda: False, _EXPLANATION_SECONDS)
        if isinstance(found, TfosError):
            # Those are the frames of pyspark, in the job's thread.
            raise found.with_traceback(None) from None
        raise found
