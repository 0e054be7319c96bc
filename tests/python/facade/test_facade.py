"""How the arguments and contexts of TensorFlowOnSpark map to tfos, without a cluster."""

import argparse
import inspect
import re
import socket
import sys
from types import SimpleNamespace
from unittest import mock

import cloudpickle
import pytest

import tfos
from tensorflowonspark import (
    TFCluster,
    TFNode,
    TFSparkNode,
)
from tfos.cluster import start
from tfos.cluster.plan import ClusterRequest
from tfos.errors import BadInputError
from tfos.node import internals
from tfos.node.context import NodeContext
from tfos.node_status import NodeStatus
from tfos.settings import Settings

NODES = [
    {
        "node_id": 0,
        "job_name": "ps",
        "task_index": 0,
        "rank": -1,
        "host": "h0",
        "address": "10.0.0.1",
        "port": 2222,
        "feed": None,
        "tensorboard": None,
    },
    {
        "node_id": 1,
        "job_name": "chief",
        "task_index": 0,
        "rank": 0,
        "host": "h1",
        "address": "10.0.0.2",
        "port": 2223,
        "feed": {"socket": "tfos-x", "port": 4000},
        "tensorboard": {"pid": 77, "port": 6006},
    },
    {
        "node_id": 2,
        "job_name": "worker",
        "task_index": 0,
        "rank": 1,
        "host": "h1",
        "address": "10.0.0.2",
        "port": 2224,
        "feed": {"socket": "tfos-y", "port": 4001},
        "tensorboard": None,
    },
]

#: What a cluster of tfos says of itself, as the facade's cluster passes it on.
FACTS = {
    "spark_context": "the context",
    "cluster_id": "0123456789abcdef",
    "default_fs": "hdfs://nn",
    "working_dir": "/wd",
    "coordinator_address": ("10.0.0.9", 4242),
}


def fake_cluster():
    """A Cluster that takes only the calls that a real one takes, and answers each with its name."""
    made = mock.create_autospec(tfos.Cluster, instance=True, **FACTS)
    made.status.return_value = [
        NodeStatus.from_message({"state": "running", **node}) for node in NODES
    ]
    for name in ("train", "inference", "shutdown", "tensorboard_url"):
        getattr(made, name).side_effect = lambda *_, name=name, **__: f"result of {name}"
    return made


class FakeFeedSource:
    terminated = False

    def __init__(self):
        self.queues_read = []

    def reader(self, queue):
        self.queues_read.append(queue)
        return SimpleNamespace(ended=False)


def make_node(job_name="worker", port_socket=None, feed_source=None):
    bootstrap = {
        "node_id": 2,
        "executor_id": "17",
        "job_name": job_name,
        "task_index": 0,
        "cluster_spec": {"ps": ["a:1"], "chief": ["b:2"], "worker": ["c:3", "d:4"]},
        "num_workers": 3,
        "nodes": NODES,
        "host": "h",
        "address": "10.0.0.2",
        "port": 2224,
        "gpus": ["1"],
        "gpu_fraction": 0.0,
        "node": {"default_fs": "hdfs://nn", "working_dir": "/wd", "log_dir": "/logs"},
    }
    reported = []
    reporter = SimpleNamespace(report=reported.append, reported=reported)
    return NodeContext(bootstrap, None, feed_source, reporter, port_socket)


@pytest.fixture
def started(monkeypatch):
    """What TFCluster.run has asked tfos for."""
    calls = SimpleNamespace(cluster=fake_cluster())

    def fake_start(spark, main, request, settings):
        Settings.resolve({}.get, settings)  # It refuses unknown ones.
        calls.spark, calls.main, calls.request, calls.settings = spark, main, request, settings
        return calls.cluster

    made = mock.create_autospec(start.start, side_effect=fake_start)
    monkeypatch.setattr(start, "start", made)
    return calls


@pytest.fixture
def cluster(started):
    return TFCluster.run("sc", print, None, 3, input_mode=TFCluster.InputMode.SPARK)


def test_the_environment_says_where_the_coordinator_is(started, monkeypatch):
    monkeypatch.setenv("TFOS_SERVER_HOST", "driver.example")
    monkeypatch.setenv("TFOS_SERVER_PORT", "9997-9999")
    TFCluster.run("sc", print, None, 3)
    assert started.settings["coordinator_advertised_address"] == "driver.example"
    assert started.settings["coordinator_port"] == "9997-9999"


