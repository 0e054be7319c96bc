"""Spark jobs that the driver can watch and cancel while they run."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark import InheritableThread, SparkContext
from pyspark.rdd import RDD, PipelinedRDD
from pyspark.serializers import BatchedSerializer, CPickleSerializer, NoOpSerializer

from tfos.errors import TfosError
from tfos.spark import executor, failures, versions
from tfos.spark.connect import ConnectContext, ConnectJobGroup, ConnectTasks

_CANCEL_INTERVAL_SECONDS = 0.2
_CANCEL_ATTEMPTS = 10
#: Each question about a job is several calls to the JVM.
_SHARE_INTERVAL_SECONDS = 2.0

logger = logging.getLogger(__name__)


class SparkJob:
    """A Spark action running in a thread of its own, in a job group of its own.

    Owner and lifetime: its starter calls ``result`` or ``cancel``. Threads: any.
    ``on_done`` is called from the job's thread when the action has ended, either way.
    """

    def __init__(
        self,
        sc: SparkContext | ConnectContext,
        group: str,
        description: str,
        action: Callable[[], Any],
        on_done: Callable[[SparkJob], None],
    ):
        self.group = group
        self._jobs = _job_group(sc, group)
        self._error: Exception | None = None
        self._result: Any = None
        self._cancelled = False
        self._share = 0.0
        self._watch: threading.Thread | None = None
        self._done = threading.Event()

        def run() -> None:
            try:
                self._jobs.begin(description)
                if not self._cancelled:
                    self._result = action()
            except Exception as error:  # `result` raises it
                self._error = error
            finally:
                self._jobs.end()
                self._done.set()
                on_done(self)

        kind = threading.Thread if isinstance(sc, ConnectContext) else InheritableThread
        self._thread = kind(target=run, name=group, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def error(self) -> Exception | None:
        """What the action raised; None while it runs."""
        return self._error

    def wait(self, seconds: float) -> bool:
        """Whether the action has ended, after waiting for that for up to ``seconds``."""
        return self._done.wait(seconds)

    def result(self) -> Any:
        """Waits for the end of the action, and returns its value or raises its error."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def cancel(self) -> None:
        """Cancels the action, and what Spark would still start for it as soon as it has planned
        that. Spark 3 only cancels what it runs already, hence the repetition.

        Raises nothing, as it follows from what went wrong before: a session that was stopped has
        ended its jobs already, and says so in errors of its own."""
        self._cancelled = True
        for _ in range(_CANCEL_ATTEMPTS):
            try:
                self._jobs.cancel()
            except Exception as error:
                logger.info("Spark does not cancel its job %s: %s", self.group, error)
                return
            if self._done.wait(_CANCEL_INTERVAL_SECONDS):
                return
        logger.warning("Spark has not ended its job %s yet, which was cancelled", self.group)

    def task_counts(self) -> tuple[int, int]:
        """(tasks running now, tasks in all) as Spark sees them."""
        return self._jobs.task_counts()

    def share_done(self) -> float:
        """The share of the tasks of its last stage that have ended, 0 to 1; 0 where Spark does not
        say. It is some seconds old, and falls where Spark adds a stage. One thread asks for it.
        """
        # Spark's handler of Ctrl-C calls the JVM, which it can't if the main thread is calling it
        # just then: the Ctrl-C would be lost. So another thread asks Spark.
        if self._watch is None:
            self._watch = threading.Thread(
                target=self._look_at_share, name=f"{self.group}-share", daemon=True
            )
            self._watch.start()
        return self._share

    def _look_at_share(self) -> None:
        while True:
            try:
                self._share = self._jobs.share_done()
            except Exception as error:  # A session that ends says so where its jobs do.
                logger.debug("Spark does not say how far its job %s is: %s", self.group, error)
            if self._done.wait(_SHARE_INTERVAL_SECONDS):
                return


