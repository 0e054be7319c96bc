"""Programs written for TensorFlowOnSpark on a real cluster: two executors of one core each."""

import argparse
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import cloudpickle
import pyspark.cloudpickle
import pytest

from support.coordinator_port import page_of
from support.spark_errors import SPARK_ERRORS
from support.waiting import wait_for
from tensorflowonspark import TFCluster, TFNode
from tensorflowonspark.TFCluster import InputMode
from tfos.errors import BadInputError, TfosError

# Programs and functions below run in processes that can't import this module.
for pickler in (cloudpickle, pyspark.cloudpickle):
    pickler.register_pickle_by_value(sys.modules[__name__])


def note(args, ctx, **fields):
    """Leaves what a node saw for the test to read."""
    path = Path(args.notes) / f"{ctx.job_name}-{ctx.task_index}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(fields))
    partial.rename(path)


@pytest.fixture
def args(tmp_path):
    return argparse.Namespace(notes=str(tmp_path))


@pytest.fixture
def notes(tmp_path):
    def read():
        return {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}

    return read


@pytest.fixture
def run(spark, leftovers):
    """TFCluster.run on the shared SparkContext; what a failed test leaves running is ended."""
    clusters = []

    def start(*arguments, **keywords):
        clusters.append(TFCluster.run(spark.sparkContext, *arguments, **keywords))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.cluster.__exit__(RuntimeError, RuntimeError("the test failed"), None)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


def describe_node(args, ctx):
    note(
        args,
        ctx,
        executor_id=ctx.executor_id,
        worker_num=ctx.worker_num,
        num_workers=ctx.num_workers,
        cluster_spec=ctx.cluster_spec,
        argv=sys.argv,
        tf_config=os.environ.get("TF_CONFIG"),
        defaultFS=ctx.defaultFS,
        pid=os.getpid(),
        working_dir=ctx.working_dir,
        tmp_socket=ctx.tmp_socket is not None,
    )
    if ctx.job_name in ("ps", "evaluator"):
        threading.Event().wait()


