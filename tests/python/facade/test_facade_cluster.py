"""Clusters of programs written for TensorFlowOnSpark: two executors of one core each."""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.coordinator_port import page_of
from support.programs.facade import describe_node, note, sum_rows
from support.waiting import wait_for
from tensorflowonspark import TFCluster
from tensorflowonspark.TFCluster import InputMode


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "Z"


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
    assert cluster.nodeRDD.collect() == [1, 2], "those on executors"
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
    assert cluster.nodeRDD.glom().collect() == [[0], [1]]
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