def test_run_passes_everything_under_its_new_name(started):
    cluster = TFCluster.run(
        "sc",
        print,
        ["argv"],
        4,
        num_ps=1,
        tensorboard=True,
        input_mode=TFCluster.InputMode.SPARK,
        log_dir="/logs",
        driver_ps_nodes=True,
        master_node="chief",
        reservation_timeout=5,
        queues=["input", "extra"],
        eval_node=True,
        release_port=False,
    )
    assert started.spark == "sc"
    assert started.request == ClusterRequest(
        nodes=4,
        args=["argv"],
        ps=1,
        chief="chief",
        evaluator=True,
        input_mode="spark",
        tensorboard=True,
        log_dir="/logs",
        driver_parameter_servers=True,
        registration_timeout=5,
        queues=("input", "extra"),
    )
    assert started.settings == {"slots_timeout": 5, "gpu_count_if_any": 1}
    assert cluster.queues == ["input", "extra"]
    assert cluster.input_mode == TFCluster.InputMode.SPARK
    assert cluster.cluster_meta["release_port"] is False


@pytest.mark.parametrize(
    "tf_args, settings",
    [
        (argparse.Namespace(num_gpus=2), {"gpu_count": 2}),
        (argparse.Namespace(num_gpus=0), {"gpu_count": 0}),
        (argparse.Namespace(num_gpus=None), {"gpu_count_if_any": 1}),
        (argparse.Namespace(), {"gpu_count_if_any": 1}),
        (["prog", "--num_gpus", "2"], {"gpu_count_if_any": 1}),
    ],
)
def test_num_gpus_of_the_arguments_is_the_number_for_each_node(started, tf_args, settings):
    TFCluster.run("sc", print, tf_args, 2)
    assert {k: v for k, v in started.settings.items() if k.startswith("gpu_")} == settings


def test_programs_read_their_own_data_unless_they_say_otherwise(started):
    TFCluster.run("sc", print, None, 1)
    assert started.request.input_mode == "tensorflow"


def test_feeding_and_ending_map_to_the_cluster(cluster):
    cluster.train("rdd", 3, feed_timeout=7, qname="extra")
    cluster.train("rdd")
    assert cluster.inference("rows", 8, "extra") == "result of inference"
    cluster.shutdown("ssc", 2, 30)
    assert cluster.tensorboard_url() == "result of tensorboard_url"
    assert cluster.cluster.mock_calls == [
        mock.call.train("rdd", epochs=3, feed_timeout=7, queue="extra"),
        mock.call.train("rdd", epochs=10, feed_timeout=600, queue="input"),
        mock.call.inference("rows", feed_timeout=8, queue="extra"),
        mock.call.shutdown("ssc", service_grace=2, timeout=30),
        mock.call.tensorboard_url(),
    ]


def test_shutdown_waits_three_days_and_for_ever_on_demand(cluster):
    cluster.shutdown()
    cluster.shutdown(timeout=0)
    assert cluster.cluster.shutdown.mock_calls == [
        mock.call(None, service_grace=0, timeout=259200),
        mock.call(None, service_grace=0, timeout=None),
    ]


def test_every_rdd_of_a_stream_is_fed_once(cluster):
    class Stream:
        def foreachRDD(self, feed): ...

    stream = Stream()
    cluster.train(stream, 5)
    cluster.cluster.train.assert_called_once_with(stream, epochs=1, feed_timeout=600, queue="input")


def test_a_real_cluster_has_what_the_fake_one_says():
    made_in_init = set(re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(tfos.Cluster)))
    assert FACTS.keys() <= made_in_init | set(dir(tfos.Cluster))


def test_attributes_that_programs_read(cluster):
    assert cluster.sc == "the context"
    assert (cluster.defaultFS, cluster.working_dir) == ("hdfs://nn", "/wd")
    assert cluster.cluster_id == "0123456789abcdef"
    assert cluster.num_executors == 3
    assert cluster.queues == ["input", "output", "error"]
    assert cluster.server.addr == ("10.0.0.9", 4242)
    assert cluster.cluster_meta == {
        "id": "0123456789abcdef",
        "cluster_template": {"ps": [0], "chief": [1], "worker": [2]},
        "num_executors": 3,
        "default_fs": "hdfs://nn",
        "working_dir": "/wd",
        "server_addr": ("10.0.0.9", 4242),
        "release_port": True,
    }