def sum_rows(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while not feed.should_stop():
        rows += feed.next_batch(7)
    note(args, ctx, rows=rows)


def square_rows(args, ctx):
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        feed.batch_results([row * row for row in feed.next_batch(7)])


def fail_in_helper():
    raise ValueError("the learning rate is negative")


# -- roles and the context


def test_roles_are_filled_in_order_and_know_the_cluster(run, args, notes, spark):
    cluster = run(
        describe_node,
        args,
        3,
        num_ps=1,
        master_node="chief",
        driver_ps_nodes=True,
        reservation_timeout=60,
    )
    info = cluster.cluster_info
    assert [(node["executor_id"], node["job_name"], node["task_index"]) for node in info] == [
        (0, "ps", 0),
        (1, "chief", 0),
        (2, "worker", 0),
    ]
    wait_for(
        lambda: len(notes()) == 3, "the notes of three nodes"
    )  # shutdown may stop the ps before it has written
    cluster.shutdown()
    seen = notes()
    assert set(seen) == {"ps-0", "chief-0", "worker-0"}
    spec = {node["job_name"]: [f"{node['host']}:{node['port']}"] for node in info}
    for name, node in seen.items():
        job, index = name.split("-")
        assert node["cluster_spec"] == spec
        assert node["num_workers"] == 2
        assert node["worker_num"] == node["executor_id"]
        config = json.loads(node["tf_config"])
        assert config["cluster"] == spec
        assert config["task"] == {"type": job, "index": int(index)}
        assert (node["defaultFS"], node["working_dir"]) == (cluster.defaultFS, os.getcwd())
        assert not node["tmp_socket"]


def test_cluster_info_has_the_fields_that_programs_read(run, args):
    cluster = run(sum_rows, args, 2, input_mode=InputMode.SPARK)
    assert cluster.num_executors == 2
    assert cluster.nodeRDD.getNumPartitions() == 2
    for node in cluster.cluster_info:
        assert set(node) == {
            "executor_id",
            "host",
            "job_name",
            "task_index",
            "port",
            "tb_pid",
            "tb_port",
            "addr",
            "authkey",
        }
        assert node["port"] > 0
        assert node["authkey"] == TFCluster.AUTHKEY_PLACEHOLDER
    assert len({node["port"] for node in cluster.cluster_info}) == 2
    cluster.shutdown()


def test_an_evaluator_and_a_driver_ps_end_with_shutdown(run, args, notes):
    cluster = run(
        describe_node,
        args,
        3,
        num_ps=1,
        driver_ps_nodes=True,
        master_node="chief",
        eval_node=True,
    )
    assert [node["job_name"] for node in cluster.cluster_info] == ["ps", "chief", "evaluator"]
    assert cluster.cluster.status()[0].executor_id == "driver"
    wait_for(lambda: len(notes()) == 3, "the notes of three nodes")
    pids = [node["pid"] for node in notes().values()]
    cluster.shutdown()
    wait_for(lambda: not any(map(is_alive, pids)), "their processes to end")


def test_a_ps_on_an_executor_does_not_hold_feeding_back_and_ends_with_shutdown(
    run, args, notes, spark
):
    def program(args, ctx):
        if ctx.job_name == "ps":
            describe_node(args, ctx)
        sum_rows(args, ctx)

    cluster = run(program, args, 2, num_ps=1, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize(range(100), 3), 1)
    wait_for(lambda: "ps-0" in notes(), "the note of the parameter server")
    pid = notes()["ps-0"]["pid"]
    assert is_alive(pid)
    cluster.shutdown()
    wait_for(lambda: not is_alive(pid), "its process to end")
    assert sorted(notes()["worker-0"]["rows"]) == list(range(100))


def test_an_argv_list_becomes_sys_argv(run, tmp_path):
    target = tmp_path / "argv.json"

    def program(args, ctx):
        target.write_text(json.dumps([args, sys.argv]))

    argv = ["prog.py", "--steps", "3"]
    run(program, argv, 1).shutdown()
    assert json.loads(target.read_text()) == [argv, argv]


def test_a_single_node_has_no_tf_config(run, args, notes):
    run(describe_node, args, 1).shutdown()
    assert notes()["worker-0"]["tf_config"] is None


def test_the_port_is_held_until_released(run, args, notes):
    def program(args, ctx):
        port = int(ctx.cluster_spec["worker"][ctx.task_index].rpartition(":")[2])

        def can_bind():
            with socket.socket() as other:
                try:
                    other.bind(("", port))
                except OSError:
                    return False
                return True

        before = (ctx.tmp_socket.getsockname()[1] == port, can_bind())
        ctx.release_port()
        note(args, ctx, before=before, after=(ctx.tmp_socket is None, can_bind()))

    run(program, args, 1, release_port=False).shutdown()
    assert notes()["worker-0"] == {"before": [True, False], "after": [True, True]}


def test_tensorflow_servers_of_the_nodes_talk_to_each_other(run, args, notes):
    def program(args, ctx):
        import tensorflow as tf

        cluster, server = ctx.start_cluster_server(num_gpus=0, rdma=True)
        if ctx.job_name == "ps":
            server.join()
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                total = tf.constant(20) + tf.constant(22)
            with tf.compat.v1.Session(server.target) as session:
                value = int(session.run(total))
        note(args, ctx, value=value, spec=cluster.as_dict(), same=ctx.cluster_spec)

    run(program, args, 2, num_ps=1).shutdown(timeout=180)
    seen = notes()["worker-0"]
    assert seen["value"] == 42
    assert seen["spec"] == seen["same"]


# -- feeding


def test_training_rows_arrive_once_in_every_epoch(run, args, notes, spark):
    cluster = run(sum_rows, args, 2, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize(range(500), 5), num_epochs=2)
    cluster.shutdown()
    seen = notes()
    rows = seen["worker-0"]["rows"] + seen["worker-1"]["rows"]
    assert sorted(rows) == sorted([*range(500)] * 2)


def test_inference_is_lazy_and_comes_back_in_order(run, args, spark):
    cluster = run(square_rows, args, 2, input_mode=InputMode.SPARK)
    results = cluster.inference(spark.sparkContext.parallelize(range(300), 4))
    assert results.collect() == [row * row for row in range(300)]
    cluster.shutdown()


def test_a_feed_may_be_made_from_mgr_with_an_input_mapping(run, args, notes, spark):
    def program(args, ctx):
        feed = TFNode.DataFeed(ctx.mgr, True, input_mapping={"label": "y", "image": "x"})
        note(args, ctx, batch=feed.next_batch(3), short=feed.next_batch(3), done=feed.done_feeding)

    cluster = run(program, args, 1, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize([([1, 2], 0), ([3, 4], 1), ([5, 6], 2)], 1), 1)
    cluster.shutdown()
    assert notes()["worker-0"] == {
        "batch": {"x": [[1, 2], [3, 4], [5, 6]], "y": [0, 1, 2]},
        "short": {"x": [], "y": []},
        "done": True,
    }


def test_terminate_discards_the_rest_of_the_feed(run, args, spark):
    def program(args, ctx):
        feed = ctx.get_data_feed()
        feed.next_batch(10)
        feed.terminate()

    cluster = run(program, args, 2, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize(range(20_000), 8))
    cluster.shutdown(timeout=60)


@pytest.mark.filterwarnings("ignore:DStream is deprecated")
def test_every_rdd_of_a_dstream_is_fed_until_the_program_has_enough(run, args, notes, spark):
    from pyspark.streaming import StreamingContext

    def program(args, ctx):
        feed = ctx.get_data_feed()
        rows = []
        while len(rows) < 60:
            rows += feed.next_batch(10)
        note(args, ctx, rows=rows)
        feed.terminate()

    sc = spark.sparkContext
    cluster = run(program, args, 1, input_mode=InputMode.SPARK)
    streaming = StreamingContext(sc, 1)
    batches = [sc.parallelize(range(start, start + 20), 2) for start in range(0, 100, 20)]
    cluster.train(streaming.queueStream(batches))
    streaming.start()
    cluster.shutdown(ssc=streaming, timeout=60)
    assert sorted(notes()["worker-0"]["rows"]) == list(range(60))


# -- failures


def assert_explains(error, *expected):
    message = str(error)
    for part in ("ValueError: the learning rate is negative", "in fail_in_helper", *expected):
        assert part in message


def test_a_failing_program_fails_train(run, args, spark):
    def program(args, ctx):
        ctx.get_data_feed().next_batch(1)
        fail_in_helper()

    cluster = run(program, args, 2, input_mode=InputMode.SPARK)
    with pytest.raises(TfosError) as caught:
        cluster.train(spark.sparkContext.parallelize(range(1000), 4), 1000)
    assert_explains(caught.value, "worker:")
    with pytest.raises(TfosError):
        cluster.shutdown()


def test_a_failing_program_fails_the_action_on_inference(run, args, spark):
    def program(args, ctx):
        ctx.get_data_feed(train_mode=False).next_batch(1)
        fail_in_helper()

    cluster = run(program, args, 2, input_mode=InputMode.SPARK)
    results = cluster.inference(spark.sparkContext.parallelize(range(1000), 4))
    with pytest.raises(SPARK_ERRORS) as caught:
        results.collect()
    assert_explains(caught.value)
    with pytest.raises(TfosError):
        cluster.shutdown()


def test_an_error_after_the_feed_ended_fails_shutdown(run, args, spark):
    def program(args, ctx):
        sum_rows(args, ctx)
        fail_in_helper()

    cluster = run(program, args, 2, input_mode=InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize(range(100), 2), 1)
    with pytest.raises(TfosError) as caught:
        cluster.shutdown()
    assert_explains(caught.value)


def test_a_failing_program_that_reads_its_own_data_fails_shutdown(run, args):
    def program(args, ctx):
        if ctx.task_index == 1:
            fail_in_helper()
        threading.Event().wait()

    cluster = run(program, args, 2)
    with pytest.raises(TfosError) as caught:
        cluster.shutdown()
    assert_explains(caught.value, "worker:1")


def test_shutdown_names_the_nodes_that_do_not_return_in_time(run, args):
    def program(args, ctx):
        threading.Event().wait()

    cluster = run(program, args, 1)
    with pytest.raises(TfosError, match="worker:0"):
        cluster.shutdown(timeout=1)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_executors": 0}, "0"),
        ({"num_executors": 1, "num_ps": 1}, "1"),
        (
            {
                "num_executors": 2,
                "num_ps": 1,
                "driver_ps_nodes": True,
                "input_mode": InputMode.SPARK,
            },
            "spark",
        ),
        ({"num_executors": 2, "eval_node": True, "input_mode": InputMode.SPARK}, "spark"),
        ({"num_executors": 5}, "2 task slot"),
        ({"num_executors": 1, "input_mode": 7}, "7"),
    ],
)
def test_impossible_sizes_are_refused_before_anything_starts(run, args, sizes, message, spark):
    with pytest.raises(BadInputError, match=message):
        run(describe_node, args, **sizes)


