"""One call of ``train``: its epochs, and how each source is fed in one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tfos.cluster.feed.course import Course
from tfos.cluster.feed.jobs import FeedJobs
from tfos.cluster.feed.plans import FeedPlans
from tfos.cluster.feed.queues import Queues
from tfos.cluster.feed.tally import Tally
from tfos.cluster.feed.whole_epochs import Epoch, WholeEpochs
from tfos.cluster.training import Training
from tfos.errors import BadInputError
from tfos.feed import frames, jvm, shuffling
from tfos.feed.datafeed import VALIDATION_QUEUE
from tfos.feed.plan import FeedPlan
from tfos.feed.tasks import ArrowTrainFeeder, TrainFeeder
from tfos.settings import Settings
from tfos.spark import arrow_types, jar, row_order
from tfos.spark.sources import is_frame, is_stream

logger = logging.getLogger(__name__)


def warn_of_order(source: Any) -> None:
    if row_order.may_change(source):
        logger.warning(
            "Spark does not promise that the rows of a partition come in the same order when it "
            "computes them again (they come of a shuffle, or of something random). If a feed task "
            "is repeated, it compares them, and fails where they differ. To be safe, persist() or "
            "checkpoint() them, or sort them by a key that is different in each row"
        )


def feeds_by_jvm(spark_context: Any, settings: Settings) -> bool:
    """Whether the executors' JVMs feed what Spark holds itself, rather than Python workers."""
    unused = jar.why_unused(spark_context, "spark.tfos.feed.jvm", settings.feed_jvm)
    logger.info(
        "what Spark holds is fed by %s",
        f"Python workers: {unused}" if unused else "the executors' JVMs",
    )
    return not unused


def _check_partitions(plan: FeedPlan, fed: int) -> None:
    """Raises :class:`BadInputError` where the data has become fewer partitions than those of which
    rows were left out. ``fed``: how many there were; 0: nobody knows."""
    had = 1 + max(map(int, plan.trained), default=-1)
    if 0 < fed < had:
        raise BadInputError(
            f"the data has {fed} partitions, and had {had} at least when the model was trained on "
            "it before the checkpoint from which it goes on. So rows of the others may have come "
            "twice. Give it as many as before"
        )


class _IntervalFeed:
    """What feeds each interval of a stream. Where the StreamingContext has checkpoints, as stateful
    streams need them, Spark pickles it with each. A cluster ends with its driver, so one that is
    unpickled feeds nothing: it raises :class:`BadInputError`."""

    def __init__(self, feed: Callable[[Any], None]):
        self._feed = feed

    def __call__(self, rdd: Any) -> None:
        self._feed(rdd)

    def __reduce__(self) -> tuple[type[_IntervalFeed], tuple[Callable[[Any], None]]]:
        return _IntervalFeed, (_refuse_restored,)


def _refuse_restored(_rdd: Any) -> None:
    raise BadInputError(
        "a stream that is restored from a checkpoint has lost the cluster that it fed: make the "
        "StreamingContext anew, with another checkpoint directory, and call cluster.train"
    )


@dataclass(frozen=True)
class FeedParts:
    """What all calls of ``train`` of one cluster work with. Threads: any.

    whole: where nodes train in step, and go on without those that are lost. show_progress: called
    again and again, with what is waited for. nobody_wants_rows: whether nothing is to be fed any
    more.
    """

    settings: Settings
    queues: Queues
    plans: FeedPlans
    jobs: FeedJobs
    tally: Tally
    whole: WholeEpochs | None
    show_progress: Callable[[str], None]
    nobody_wants_rows: Callable[[], bool]


