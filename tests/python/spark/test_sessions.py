"""What may be passed as ``spark``, and what is said of anything else."""

from __future__ import annotations

import importlib
import sys
import threading
import types
import weakref

import pyspark.sql
import pytest
from pyspark import StorageLevel

import tfos
from support.spark.fake import FakeSparkContext, fake_session
from support.waiting import BOUND_SECONDS
from tfos import parallel, util
from tfos.errors import BadInputError, TfosError
from tfos.records.spark import sessions
from tfos.spark.connect import ConnectContext, ConnectJobGroup, ConnectTasks


class ConnectSession:
    """As Spark Connect's: it has no SparkContext, and its error for that is an AttributeError."""

    __module__ = "pyspark.sql.connect.session"
    version = "3.5.8"

    @property
    def sparkContext(self):
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")


ENTRIES = {
    "run": lambda spark: tfos.run(spark, print, nodes=1),
    "parallel.run": lambda spark: parallel.run(spark, print, instances=1),
    "register_tfrecords": tfos.register_tfrecords,
    "num_executors": util.num_executors,
    "num_param_servers": util.num_param_servers,
}


def test_what_needs_a_context_is_refused_with_spark_connect():
    with pytest.raises(BadInputError, match="one of Spark Connect.*tfos submit.*SPARK_REMOTE"):
        ENTRIES["parallel.run"](ConnectSession())


@pytest.mark.parametrize(
    "name", ["run", "register_tfrecords", "num_executors", "num_param_servers"]
)
def test_an_old_server_of_spark_connect_is_refused(name):
    with pytest.raises(BadInputError, match="needs Spark 4.0 or newer .* this server runs 3.5.8"):
        ENTRIES[name](ConnectSession())


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_no_session_is_named(name):
    with pytest.raises(
        BadInputError, match="expected a SparkSession or a SparkContext, not a list"
    ):
        ENTRIES[name]([])


@pytest.mark.parametrize("given", [FakeSparkContext, fake_session])
def test_parallel_takes_sessions_and_contexts(given):
    context = FakeSparkContext("local[2]")
    spark = fake_session(context) if given is fake_session else context
    with pytest.raises(BadInputError, match=r"3 instances were asked for .* at most 2 instances"):
        parallel.run(spark, print, instances=3)


def stopped_context():
    context = FakeSparkContext()
    context._jsc = None
    return context


class StoppedConnectSession(ConnectSession):
    __module__ = ConnectSession.__module__
    is_stopped = True


@pytest.mark.parametrize("name", ENTRIES)
def test_a_session_that_was_stopped_is_refused(name):
    with pytest.raises(BadInputError, match="this Spark session was stopped: make another one"):
        ENTRIES[name](fake_session(stopped_context()))


def test_a_session_of_connect_that_was_stopped_is_refused():
    with pytest.raises(BadInputError, match="this Spark session was stopped: make another one"):
        ENTRIES["run"](StoppedConnectSession())


class Server:
    """One of Spark Connect, with its client and a session there. Jobs fail with ``error``."""

    is_closed = is_stopped = False
    version = "4.1.4"

    def __init__(self, number=0, error=""):
        self.client = self
        self.registered = []
        self._number = number
        self._error = error

    def _create_profile(self, profile):
        self.registered.append(profile)
        return self._number

    def range(self, *_numbers):
        return self

    def mapInArrow(self, *_function, **_options):
        return self

    def collect(self):
        raise RuntimeError(self._error)


def test_each_server_learns_the_profile_of_its_nodes(monkeypatch):
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
    from pyspark.sql.connect.session import SparkSession

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    active, other = Server(3), Server(5)
    monkeypatch.setattr(SparkSession._active_session, "session", active, raising=False)
    profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    for server, number in ((other, 5), (active, 3)):
        registered = ConnectContext(server).registered_profile(profile)
        assert registered.id == number
        assert registered.taskResources["cpus"].amount == 2
        (seen,) = server.registered
        assert seen.task_resources["cpus"].amount == 2
    assert SparkSession.getActiveSession() is active


def test_where_no_thread_starts_jobs_are_cancelled_once(monkeypatch):
    """As at the interpreter's end. A server that is gone is called for minutes."""

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    cancelled = []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    group = ConnectJobGroup(types.SimpleNamespace(interruptTag=cancelled.append), "jobs")
    group.cancel()
    group.cancel()
    assert cancelled == ["jobs"]


class Results:
    """Those of tasks. A server keeps them until its client has none of these any more."""

    def collect(self):
        return [types.SimpleNamespace(number=0, result=None)]


class Holder(Server):
    """A server that may keep the results of tasks. It calls ``meanwhile`` before it does."""

    def __init__(self):
        super().__init__()
        self.kept = weakref.WeakSet()

    def collect(self):
        return Results().collect()

    def localCheckpoint(self, _eager, _level):
        self.meanwhile()
        results = Results()
        self.kept.add(results)
        return results


@pytest.mark.parametrize("when", ["before", "meanwhile", "afterwards"])
def test_executors_are_let_go_whenever_that_is_said(when):
    """As where Ctrl-C comes while the tasks begin."""
    server = Holder()
    tasks = ConnectTasks(server, print, [0]).persist(StorageLevel.MEMORY_AND_DISK)

    def let_go():
        tasks.unpersist()
        for thread in threading.enumerate():
            if thread.name == "tfos-connect-release":
                thread.join(BOUND_SECONDS)

    server.meanwhile = let_go if when == "meanwhile" else lambda: None
    if when == "before":
        let_go()
    assert tasks.collect() == [(0, None)]
    assert len(server.kept) == (when == "afterwards")
    if when == "afterwards":
        let_go()
    assert len(server.kept) == 0


def test_executors_without_tfos_are_named_by_what_to_do():
    def run(error):
        ConnectContext(Server(error=error)).run_on_executor(print)

    with pytest.raises(TfosError, match="can't import tfos: install the wheel") as raised:
        run("Job aborted:\nModuleNotFoundError: No module named 'tfos'\n\tat org.apache.spark")
    assert isinstance(raised.value.__cause__, RuntimeError)
    with pytest.raises(RuntimeError, match="another one"):
        run("another one")


def test_registering_without_the_jar_is_refused_where_formats_cannot_be_python():
    session = fake_session(FakeSparkContext(version="3.5.8"))
    expected = "needs Spark 4.0 or newer, and this is 3.5.8: write with tfos.save_tfrecords"
    with pytest.raises(BadInputError, match=expected):
        sessions.register_python(session, "tfrecord")


def test_records_load_where_pyspark_has_no_data_sources(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    monkeypatch.delattr(pyspark.sql, "datasource", raising=False)
    for name in [name for name in sys.modules if name.startswith("tfos.records.spark.")]:
        package, _, module = name.rpartition(".")
        # So that the package has the same module again afterwards as `sys.modules` has.
        monkeypatch.setattr(sys.modules[package], module, sys.modules[name], raising=False)
        monkeypatch.delitem(sys.modules, name)
    reader = importlib.import_module("tfos.records.spark.reader")
    assert reader.FileParts([]).value == []
    source = importlib.import_module("tfos.records.spark.source")
    assert source.TFRecordSource({"path": "/a"}).options == {"path": "/a"}