class _ContextJobGroup:
    """The Spark jobs of a thread in a session with a SparkContext."""

    def __init__(self, sc: SparkContext, group: str):
        self._sc = sc
        self._group = group

    def begin(self, description: str) -> None:
        self._sc.setJobGroup(self._group, description, interruptOnCancel=True)

    def end(self) -> None:
        """The group ends with its thread."""

    def cancel(self) -> None:
        versions.cancel_jobs(self._sc, self._group)

    def task_counts(self) -> tuple[int, int]:
        stages = self._stages()
        return sum(one.numActiveTasks for one in stages), sum(one.numTasks for one in stages)

    def share_done(self) -> float:
        stage = self._last_stage()
        return stage.numCompletedTasks / stage.numTasks if stage and stage.numTasks else 0.0

    def _last_stage(self) -> Any:
        """What Spark knows of the stage that it has numbered last; None: nothing.

        It numbers a stage after those whose output it reads, and jobs as they begin. So it is the
        action's own, once Spark has planned that; the others are shuffles, and some of them are
        skipped."""
        tracker = self._sc.statusTracker()
        job = max(tracker.getJobIdsForGroup(self._group), default=None)
        info = None if job is None else tracker.getJobInfo(job)
        return tracker.getStageInfo(max(info.stageIds)) if info and info.stageIds else None

    def _stages(self) -> list[Any]:
        """What Spark knows of the stages of these jobs, those that have not begun included."""
        tracker = self._sc.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self._group))
        stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
        return [stage for stage in stages if stage]


def _job_group(sc: SparkContext | ConnectContext, group: str) -> _ContextJobGroup | ConnectJobGroup:
    return sc.job_group(group) if isinstance(sc, ConnectContext) else _ContextJobGroup(sc, group)


class SparkJobs:
    """The Spark jobs of one cluster.

    Owner and lifetime: the cluster. Threads: any.
    """

    def __init__(self, sc: SparkContext | ConnectContext, cluster_id: str):
        self.spark_context = sc
        self._cluster_id = cluster_id
        self._lock = threading.Lock()
        self._started = 0
        #: Without those that had ended when the last one was started. A stream starts one for each
        #: of its intervals, and each holds its result.
        self._jobs: list[SparkJob] = []

    def __len__(self) -> int:
        """How many have been started."""
        return self._started

    def start(
        self,
        kind: str,
        doing: str,
        action: Callable[[], Any],
        on_done: Callable[[SparkJob], None],
    ) -> SparkJob:
        """Runs ``action`` as a :class:`SparkJob`. ``kind`` goes into the name of its group, and
        ``doing`` is what Spark's pages call it."""
        with self._lock:
            group = f"tfos-{self._cluster_id}-{kind}-{self._started}"
            self._started += 1
            self._jobs = [job for job in self._jobs if not job.done]
            job = SparkJob(self.spark_context, group, f"tfos: {doing}", action, on_done)
            self._jobs.append(job)
        return job

    def tasks(
        self, task: Callable[..., Iterable[Any]], numbers: Sequence[int], profile: Any = None
    ) -> RDD | ConnectTasks:
        """What runs ``task([number])`` in a Spark task for each of the consecutive ``numbers`` once
        it is collected: all that they yield, pairs of the number and bytes or None. ``profile`` is
        the ResourceProfile of each task; None: Spark's default."""
        if isinstance(self.spark_context, ConnectContext):
            return ConnectTasks(self.spark_context.session, task, numbers, profile)
        rdd = self.spark_context.parallelize(numbers, len(numbers))
        rdd = rdd.mapPartitions(executor.SameVersion(task))
        return rdd if profile is None else rdd.withResources(profile)

    def cancel(self) -> None:
        """Cancels those that still run."""
        with self._lock:
            running = [job for job in self._jobs if not job.done]
        for job in running:
            job.cancel()


def use_this_python(sc: Any) -> None:
    """Has the executors of a local master run this very Python, unless the user names another one:
    Spark would take the PATH's ``python3``, which need not be the one that holds tfos."""
    named = "PYSPARK_PYTHON" in os.environ or sc.getConf().contains("spark.pyspark.python")
    if isinstance(sc, ConnectContext):
        return  # Executors have the Python that the server's environment names.
    if sc.master.startswith("local") and not named:
        sc.pythonExec = sys.executable


def first_cause(error: Exception) -> str:
    """The sentence of tfos in Spark's long report of a failed task; the report's first line when
    there is none."""
    found = failures.explained(error)
    if isinstance(found, TfosError):
        return str(found)
    return str(error).partition("\n")[0]


def pickled_batches(rdd: RDD) -> RDD | None:
    """``rdd`` as an RDD of the pickled batches that Spark already holds for it, or None.

    None where there are none yet: an RDD that is a Python function of another one and is not
    cached would be pickled for this alone, in an extra pass.
    """
    if isinstance(rdd, PipelinedRDD) and not (rdd.is_cached or rdd.is_checkpointed):
        return None
    serializer = rdd._jrdd_deserializer
    if not (
        isinstance(serializer, BatchedSerializer)
        and isinstance(serializer.serializer, CPickleSerializer)
    ):
        return None
    return RDD(rdd._jrdd, rdd.ctx, NoOpSerializer())
