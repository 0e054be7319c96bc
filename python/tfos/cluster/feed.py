"""Feeding the nodes of a cluster from Spark: epochs, feed jobs, and the count of what became of the
rows."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES, Coordinator
from tfos.cluster.feed_plans import FeedPlans, fed_nodes
from tfos.cluster.ledger import Ledger
from tfos.cluster.training import Course, Training
from tfos.cluster.whole_epochs import Epoch, WholeEpochs, takes_part
from tfos.errors import NodeFailedError, NodeLostError, TfosError
from tfos.feed import frames, jvm, shuffling
from tfos.feed.datafeed import VALIDATION_QUEUE
from tfos.feed.plan import FeedPlan
from tfos.feed.tasks import ArrowInferenceFeeder, ArrowTrainFeeder, InferenceFeeder, TrainFeeder
from tfos.settings import Settings
from tfos.spark import arrow_types, failures, jar, persisted, row_order, source_names
from tfos.spark.connect import is_connect
from tfos.spark.jobs import SparkJob, SparkJobs

logger = logging.getLogger(__name__)

_FORGET_SECONDS = 5.0

#: A program may evaluate or export for an hour.
FEED_TIMEOUT_SECONDS = 7200.0
#: After a node's failure Spark's own error for the same event may arrive first; this long the
#: driver waits for the failure that explains it.
_EXPLANATION_SECONDS = 3.0


def warn_of_speculation(sc: Any) -> None:
    if sc.getConf().get("spark.speculation", "false").lower() == "true":
        logger.warning(
            "spark.speculation is on: turn it off. A task that feeds is as slow as its node, so a "
            "copy of it takes over without being faster. Where Python workers feed, each "
            "takeover counts as a failure of the task"
        )


def warn_of_order(source: Any) -> None:
    if row_order.may_change(source):
        logger.warning(
            "Spark does not promise that the rows of a partition come in the same order when it "
            "computes them again (they come of a shuffle, or of something random). If a feed task "
            "is repeated, it compares them, and fails where they differ. To be safe, persist() or "
            "checkpoint() them, or sort them by a key that is different in each row"
        )


class ClusterFeed:
    """What feeds the nodes of one cluster.

    Owner and lifetime: the :class:`tfos.cluster.Cluster`, as long as it runs.
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
        self._jobs = jobs
        self._show_progress = show_progress
        self._elastic = elastic
        self._plans = FeedPlans(coordinator, settings, token, show_progress, elastic)
        self._whole = (
            WholeEpochs(coordinator, show_progress, self.nobody_wants_rows, others_come)
            if elastic
            else None
        )
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}  # by queue
        self._epochs: dict[str, int] = {}  # the next of each queue; they count through its life
        self._ledger = Ledger()
        self._course = Course()

    def learn_schema(self, data: Any) -> None:
        """Has pyspark keep the schema of ``data``, should that be a DataFrame of Spark Connect,
        so that whoever looks at it need not ask Spark."""
        if is_connect(data):
            self._ask_spark("schema", "learn the schema", lambda: data.schema)

    def ledger(self) -> Ledger:
        """With what the nodes have reported so far. It is the caller's own."""
        with self._lock:
            self._ledger.update(self._coordinator.nodes())
            return copy.deepcopy(self._ledger)

    def counts(self) -> dict[str, Any]:
        """What the driver alone knows of the rows, as in the message ``activity``."""
        with self._lock:
            return {
                "items_read": self._ledger.read,
                "items_moved": self._ledger.moved,
                "unit": self._ledger.unit,
                "cut_short": self._ledger.cut_short,
                **self._course.fields(),
            }

    def cut_short(self) -> None:
        """What becomes of the rows from now on is not counted."""
        with self._lock:
            self._ledger.cut_short = True

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
        with ExitStack() as turns:
            # Another thread's epochs of the same queue would mix with these. Always in one order.
            for name in sorted(sources):
                turns.enter_context(self._turn(name))
            if plan.kept_by_spark:
                for source in sources.values():
                    turns.enter_context(self._kept_by_spark(source, plan.kept_by_spark))
            self._train(plan, sources, queue, feed_timeout, decimals)
        self._show_progress("between feeds")

    def infer_rdd(self, rdd: Any, timeout: float, queue: str) -> Any:
        """An RDD of what the programs answer, in the order of each partition's rows."""
        source, plan = self._plans.of_rdd(rdd, timeout, Epoch(queue))
        return source.mapPartitionsWithIndex(InferenceFeeder(plan), preservesPartitioning=True)

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

    def _train(
        self,
        plan: Training,
        sources: dict[str, Any],
        queue: str,
        feed_timeout: float,
        decimals: str | None,
    ) -> None:
        data = sources[queue]
        if hasattr(data, "foreachRDD"):
            self._course = Course()  # A stream has no epochs.
            data.foreachRDD(lambda rdd: self._feed_of_stream(rdd, feed_timeout, queue))
            return
        if self._settings.feed_check_retries:
            for source in sources.values():
                warn_of_order(source)
        feeds = {
            name: self._frame_feed(source, decimals)
            if hasattr(source, "mapInArrow")
            else (partial(self._feed_rdd, source))
            for name, source in sources.items()
        }
        called = {name: self._name_of(source) for name, source in sources.items()}
        course = self._course = Course.of(plan, fed_nodes(self._coordinator), self._ledger.read)
        for job in range(plan.jobs):
            course.enter(job, self._ledger.read)
            for name, feed in feeds.items():
                if self.nobody_wants_rows():
                    return
                mixed = name == queue  # validation needs no other order
                replay = plan.replay if mixed else replace(plan.replay, shuffle_seed=0)
                first, last = self._take_epochs(name, 1 + replay.epochs)
                title = f"{course.title()} of {called[name]}" + ("" if mixed else ", validation")
                epoch = Epoch(name, first, replay, title)
                seed = plan.seed_of_job(job) if mixed else 0
                try:
                    # Validation is read by each node for itself, so there are no steps to wait for.
                    if self._whole is not None and mixed and name != VALIDATION_QUEUE:
                        self._whole.feed(partial(feed, seed, feed_timeout), epoch)
                    else:
                        feed(seed, feed_timeout, epoch)
                except BaseException:
                    # Interrupted, or rows that can't be fed: what the nodes have got of the epoch
                    # is part of the next one, as a pass without a batch would end ``repeat()``.
                    # It is not whole, so it must not be replayed.
                    self._take_epochs(name, -(1 + replay.epochs))
                    self._coordinator.send(
                        "abandon_epoch", queue=name, epoch=first, job=epoch.job_id.hex()
                    )
                    raise
                finally:
                    self._end_job(epoch)
                self._coordinator.send("end_epoch", queue=name, epoch=last)
        course.enter(plan.jobs, self._ledger.read)

    @contextmanager
    def _kept_by_spark(self, source: Any, cache: str) -> Iterator[None]:
        """Has Spark keep the rows in the block."""
        job = self._jobs.start(
            "cache",
            f"keep {self._name_of(source)}",
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

    def _turn(self, queue: str) -> threading.Lock:
        """Held by the one that feeds the queue."""
        return self._turns.setdefault(queue, threading.Lock())

    def _feed_of_stream(self, rdd: Any, timeout: float, queue: str) -> None:
        """Feeds what came in one interval of a stream, between the feeds of other threads."""
        with self._turn(queue):
            with self._lock:
                number = self._epochs.get(queue, 0)
            epoch = Epoch(queue, number, title=f"an interval of {self._name_of(rdd)}")
            feed = partial(self._feed_rdd, rdd, 0, timeout)
            try:
                if self._whole is not None:
                    self._whole.feed(feed, epoch)
                else:
                    feed(epoch)
            finally:
                self._end_job(epoch)

    def _end_job(self, epoch: Epoch) -> None:
        """No task comes any more of the job that fed the epoch: nodes need not remember it. A
        stream has a job for each interval, and none of them ends the epoch."""
        self._coordinator.send("end_job", job=epoch.job_id.hex())

    def _take_epochs(self, queue: str, count: int) -> tuple[int, int]:
        """The first and the last number of the queue's next epochs."""
        with self._lock:
            first = self._epochs.get(queue, 0)
            self._epochs[queue] = first + count
        return first, first + count - 1

    def _feed_rdd(self, rdd: Any, seed: int, timeout: float, epoch: Epoch) -> None:
        """Feeds one epoch, in an order of its own unless ``seed`` is 0."""
        if self.nobody_wants_rows() or rdd.getNumPartitions() == 0:
            return
        ordered = shuffling.shuffled_rdd(rdd, seed) if seed else rdd
        source, plan = self._plans.of_rdd(ordered, timeout, epoch)
        if plan.pickled and self._feeds_by_jvm():
            collect = partial(jvm.train_pickled, source, plan)
        else:
            collect = source.mapPartitionsWithIndex(TrainFeeder(plan)).collect
        self._run_and_count(epoch.title, collect, plan)

    def _run_and_count(self, title: str, collect: Callable[[], list[Any]], plan: FeedPlan) -> None:
        """Runs a job that trains, enters what its tasks did, and shows it."""
        with self._lock:
            self._ledger.begin_job(plan.pickled)
        of_lost_nodes = ", what lost nodes had" if plan.repeats else ""
        counts = self._run_feed(title + of_lost_nodes, collect)
        with self._lock:
            # What a job has that is fed again was counted.
            self._ledger.count_job((0 if plan.repeats else items, moved) for items, moved in counts)
        self._show_progress("feeding")

    def _frame_feed(self, frame: Any, decimals: str | None) -> Callable[..., None]:
        """What feeds one epoch of ``frame`` as ``_feed_rdd`` does, once its schema is known to
        fit."""
        frames.check_schema(frame.schema, decimals)
        source, names = arrow_types.as_arrow_source(frame)
        by_jvm = self._feeds_by_jvm()
        # The same for all epochs, and asked for at the first that needs it.
        partitions = cache(partial(shuffling.partitions_of, source))

        def shuffled(seed: int) -> Any:
            return shuffling.shuffled_frame(source, seed, partitions())

        def feed(seed: int, timeout: float, epoch: Epoch) -> None:
            ordered = source
            if seed:
                doing = f"{epoch.title}, its order"
                ordered = self._ask_spark("shuffle", doing, partial(shuffled, seed))
            plan = self._plans.make(False, timeout, epoch)
            if by_jvm:
                collect = partial(jvm.train, ordered, plan, names, decimals)
            else:
                feeder = ArrowTrainFeeder(plan, names, decimals)
                collect = ordered.mapInArrow(feeder, ArrowTrainFeeder.SCHEMA).collect
            self._run_and_count(epoch.title, collect, plan)

        return feed

    def _feeds_by_jvm(self) -> bool:
        """Whether the executors' JVMs feed what Spark holds itself, rather than Python workers."""
        unused = jar.why_unused(
            self._jobs.spark_context, "spark.tfos.feed.jvm", self._settings.feed_jvm
        )
        logger.info(
            "what Spark holds is fed by %s",
            f"Python workers: {unused}" if unused else "the executors' JVMs",
        )
        return not unused

    def _name_of(self, source: Any) -> str:
        return source_names.name_of(source, self._jobs.spark_context.appName)

    def _ask_spark(self, kind: str, doing: str, question: Callable[[], Any]) -> Any:
        """The answer to ``question()``, or the cluster's failure, should that come first. pyspark
        asks a server of Spark Connect that has died again for ten minutes."""
        job = self._jobs.start(kind, doing, question, lambda _job: self._coordinator.notify())
        self._coordinator.wait(lambda: job.done, None)
        return job.result()

    def _run_feed(self, title: str, collect: Callable[[], list[Any]]) -> list[Any]:
        """Runs a job that feeds, until it has ended or no node wants more rows, and returns what
        its tasks did, as far as it ended."""
        fed_before = self._course.fed
        job = self._jobs.start("feed", title, collect, lambda _job: self._coordinator.notify())
        try:
            self._coordinator.wait(
                lambda: job.done or self.nobody_wants_rows(),
                None,
                while_waiting=lambda: self._show_feeding(job, fed_before),
            )
        finally:
            cancelled = not job.done
            if cancelled:
                job.cancel()
            if cancelled or job.error is not None:
                self.cut_short()
        if job.error is None and not cancelled:
            # Nobody knows what a node that wants no more took of what was on its way to it.
            final = FINAL_STATES - ({"lost"} if self._elastic else set())
            ended = any(node["state"] in final for node in fed_nodes(self._coordinator))
            if ended or self._coordinator.terminated_nodes():
                self.cut_short()
            return job.result()
        if job.error is not None and not self.nobody_wants_rows():
            self._raise_explained(job.error)
        return []

    def _show_feeding(self, job: SparkJob, fed_before: float) -> None:
        share = job.share_done()
        with self._lock:
            # Not more than is true now: the job's share may have been that of a shuffle.
            self._course.fed = fed_before
            self._course.see(share)
        self._show_progress("feeding")

    def _raise_explained(self, error: Exception) -> None:
        """Raises the cluster's failure if ``error`` came of one, else what the task said."""
        found = failures.explained(error)
        if isinstance(found, (NodeLostError, NodeFailedError)):
            self._coordinator.wait(lambda: False, _EXPLANATION_SECONDS)
        if isinstance(found, TfosError):
            # Those are the frames of pyspark, in the job's thread.
            raise found.with_traceback(None) from None
        raise found
