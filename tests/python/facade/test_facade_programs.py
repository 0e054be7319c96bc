"""What programs for TensorFlowOnSpark before and at 2.2.5 do beside `TFCluster.run` and its feeding."""

from __future__ import annotations

import importlib
import json
import logging
import types

import pytest
import tensorflow as tf

import tensorflowonspark.pipeline
from tensorflowonspark import TFCluster, TFNode, TFSparkNode, gpu_info, pipeline
from tfos.base import gpu
from tfos.cluster import start
from tfos.errors import BadInputError, NodeFailedError
from tfos.node import tensorflow_server

v1 = tf.compat.v1


# -- reserve and start


def test_a_reserved_cluster_runs_once_it_is_started(spark, leftovers):
    def sum_rows(args, ctx):
        feed = ctx.get_data_feed(False, qname_in="input", qname_out="output")
        assert (feed.mgr, feed.qname_in, feed.qname_out) == (ctx.mgr, "input", "output")
        while not feed.should_stop():
            feed.batch_results([args["factor"] * row for row in feed.next_batch(3)])

    cluster = TFCluster.reserve(spark.sparkContext, 2, 0, False, TFCluster.InputMode.SPARK)
    with pytest.raises(BadInputError, match=r"only reserved: call start\(map_fun, args\)"):
        cluster.inference(spark.sparkContext.range(4))
    cluster.start(sum_rows, {"factor": 3})
    try:
        assert cluster.meta == cluster.cluster_meta and cluster.meta["num_executors"] == 2
        rows = spark.sparkContext.range(10, numSlices=2)
        assert cluster.inference(rows).collect() == [3 * n for n in range(10)]
        with pytest.raises(BadInputError, match="run their program already"):
            cluster.start(sum_rows, {"factor": 4})
    finally:
        cluster.shutdown()


def test_a_cluster_of_run_has_been_started():
    cluster = TFCluster.TFCluster(None, TFCluster.InputMode.SPARK, ["input"], True)
    with pytest.raises(BadInputError, match="TFCluster.run has started them"):
        cluster.start(len, [])


def test_the_reservation_timeout_bounds_the_wait_for_executors(monkeypatch):
    asked = []
    monkeypatch.setattr(start, "start", lambda *arguments: asked.extend(arguments[2:]))
    TFCluster.run(None, len, [], 2, reservation_timeout=77)
    request, settings = asked
    assert request.registration_timeout == settings["slots_timeout"] == 77


# -- GPUs


