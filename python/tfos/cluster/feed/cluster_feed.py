"""What the driver feeds the nodes of its cluster with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tfos.cluster.coordinator import Coordinator
from tfos.cluster.feed.jobs import FeedJobs
from tfos.cluster.feed.plans import FeedPlans, fed_nodes
from tfos.cluster.feed.queues import Queues
from tfos.cluster.feed.run import FeedParts, FeedRun
from tfos.cluster.feed.tally import Tally
from tfos.cluster.feed.whole_epochs import Epoch, WholeEpochs, takes_part
from tfos.cluster.training import Training
from tfos.feed import frames
from tfos.feed.tasks import ArrowInferenceFeeder, InferenceFeeder
from tfos.settings import Settings
from tfos.spark.connect import is_connect
from tfos.spark.jobs import SparkJobs

logger = logging.getLogger(__name__)

#: A program may evaluate or export for an hour.
FEED_TIMEOUT_SECONDS = 7200.0


def warn_of_speculation(sc: Any) -> None:
    if sc.getConf().get("spark.speculation", "false").lower() == "true":
        logger.warning(
            "spark.speculation is on: turn it off. A task that feeds is as slow as its node, so a "
            "copy of it takes over without being faster. Where Python workers feed, each "
            "takeover counts as a failure of the task"
        )


class ClusterFeed:
    """What feeds the nodes of one cluster.

    Owner and lifetime: the :class:`tfos.Cluster`, as long as it runs.
    Threads: any; feeds of one queue take turns.
    Errors: the cluster's failure where one explains what went wrong, else Spark's own.

    token: of the cluster, for the tasks that feed. jobs: where feed jobs run, and are cancelled
    when the cluster fails. show_progress: called again and again, with what is waited for.
    elastic: the nodes go on without those that are lost, and train on their rows. others_come:
    other nodes come in their place, or late.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        settings: Settings,
        token: str,
        jobs: SparkJobs,
        show_progress: Callable[[str], None],
        elastic: bool = False,
        others_come: bool = False,
    ):
        self._coordinator = coordinator
        self._settings = settings
        self._show_progress = show_progress
        self._elastic = elastic
        self._plans = FeedPlans(coordinator, settings, token, show_progress, elastic)
        #: What is counted of the rows.
        self.tally = Tally(coordinator)
        self._jobs = FeedJobs(
            jobs, coordinator, self.nobody_wants_rows, self.tally.cut_short, elastic
        )
        self._parts = FeedParts(
            settings=settings,
            queues=Queues(coordinator),
            plans=self._plans,
            jobs=self._jobs,
            tally=self.tally,
            whole=WholeEpochs(coordinator, show_progress, self.nobody_wants_rows, others_come)
            if elastic
            else None,
            show_progress=show_progress,
            nobody_wants_rows=self.nobody_wants_rows,
        )

    def learn_schema(self, data: Any) -> None:
        """Has pyspark keep the schema of ``data``, should that be a DataFrame of Spark Connect,
        so that whoever looks at it need not ask Spark."""
        if is_connect(data):
            self._jobs.ask("schema", "learn the schema", lambda: data.schema)

    @property
    def may_lose_nodes(self) -> bool:
        """Whether the cluster goes on without a node that is lost."""
        return self._elastic or self._settings.max_lost_nodes > 0

    def nobody_wants_rows(self) -> bool:
        terminated = self._coordinator.terminated_nodes()
        # A node that failed does not count: its failure is about to be raised.
        content = {"done", "stopped"} | ({"lost"} if self.may_lose_nodes else set())
        return all(
            node["node_id"] in terminated or node["state"] in content
            for node in fed_nodes(self._coordinator)
            # Others wait for these, and then nobody does.
            if node["state"] == "lost" or takes_part(node)
        )

    def train(
        self,
        plan: Training,
        sources: dict[str, Any],
        queue: str,
        feed_timeout: float,
        decimals: str | None,
    ) -> None:
        """Feeds each of ``sources`` (by queue) as planned, and returns when the nodes have taken
        all; ``queue`` is the one that is trained on."""
        FeedRun(self._parts, feed_timeout, decimals).feed(plan, sources, queue)
        self._show_progress("between feeds")

    def next_epoch(self, queue: str) -> int:
        """The number of the epoch that is fed next; those that were interrupted don't count."""
        return self._parts.queues.next_epoch(queue)

    def infer_rdd(self, rdd: Any, timeout: float, queue: str) -> Any:
        """An RDD of what the programs answer, in the order of each partition's rows."""
        source, plan = self._plans.of_rdd(rdd, timeout, Epoch(queue))
        return source.mapPartitionsWithIndex(InferenceFeeder(plan))

    def infer_frame(
        self, wanted: frames.Inference, timeout: float, queue: str, decimals: str | None
    ) -> Any:
        """The DataFrame that was planned."""
        feeder = ArrowInferenceFeeder(
            self._plans.make(False, timeout, Epoch(queue)),
            wanted.names,
            wanted.keys,
            wanted.fed,
            wanted.fields,
            decimals,
        )
        return wanted.source.mapInArrow(feeder, wanted.schema)
