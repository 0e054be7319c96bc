"""What tfos asks of Spark in a session of Spark Connect, whose client has no SparkContext.

The client talks to Spark's server alone. So a function runs on an executor as a job of one task,
and on the server as part of planning a query: Spark calls a data source that is written in Python
there, to learn its schema. That takes no task slot, so it also works while tasks fill them all.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfos.errors import BadInputError
from tfos.spark import executor, failures, versions

if TYPE_CHECKING:
    from pyspark import StorageLevel

logger = logging.getLogger(__name__)

_MODULES = "pyspark.sql.connect"
_RESULT = "number long, result binary"
#: As Spark has it for executors of one core, of which there are at least so many.
_PARALLELISM = 2
#: What is said of a session that was stopped.
STOPPED = "this Spark session was stopped: make another one, and pass that"
_NO_FILE = "/tfos-asks-for-the-default-file-system"


def is_connect(spark: Any) -> bool:
    """Whether ``spark`` is a SparkSession, or a DataFrame of one, of Spark Connect."""
    return type(spark).__module__.startswith(_MODULES)


class ConnectConf:
    """The configuration of a session, as a SparkConf has it."""

    def __init__(self, values: dict[str, str]):
        self._values = values

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value of ``key``, or ``default``."""
        return self._values.get(key, default)

    def getAll(self) -> list[tuple[str, str]]:
        """All keys with their values."""
        return list(self._values.items())

    def contains(self, key: str) -> bool:
        """Whether ``key`` is set."""
        return key in self._values


