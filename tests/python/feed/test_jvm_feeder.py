"""When DataFrames are fed by the executors' JVMs, and what tasks say that lost a node."""

from __future__ import annotations

import re
import secrets
import socket

import pytest

from support.coordinator_port import AskedCoordinator
from support.spark.fake import FakeSparkContext
from tfos import _version
from tfos.cluster.feed.run import feeds_by_jvm
from tfos.errors import BadInputError, TfosError
from tfos.feed import jvm
from tfos.feed.plan import FeedPlan, Replay
from tfos.feed.tasks import TrainFeeder
from tfos.settings import Settings
from tfos.spark import jar

TOKEN = "5e" * 32
ASK_KEY = "4d" * 32


def context_with_jar(spark, master="spark://host:7077", **options):
    """The session's, as if Spark were configured so."""
    return FakeSparkContext(master, jvm=spark.sparkContext._jvm, **options)


def would_feed_by_jvm(context, feed_jvm):
    return feeds_by_jvm(context, Settings.resolve({"spark.tfos.feed.jvm": feed_jvm}.get, {}))


def test_the_jar_in_spark_jars_is_used(spark):
    assert jar.obstacle(spark.sparkContext) == ""
    assert would_feed_by_jvm(spark.sparkContext, "auto") is True
    assert would_feed_by_jvm(spark.sparkContext, "off") is False


def test_without_the_jar_python_feeds_unless_told_otherwise(caplog):
    caplog.set_level("INFO", "tfos.cluster.feed")
    assert would_feed_by_jvm(FakeSparkContext(), "auto") is False
    assert "is fed by Python workers: the jar of tfos is not" in caplog.text
    with pytest.raises(
        BadInputError, match=r"spark.tfos.feed.jvm is on, and the jar .*jar_path\(\)"
    ):
        would_feed_by_jvm(FakeSparkContext(), "on")


def test_an_older_spark_is_fed_by_python(spark):
    context = context_with_jar(spark, "local")
    context.version = "3.4.4"
    found = jar.obstacle(context)
    assert found == "the jar of tfos needs Spark 3.5 or 4, and this is 3.4.4"


def test_an_older_java_is_named_where_it_cannot_load_the_jar():
    found = jar.obstacle(FakeSparkContext(java="1.8"))
    assert found == "the jar of tfos needs Java 11 or newer, and Spark runs on Java 1.8"


def test_a_jar_of_another_version_is_not_used(spark, monkeypatch):
    version = _version.__version__
    monkeypatch.setattr(_version, "__version__", "9.9")
    found = jar.obstacle(spark.sparkContext)
    assert found == f"the jar of tfos on the class path is version {version}, and the package 9.9"


@pytest.mark.parametrize(
    ("master", "jars", "conf", "there"),
    [
        ("spark://host:7077", "", {}, False),
        ("local-cluster[2,1,1024]", "", {}, False),
        ("local[2]", "", {}, True),
        ("local", "", {}, True),
        ("spark://host:7077", "spark://driver:1/jars/{name}", {}, True),
        ("yarn", "", {"spark.yarn.dist.jars": "hdfs:///lib/{name},hdfs:///lib/x.jar"}, True),
        ("yarn", "", {"spark.executor.extraClassPath": "/opt/x.jar:/opt/{name}"}, True),
        ("yarn", "", {"spark.executor.extraClassPath": "{directory}/*"}, True),
        ("yarn", "", {"spark.executor.extraClassPath": "/opt/other/*"}, False),
    ],
)
def test_executors_must_have_the_jar_too(spark, master, jars, conf, there):
    location = spark.sparkContext._jvm.tfos.internal.feed.FrameFeeder.location()
    directory, _, name = location.rpartition("/")
    conf = {key: value.format(name=name, directory=directory) for key, value in conf.items()}
    context = context_with_jar(spark, master, jars=jars.format(name=name), conf=conf)
    found = jar.obstacle(context)
    assert (found == "") is there
    assert there or f"the driver has {location}, and nothing says" in found