def test_a_node_that_gets_no_slot_is_named(run, args, tmp_path, spark):
    release = tmp_path / "release"
    started = tmp_path / "started"

    def hold_slot(_):
        started.touch()
        while not release.exists():
            time.sleep(0.05)
        return 0

    sc = spark.sparkContext
    holder = threading.Thread(target=lambda: sc.parallelize([0], 1).map(hold_slot).collect())
    holder.start()
    try:
        wait_for(started.exists, started)
        with pytest.raises(TfosError, match="node 1.*no executor slot"):
            run(describe_node, args, 2, reservation_timeout=10)
    finally:
        release.touch()
        holder.join()


# -- TensorBoard


def test_tensorboard_answers_at_its_url_and_ends_with_the_cluster(run, tmp_path, args):
    stop = tmp_path / "stop"

    def program(args, ctx):
        while not stop.exists():
            time.sleep(0.05)

    cluster = run(program, args, 1, tensorboard=True, log_dir=str(tmp_path))
    url = cluster.tensorboard_url()
    (node,) = cluster.cluster_info
    assert b"TensorBoard" in page_of(url)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url.partition("?")[0])
    listening = f" 0100007F:{node['tb_port']:04X} 00000000:0000 0A "
    assert listening in Path("/proc/net/tcp").read_text(), "only users of the host reach it"
    stop.touch()
    cluster.shutdown()
    wait_for(lambda: not is_alive(node["tb_pid"]), "TensorBoard to end")


def test_without_tensorboard_there_is_no_url(run, args):
    cluster = run(describe_node, args, 1)
    assert cluster.tensorboard_url() is None
    cluster.shutdown()