def gpus_of_nodes(spark, directory, args, **sizes):
    """{job-index: (GPUs, CUDA_VISIBLE_DEVICES)} of a cluster of two nodes."""
    directory.mkdir()

    def write(args, ctx):
        import json
        import os

        with open(f"{directory}/{ctx.job_name}-{ctx.task_index}", "w") as file:
            json.dump([ctx.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")], file)

    cluster = TFCluster.run(spark.sparkContext, write, args, 2, **sizes)
    cluster.shutdown(grace_secs=60)  # Parameter servers write, too.
    return {path.name: json.loads(path.read_text()) for path in directory.iterdir()}


def test_a_node_gets_a_gpu_where_there_are_some(spark, tmp_path, gpus_of_executors):
    gpus_of_executors(0)
    without = gpus_of_nodes(spark, tmp_path / "without", [])
    assert without == {"worker-0": [[], ""], "worker-1": [[], ""]}
    gpus_of_executors(3)
    workers = gpus_of_nodes(spark, tmp_path / "workers", [])
    assert sorted(workers.values()) == [[["0"], "0"], [["1"], "1"]]
    with_server = gpus_of_nodes(spark, tmp_path / "server", [], num_ps=1)
    assert with_server == {"ps-0": [[], ""], "worker-0": [["0"], "0"]}
    none = gpus_of_nodes(spark, tmp_path / "none", types.SimpleNamespace(num_gpus=0))
    assert none == without, "hidden, as others may lease them"


def smi(tmp_path, gpus, busy):
    """An nvidia-smi of so many GPUs, on some of which processes compute."""
    listed = "".join(f"{n}, GPU-{n}, {n}, 16000\n" for n in range(gpus))
    processes = "".join(f"GPU-{n}\n" for n in busy)
    script = tmp_path / "nvidia-smi"
    script.write_text(
        f"#!/bin/sh\ncase \"$*\" in\n  *compute-apps*) printf '{processes}' ;;\n"
        f"  *) printf '{listed}' ;;\nesac\n"
    )
    script.chmod(0o755)
    return tmp_path


def test_gpu_info_gives_free_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{smi(tmp_path, 4, busy=[0, 2])}:/usr/bin:/bin")
    assert gpu_info.get_gpus(1) == "1"
    assert [gpu_info.get_gpus(1, index) for index in range(3)] == ["1", "3", "1"]
    assert gpu_info.get_gpus(2, 0, gpu_info.AS_LIST) == ["1", "3"]
    with pytest.raises(
        BadInputError, match=r"3 GPU\(s\) were asked for, and of this host's 4 only 2 are free"
    ):
        gpu_info.get_gpus(3)
    with pytest.raises(BadInputError, match="has 4"):
        gpu_info.get_gpus(5)
    assert gpu.pick(1, 0) == ["0"], "instances count the GPUs alike, however early they start"


@pytest.fixture
def server(monkeypatch):
    """A function that starts the server of a node whose TensorFlow sees so many GPUs: what it was given."""

    def start(gpus, wanted, job="worker", node_fraction=0.0, **options):
        seen = {}
        monkeypatch.setattr(
            tf.config, "list_physical_devices", lambda kind: [f"GPU:{n}" for n in range(gpus)]
        )
        monkeypatch.setattr(
            tf.config, "set_visible_devices", lambda devices, kind: seen.update(visible=devices)
        )
        monkeypatch.setattr(
            tf.distribute,
            "Server",
            lambda *_, config, **__: (
                seen.update(config=config) or types.SimpleNamespace(target="grpc://here")
            ),
        )
        node = types.SimpleNamespace(
            job_name=job,
            task_index=0,
            cluster_spec={job: ["h:1"]},
            _port_socket=None,
            gpu_fraction=node_fraction,
        )
        tensorflow_server.start(node, gpus=wanted, **options)
        config = seen["config"]
        return (
            seen.get("visible"),
            dict(config.device_count),
            config.gpu_options.per_process_gpu_memory_fraction,
        )

    return start


def test_the_server_uses_so_many_gpus(server):
    assert server(3, 2) == (["GPU:0", "GPU:1"], {"GPU": 2}, 0)
    assert server(3, 0) == server(3, 1, job="ps") == ([], {"GPU": 0}, 0)
    assert server(0, 1) == ([], {"GPU": 1}, 0), "as on hosts without any"
    assert server(2, None) == (None, {}, 0)
    with pytest.raises(
        BadInputError, match=r"worker:0 has 1 GPU\(s\), and its server was to use 2"
    ):
        server(1, 2)


def test_a_module_of_the_fork_alone_takes_its_share_of_the_memory(monkeypatch, caplog):
    fork = importlib.import_module("tensorflowonspark_gpu10p.TFNode")
    asked = {}
    monkeypatch.setattr(
        tensorflow_server, "start", lambda node, **settings: asked.update(settings) or (None, None)
    )
    node = types.SimpleNamespace(gpu_fraction=0.0, _port_socket=None)
    with caplog.at_level(logging.WARNING):
        fork.start_cluster_server(types.SimpleNamespace(node=node), 1)
    assert asked == {"gpus": 1, "gpu_fraction": 0.1}
    assert "import TFCluster from tensorflowonspark_gpu10p, too" in caplog.text
    caplog.clear()
    node.gpu_fraction = 0.1
    fork.start_cluster_server(types.SimpleNamespace(node=node), 1)
    assert not caplog.text
    TFNode.start_cluster_server(types.SimpleNamespace(node=node), 1)
    assert asked["gpu_fraction"] == 0.0


@pytest.mark.parametrize(
    "package, fraction",
    [
        ("tensorflowonspark", None),
        ("tensorflowonspark_gpu10p", 0.1),
        ("tensorflowonspark_gpu20p", 0.2),
    ],
)
def test_pipelines_of_the_fork_share_gpus(spark, monkeypatch, package, fraction):
    stages = importlib.import_module(f"{package}.pipeline")
    asked = {}

    def refuse(sc, main, request, settings):
        asked.update(settings)
        raise BadInputError("enough")

    monkeypatch.setattr(start, "start", refuse)
    with pytest.raises(BadInputError, match="enough"):
        stages.TFEstimator(len, {}).fit(spark.range(1))
    assert asked.get("gpu_fraction") == fraction


# -- pipelines


def test_an_estimator_leaves_no_cluster_when_feeding_fails(spark, leftovers):
    def give_up(args, ctx):
        raise ValueError("no thanks")

    points = spark.range(100).selectExpr("id", "id AS x")
    estimator = (
        pipeline.TFEstimator(give_up, {}).setInputMapping({"x": "x"}).setClusterSize(2).setEpochs(1)
    )
    with pytest.raises(NodeFailedError, match="no thanks"):
        estimator.fit(points)


def test_an_estimator_ends_its_nodes_when_the_driver_fails(spark, monkeypatch, leftovers):
    """The nodes would read on for ever: only leaving the cluster ends them."""

    def read(args, ctx):
        feed = ctx.get_data_feed()
        while not feed.should_stop():
            feed.next_batch(1)

    def train(cluster, *_):
        assert len(cluster.cluster_info) == 2
        raise RuntimeError("the driver can't feed")

    monkeypatch.setattr(TFCluster.TFCluster, "train", train)
    estimator = pipeline.TFEstimator(read, {}).setInputMapping({"id": "x"}).setClusterSize(2)
    with pytest.raises(RuntimeError, match="can't feed"):
        estimator.fit(spark.range(4))


def test_a_checkpoint_of_tensorflow_1_as_model_dir(spark, tmp_path, monkeypatch):
    directory = tmp_path / "a program's"

    def train(weight):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 2], name="x")
            weights = v1.get_variable("weights", initializer=[[1.0], [weight]])
            tf.squeeze(tf.matmul(x, weights), 1, name="y")
            session.run(v1.global_variables_initializer())
            v1.train.Saver().save(session, str(directory / "model.ckpt"), global_step=5)

    train(10.0)
    frame = spark.createDataFrame([([1.0, 2.0],), ([3.0, 4.0],)], "pair array<float>")

    def predictions(output="y"):
        model = pipeline.TFModel({}).setModelDir(str(directory)).setInputMapping({"pair": "x"})
        found = model.setOutputMapping({output: "found"}).transform(frame)
        assert found.schema.simpleString() == "struct<found:double>", "as of Python's numbers"
        return sorted(row.found for row in found.collect())

    assert predictions() == [21.0, 43.0]
    (made,) = directory.glob("saved_model-*")
    with monkeypatch.context() as patch:
        patch.setattr(tensorflowonspark.pipeline.saved_model, "export_checkpoint", None)
        assert predictions() == [21.0, 43.0], "the one that was made is used again"
    with pytest.raises(BadInputError, match="has no tensor 'nothing'"):
        predictions("nothing")
    assert list(directory.glob("saved_model-*")) == [made]
    train(100.0)
    assert predictions() == [201.0, 403.0], "another one has the same name"

    def export_twice(source, target, inputs, outputs):
        """As if another driver did it meanwhile."""
        for path in (target, target.rpartition(".")[0]):
            exporting(source, path, inputs, outputs)

    exporting = tensorflowonspark.pipeline.saved_model.export_checkpoint
    monkeypatch.setattr(tensorflowonspark.pipeline.saved_model, "export_checkpoint", export_twice)
    train(1000.0)
    assert predictions() == [2001.0, 4003.0]
    assert len(list(directory.glob("saved_model-*"))) == 3


# -- export


def test_a_finalized_session_is_exported(tmp_path):
    target = str(tmp_path / "export")
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None], name="x")
        weight = v1.get_variable("w", initializer=3.0)
        y = x * weight
        v1.train.get_or_create_global_step()
        ctx = TFSparkNode.TFNodeContext()
        with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path / "model")) as session:
            ctx.export_saved_model(
                session, target, "serve", {"predict": {"inputs": {"x": x}, "outputs": {"y": y}}}
            )
            assert graph.finalized
            assert session.run(y, {x: [1.0]}).tolist() == [3.0]
    served = tf.saved_model.load(target).signatures["predict"](x=tf.constant([2.0]))
    assert served["y"].numpy().tolist() == [6.0]