class FeedRun:
    """Feeds what one call of ``train`` is given.

    Owner and lifetime: that call; of a stream, the stream. Threads: one at a time.
    Errors: as those of :class:`tfos.cluster.feed.jobs.FeedJobs`; and of a plan that can't be made.
    """

    def __init__(self, parts: FeedParts, feed_timeout: float, decimals: str | None):
        self._parts = parts
        self._timeout = feed_timeout
        self._decimals = decimals
        self._course = Course()

    def feed(self, plan: Training, sources: dict[str, Any], queue: str) -> None:
        """Feeds each of ``sources`` (by queue) as planned, and returns when the nodes have taken
        all; ``queue`` is the one that is trained on. Of a stream it returns at once."""
        with ExitStack() as block:
            block.enter_context(self._parts.queues.turn(sources))
            if is_stream(sources[queue]):
                self._follow(sources[queue], queue)
                return
            if plan.kept_by_spark:
                for source in sources.values():
                    block.enter_context(self._parts.jobs.kept(source, plan.kept_by_spark))
            if self._parts.settings.feed_check_retries:
                for source in sources.values():
                    warn_of_order(source)
            feeds: dict[str, Callable[[int, Epoch], int]] = {
                name: self._frame_feed(source)
                if is_frame(source)
                else partial(self._feed_rdd, source)
                for name, source in sources.items()
            }
            called = {name: self._parts.jobs.name_of(source) for name, source in sources.items()}
            self._course = block.enter_context(self._parts.tally.course_of(plan))
            self._feed_epochs(plan, feeds, called, queue)

    def _feed_epochs(
        self,
        plan: Training,
        feeds: dict[str, Callable[[int, Epoch], int]],
        called: dict[str, str],
        queue: str,
    ) -> None:
        parts, course = self._parts, self._course
        for job in range(plan.jobs):
            course.enter(job)
            for name, feed in feeds.items():
                if parts.nobody_wants_rows():
                    return
                mixed = name == queue  # validation needs no other order
                replay = plan.replay if mixed else replace(plan.replay, shuffle_seed=0)
                first, last = parts.queues.take_epochs(name, 1 + replay.epochs)
                title = f"{course.title()} of {called[name]}" + ("" if mixed else ", validation")
                trained: dict[int, str] = {}
                if plan.position and mixed and first == 0:
                    trained = plan.position.of_plan()
                epoch = Epoch(name, first, replay, title, trained=trained)
                seed = plan.seed_of_job(job) if mixed else 0
                try:
                    # Validation is read by each node for itself, so there are no steps to wait for.
                    in_step = mixed and name != VALIDATION_QUEUE
                    self._feed_whole(partial(feed, seed), epoch, in_step)
                except BaseException:
                    parts.queues.abandon(epoch)
                    raise
                finally:
                    parts.queues.end_job(epoch)
                parts.queues.end_epoch(name, last)
        course.enter(plan.jobs)

    def _feed_whole(self, feed: Callable[[Epoch], int], epoch: Epoch, in_step: bool = True) -> None:
        if self._parts.whole is not None and in_step:
            self._parts.whole.feed(feed, epoch)
        else:
            feed(epoch)

    def _follow(self, stream: Any, queue: str) -> None:
        self._course = self._parts.tally.course_of_stream()
        feed = _IntervalFeed(partial(self._feed_interval, queue))
        stream.foreachRDD(lambda rdd: feed(rdd))  # Spark wants a function

    def _feed_interval(self, queue: str, rdd: Any) -> None:
        """Feeds what came in one interval of a stream, between the feeds of other threads."""
        queues = self._parts.queues
        with queues.turn([queue]):
            title = f"an interval of {self._parts.jobs.name_of(rdd)}"
            epoch = Epoch(queue, queues.next_epoch(queue), title=title)
            try:
                self._feed_whole(partial(self._feed_rdd, rdd, 0), epoch)
            finally:
                queues.end_job(epoch)

    def _feed_rdd(self, rdd: Any, seed: int, epoch: Epoch) -> int:
        """Feeds one epoch, in an order of its own unless ``seed`` is 0, and returns how many items
        that were."""
        parts = self._parts
        if parts.nobody_wants_rows() or rdd.getNumPartitions() == 0:
            return 0
        ordered = shuffling.shuffled_rdd(rdd, seed) if seed else rdd
        source, plan = parts.plans.of_rdd(ordered, self._timeout, epoch)
        if plan.pickled and feeds_by_jvm(parts.jobs.spark_context, parts.settings):
            collect = partial(jvm.train_pickled, source, plan)
        else:
            collect = source.mapPartitionsWithIndex(TrainFeeder(plan)).collect
        return self._run_and_count(epoch.title, collect, plan)

    def _frame_feed(self, frame: Any) -> Callable[[int, Epoch], int]:
        """What feeds one epoch of ``frame`` as ``_feed_rdd`` does, once its schema is known to
        fit."""
        parts, decimals = self._parts, self._decimals
        frames.check_schema(frame.schema, decimals)
        source, names = arrow_types.as_arrow_source(frame)
        by_jvm = feeds_by_jvm(parts.jobs.spark_context, parts.settings)
        # The same for all epochs, and asked for at the first that needs it.
        partitions = cache(partial(shuffling.partitions_of, source))

        def shuffled(seed: int) -> Any:
            return shuffling.shuffled_frame(source, seed, partitions())

        def feed(seed: int, epoch: Epoch) -> int:
            ordered = source
            if seed:
                doing = f"{epoch.title}, its order"
                ordered = parts.jobs.ask("shuffle", doing, partial(shuffled, seed))
            plan = parts.plans.make(False, self._timeout, epoch)
            if by_jvm:
                collect = partial(jvm.train, ordered, plan, names, decimals)
            else:
                feeder = ArrowTrainFeeder(plan, names, decimals)
                collect = ordered.mapInArrow(feeder, ArrowTrainFeeder.SCHEMA).collect
            return self._run_and_count(epoch.title, collect, plan)

        return feed

    def _run_and_count(self, title: str, collect: Callable[[], list[Any]], plan: FeedPlan) -> int:
        """Runs a job that trains, enters what its tasks did, and shows it. Returns how many items
        they have fed: none of a job that ended early as no node wants rows any more."""
        parts = self._parts
        parts.tally.begin_job(self._course, plan.pickled)
        of_lost_nodes = ", what lost nodes had" if plan.repeats else ""
        counts = parts.jobs.feed(title + of_lost_nodes, collect, self._show)
        _check_partitions(plan, len(counts))
        parts.tally.count_job(self._course, counts, was_counted=plan.repeats)
        parts.show_progress("feeding")
        return sum(items for items, _ in counts)

    def _show(self, share: float) -> None:
        self._course.see(share)
        self._parts.show_progress("feeding")
