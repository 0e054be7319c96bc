"""Failures of programs written for TensorFlowOnSpark, and clusters that cannot start."""

import threading
import time

import pytest

from support.programs.facade import describe_node, fail_in_helper, sum_rows
from support.spark.errors import SPARK_ERRORS
from support.waiting import wait_for
from tensorflowonspark.TFCluster import InputMode
from tfos.errors import BadInputError, TfosError


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