class ConnectContext:
    """What stands for the SparkContext in a session of Spark Connect.

    Owner and lifetime: its maker, as long as the session lives. Threads: any.
    Errors: Spark's own, and :class:`BadInputError` for a server that is too old.
    """

    def __init__(self, spark: Any):
        if getattr(spark, "is_stopped", False):
            raise BadInputError(STOPPED)
        self.session = spark
        self.version: str = spark.version
        if not versions.has_python_data_sources(self.version):
            raise BadInputError(
                f"Spark Connect needs Spark 4.0 or newer for tfos, and this server runs "
                f"{self.version}: use a newer one, or run the program where Spark's driver runs"
            )

    @property
    def master(self) -> str:
        """The server's."""
        return self.getConf().get("spark.master") or "not known"

    @property
    def applicationId(self) -> str:
        """The server's."""
        return self.getConf().get("spark.app.id") or ""

    @property
    def appName(self) -> str:
        """As the session has it, which is the server's unless it was given one."""
        return self.getConf().get("spark.app.name") or ""

    @property
    def defaultParallelism(self) -> int:
        """Into how many parts Spark cuts what nobody cuts otherwise, as far as the server tells."""
        return int(self.getConf().get("spark.default.parallelism") or _PARALLELISM)

    def getConf(self) -> ConnectConf:
        """The session's configuration as it is now."""
        return ConnectConf(dict(self.session.conf.getAll))

    def default_fs(self) -> str:
        """The ``fs.defaultFS`` of the server.

        Its value is not part of a session's configuration, but Spark names the file system when
        it does not find a file."""
        from pyspark.errors import AnalysisException

        configured = self.getConf().get("spark.hadoop.fs.defaultFS")
        if configured:
            return configured
        try:
            _ = self.session.read.text(_NO_FILE).schema
        except AnalysisException as error:
            found = (error.getMessageParameters() or {}).get("path", "")
            if found.endswith(_NO_FILE):
                return found.removesuffix(_NO_FILE) or "file:///"
            raise
        return "file:///"

    def run_on_executor(
        self,
        function: Callable[[], Any],
        profile: Any = None,
        held: list[ConnectTasks] | None = None,
    ) -> Any:
        """What ``function()`` returns, or raises, in a task of its own. It must be known to the
        executors' Python, or be pickled by value. Raises :class:`tfos.errors.TfosError` where they
        lack tfos.

        Args:
            profile: the ResourceProfile of the task; None: Spark's default.
            held: takes what holds the task's executor (:meth:`ConnectTasks.persist`); None:
                nothing holds it.
        """
        import cloudpickle
        from pyspark import StorageLevel

        tasks = ConnectTasks(self.session, _Call(function), [0], profile)
        if held is not None:
            held.append(tasks.persist(StorageLevel.MEMORY_AND_DISK))
        try:
            [(_, said)] = tasks.collect()
        except Exception as failure:  # Spark's and gRPC's, of many kinds
            found = failures.explained(failure)
            if found is failure:
                raise
            raise found from failure
        result, error = cloudpickle.loads(said)
        if error is not None:
            raise error
        return result

    def on_server(self, name: str, function: Callable[[str], str]) -> Callable[[str], str]:
        """``function``, to be called from here and to run on the server.

        Args:
            name: that no other has in this session.
            function: the text that it returns must be its own each time. It is pickled by value,
                so it must be made inside another function and import what it uses: the
                server's Python need not have tfos.
        """
        self.session.dataSource.register(_source_of(name, function))
        numbers = itertools.count()  # Spark keeps the plans of queries that are alike.

        def call(request: str) -> str:
            reader = self.session.read.format(name).option("number", str(next(numbers)))
            return reader.option("request", request).load().schema[0].metadata["answer"]

        return call

    def registered_profile(self, profile: Any) -> Any:
        """A ``pyspark.resource.ResourceProfile`` like this one that the server knows, so that tasks
        may have it. Raises :class:`BadInputError` for one that Spark can't do, with its reason."""
        from pyspark.errors import PySparkException
        from pyspark.resource import ResourceProfile
        from pyspark.sql.connect.session import SparkSession

        # A profile has one number for ever, and may have that of another server.
        registered = ResourceProfile(
            _exec_req=profile.executorResources, _task_req=profile.taskResources
        )
        # pyspark asks the session that is active in the thread.
        active = SparkSession._active_session
        before = getattr(active, "session", None)
        active.session = self.session
        try:
            _ = registered.id  # It has one from now on, in every thread.
        except PySparkException as error:
            raise BadInputError(
                f"Spark refuses the resources of nodes: {str(error).strip()}"
            ) from error
        finally:
            active.session = before
        return registered

    def job_group(self, group: str) -> ConnectJobGroup:
        """For a job that is to be watched and cancelled."""
        return ConnectJobGroup(self.session, group)


class ConnectTasks:
    """What runs ``task([number])`` in a Spark task for each of the consecutive ``numbers``.
    ``profile`` is the ResourceProfile of each task, registered before; None: Spark's default.

    Threads: one at a time, but :meth:`unpersist` may be called from any."""

    def __init__(
        self,
        session: Any,
        task: Callable[..., Iterable[Any]],
        numbers: Sequence[int],
        profile: Any = None,
    ):
        source = session.range(numbers[0], numbers[-1] + 1, 1, len(numbers))
        self._results = source.mapInArrow(
            executor.SameVersion(_NumberedTask(task)), _RESULT, profile=profile
        )
        self._level: StorageLevel | None = None
        self._kept: Any = None  # Its end tells the server to let go.

    def persist(self, level: StorageLevel) -> ConnectTasks:
        """Has Spark keep what the tasks yield on their executors, from when they are collected. So
        dynamic allocation does not take these for idle until :meth:`unpersist`.

        It is a local checkpoint, as Spark's server drops that with the session of a client that was
        lost. What such a client has cached otherwise would stay as long as the server."""
        self._level = level
        return self

    def unpersist(self) -> None:
        """Lets go of the executors, soon: a server that is gone is called again for minutes.

        They count as idle once the server has forgotten the plan, and has collected garbage, as it
        does every 30 minutes at least. Of a session it keeps the last plans, 32 in Spark 4.1
        (spark.connect.session.planCache.maxSize)."""
        self._level = None
        _soon("tfos-connect-release", self._let_go)

    def collect(self) -> list[tuple[int, bytes | None]]:
        """Runs the tasks, and returns all that they yield: numbers, each with bytes or None."""
        results, level = self._results, self._level
        if level is not None:
            # Not eager: that would be a job of its own, and this one would not have the profile.
            self._kept = results = results.localCheckpoint(False, level)
            if self._level is None:  # `unpersist` came meanwhile, and may have found nothing yet.
                self._kept = None
        return [
            (row.number, None if row.result is None else bytes(row.result))
            for row in results.collect()
        ]

    def _let_go(self) -> None:
        self._kept = None