def test_cluster_info_has_the_old_fields_and_no_secret(cluster):
    ps, chief, _ = cluster.cluster_info
    assert ps == {
        "executor_id": 0,
        "host": "10.0.0.1",
        "job_name": "ps",
        "task_index": 0,
        "port": 2222,
        "tb_pid": 0,
        "tb_port": 0,
        "addr": None,
        "authkey": TFCluster.AUTHKEY_PLACEHOLDER,
    }
    assert (chief["tb_pid"], chief["tb_port"]) == (77, 6006)
    assert chief["addr"] == ("10.0.0.2", 4000)


def test_the_program_is_called_with_args_and_the_old_context():
    seen = []
    node = make_node()
    node.args = argparse.Namespace(steps=3)
    TFSparkNode.Program(lambda args, ctx: seen.append((args, ctx)))(node)
    ((args, ctx),) = seen
    assert args is node.args
    assert (ctx.executor_id, ctx.worker_num) == (2, 2)
    assert (ctx.job_name, ctx.task_index, ctx.num_workers) == ("worker", 0, 3)
    assert ctx.cluster_spec["worker"] == ["c:3", "d:4"]
    assert (ctx.defaultFS, ctx.working_dir) == ("hdfs://nn", "/wd")
    assert ctx.absolute_path("/x") == "hdfs://nn/x"


def test_an_argv_list_becomes_sys_argv(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["before"])
    node = make_node()
    node.args = ["prog", "--steps", "3"]
    seen = []
    TFSparkNode.Program(lambda args, ctx: seen.append((args, list(sys.argv))))(node)
    assert seen == [(node.args, node.args)]


def test_the_program_travels_by_value():
    local = 5
    program = cloudpickle.loads(cloudpickle.dumps(TFSparkNode.Program(lambda args, ctx: local)))
    program(make_node())


@pytest.mark.parametrize("released", [True, False])
def test_the_programs_socket_is_the_nodes_unless_it_was_released(started, released):
    TFCluster.run(
        "sc", lambda args, ctx: sockets.append(ctx.tmp_socket), None, 1, release_port=released
    )
    sockets = []
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        node = make_node(port_socket=held)
        internals.share_port(node)  # As a node does before it calls its program.
        started.main(node)
    assert sockets == [None if released else held]


@pytest.fixture
def held_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def test_tmp_socket_is_there_until_released(held_port):
    held = held_port
    node = make_node(port_socket=held)
    ctx = TFSparkNode.TFNodeContext.of(node)
    assert ctx.tmp_socket is held
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(held.getsockname())
    address = held.getsockname()
    ctx.release_port()
    assert ctx.tmp_socket is None and internals.port_socket(node) is None
    with socket.socket() as other:
        other.bind(address)
    ctx.release_port()


def test_a_shared_port_is_released_too(held_port):
    node = make_node(port_socket=held_port)
    internals.share_port(node)
    address = held_port.getsockname()
    TFSparkNode.TFNodeContext.of(node).release_port()
    with socket.socket() as other:
        other.bind(address)


def test_tmp_socket_is_none_once_the_node_released_it():
    assert TFSparkNode.TFNodeContext.of(make_node(port_socket=None)).tmp_socket is None


def test_a_feed_is_made_from_the_context_or_from_mgr():
    source = FakeFeedSource()
    ctx = TFSparkNode.TFNodeContext.of(make_node(feed_source=source))
    feed = ctx.get_data_feed(False, "extra", "out", {"b": "y", "a": "x"})
    other = TFNode.DataFeed(ctx.mgr, qname_in="input")
    assert source.queues_read == ["extra", "input"]
    assert (feed.train_mode, feed.input_tensors) == (False, ["x", "y"])
    assert (other.train_mode, other.input_tensors) == (True, None)
    assert not feed.should_stop() and not feed.done_feeding
    feed.done_feeding = True
    assert feed.should_stop() and not other.should_stop()


def test_a_node_without_a_feed_says_so():
    ctx = TFSparkNode.TFNodeContext.of(make_node("ps"))
    with pytest.raises(BadInputError, match="not fed by Spark"):
        ctx.get_data_feed()


def test_metrics_reach_the_node():
    node = make_node()
    TFSparkNode.TFNodeContext.of(node).report(step=3)
    assert node._reporter.reported == [{"step": 3}]


def test_a_context_may_be_built_for_a_run_without_a_cluster():
    ctx = TFSparkNode.TFNodeContext(
        job_name="worker", cluster_spec={"worker": ["a:1"], "ps": ["b:1"]}
    )
    assert (ctx.executor_id, ctx.num_workers, ctx.tmp_socket) == (0, 1, None)
    ctx.report(step=1)
    with pytest.raises(BadInputError, match="needs a ctx that a cluster passed"):
        ctx.start_cluster_server()