def test_the_setting_has_three_values():
    with pytest.raises(
        BadInputError, match="spark.tfos.feed.jvm must be auto, on or off, not 'maybe'"
    ):
        Settings.resolve({"spark.tfos.feed.jvm": "maybe"}.get, {})


class Coordinator(AskedCoordinator):
    def __init__(self):
        super().__init__(ASK_KEY)
        #: Nobody listens there, and nobody else can.
        self.taken = socket.socket()
        self.taken.bind(("127.0.0.1", 0))

    def plan(self, timeout=10):
        """For a row to node 3, which can't be reached."""
        return FeedPlan(
            feed_key=TOKEN,
            ask_key=ASK_KEY,
            encrypt="auto",
            pickle=True,
            coordinator=self.address,
            job_id=secrets.token_bytes(16),
            queue="input",
            endpoints=[
                {
                    "node_id": 3,
                    "address": "127.0.0.1",
                    "port": self.taken.getsockname()[1],
                    "socket": "",
                    "executor_id": "",
                }
            ],
            timeout=timeout,
            region_bytes=1 << 20,
            chunk_bytes=1 << 20,
            epoch=0,
            pickled=False,
            replay=Replay(),
        )


@pytest.fixture
def coordinator():
    coordinator = Coordinator()
    yield coordinator
    coordinator.close()
    coordinator.taken.close()
    assert coordinator.strangers == 0


def train_by_jvm(spark, plan):
    return jvm.train(spark.range(1, numPartitions=1), plan, ["id"], None)


def train_by_python(spark, plan):
    return (
        spark.sparkContext.range(1, numSlices=1).mapPartitionsWithIndex(TrainFeeder(plan)).collect()
    )


def error_of(train, spark, plan):
    """The class in tfos.errors and the text of what ends a job."""
    with pytest.raises(TfosError) as raised:
        train(spark, plan)
    return type(raised.value).__name__, str(raised.value)


@pytest.fixture(params=[train_by_jvm, train_by_python])
def train(request):
    return request.param


@pytest.mark.failure("network cut", "feeding")
def test_a_node_that_runs_and_cannot_be_reached_is_named_with_what_to_do(spark, coordinator, train):
    nodes = [{"node_id": 3, "state": "running"}]
    coordinator.answers["/v1/status"] = {"failure": None, "nodes": nodes}
    name, text = error_of(train, spark, coordinator.plan(timeout=0.5))
    assert name == "FeedError"
    assert re.match(
        "feed partition 0: node 3 on host 127.0.0.1 runs, but host .* can't reach it: .*"
        "Connection refused.*firewall, routes",
        text,
    )


def test_a_node_that_has_ended_is_lost(spark, coordinator, train):
    nodes = [{"node_id": 3, "state": "failed"}]
    coordinator.answers["/v1/status"] = {"failure": None, "nodes": nodes}
    name, text = error_of(train, spark, coordinator.plan())
    assert name == "NodeLostError"
    assert re.match("feed partition 0: no node could be reached: node 3", text)


def test_the_clusters_first_failure_explains_why_a_node_is_gone(spark, coordinator, train):
    coordinator.answers["/v1/failure"] = {
        "node_id": 3,
        "job_name": "worker",
        "task_index": 1,
        "executor_id": "process 7",
        "host": "h",
        "step": "run the program",
        "message": "ValueError: no",
        "traceback": "Traceback:\n  raise ValueError('no')\n",
    }
    coordinator.answers["/v1/status"] = {"failure": {}, "nodes": [{"node_id": 3, "state": "done"}]}
    name, text = error_of(train, spark, coordinator.plan())
    assert name == "NodeFailedError"
    assert text.startswith(
        "worker:1 (node 3, executor process 7 on h) failed to run the program: ValueError: no\n"
        "Remote traceback:\nTraceback:\n  raise ValueError('no')"
    )


def test_rows_that_nobody_is_left_to_want_are_no_failure(spark, coordinator, train):
    nodes = [{"node_id": 3, "state": "done"}, {"node_id": 4, "state": "running"}]
    coordinator.answers["/v1/status"] = {"failure": None, "nodes": nodes}
    assert train(spark, coordinator.plan()) == [(0, 0)]