class ConnectJobGroup:
    """The Spark jobs of a thread, by which they are watched and cancelled."""

    def __init__(self, session: Any, group: str):
        self._session = session
        self._group = group
        self._thread: threading.Thread | None = None
        self._counts = (0, 0)
        self._cancelling: threading.Thread | None = None

    def begin(self, description: str) -> None:
        """Has the calling thread's jobs belong to the group."""
        self._thread = threading.current_thread()
        self._session.addTag(self._group)
        self._session.registerProgressHandler(self._take_progress)

    def end(self) -> None:
        """The thread has no more jobs."""
        with contextlib.suppress(ValueError):  # The program may have removed all handlers.
            self._session.removeProgressHandler(self._take_progress)

    def cancel(self) -> None:
        """Cancels what runs, soon: a server that is gone is called again for minutes."""
        if self._cancelling is None or not self._cancelling.is_alive():
            self._cancelling = _soon("tfos-connect-cancel", self._interrupt)

    def task_counts(self) -> tuple[int, int]:
        """(tasks running now, tasks in all) as Spark has last said."""
        return self._counts

    def share_done(self) -> float:
        return 0.0

    def _interrupt(self) -> None:
        try:
            self._session.interruptTag(self._group)
        except (
            Exception
        ) as error:  # Spark's and gRPC's, of many kinds: the jobs end with the server
            logger.debug("the jobs of %s were not cancelled: %s", self._group, error)

    def _take_progress(self, stages: Any, inflight_tasks: int, *_: Any, **__: Any) -> None:
        # Spark calls the handlers of a session for all its jobs, each from the thread that waits.
        if threading.current_thread() is self._thread and stages:
            self._counts = (inflight_tasks, sum(stage.num_tasks for stage in stages))


def _soon(name: str, function: Callable[[], None]) -> threading.Thread:
    """Calls ``function`` in a thread, so that nobody waits for a server that is gone."""
    thread = threading.Thread(target=function, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # The interpreter ends, and starts no threads any more.
        function()
        return threading.current_thread()  # It lives on, so who looks does not call again.
    return thread


class _NumberedTask:
    """A function for ``DataFrame.mapInArrow``: hands the numbers to a task, and yields rows."""

    def __init__(self, task: Callable[..., Iterable[Any]]):
        self._task = task

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        for number, result in self._task(numbers):
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int64()), pa.array([result], pa.binary())],
                names=["number", "result"],
            )


class _Call:
    """A task that calls a function, and gives its result or what it raised."""

    def __init__(self, function: Callable[[], Any]):
        self._function = function

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        import cloudpickle

        result = error = None
        try:
            result = self._function()
        except Exception as raised:  # raised again where it was asked for
            error = raised
        for number in numbers:
            yield number, cloudpickle.dumps((result, error))


def _source_of(source_name: str, function: Callable[[str], str]) -> type:
    """A data source whose schema holds what ``function`` makes of its option ``request``. It is
    made in here, so that it is pickled by value."""
    from pyspark.sql.datasource import DataSource

    class ServerFunction(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> Any:
            from pyspark.sql.types import StringType, StructField, StructType

            answer = {"answer": function(self.options["request"])}
            return StructType([StructField("answer", StringType(), True, answer)])

    return ServerFunction
