"""The native API on a real Spark cluster with separate executor processes."""

from __future__ import annotations

import json
import operator
import os
import pathlib

import cloudpickle
import numpy as np
import pytest
from pyspark.sql import Row

import tfos
from support.comparing import assert_same
from support.programs import nodes as programs
from support.spark.errors import SPARK_ERRORS
from support.waiting import BOUND_SECONDS, wait_for
from tfos.base import keys
from tfos.cluster.cluster import Cluster
from tfos.cluster.coordinator import Coordinator
from tfos.errors import BadInputError, ClusterTimeoutError, NodeFailedError


def feed_through(spark, tmp_path, rdd, *, nodes=2, epochs=1, batch=7):
    arguments = {"dir": str(tmp_path), "batch": batch}
    with tfos.run(spark, programs.collect_rows, nodes=nodes, args=arguments) as cluster:
        cluster.train(rdd, epochs=epochs)
    return programs.rows_of(tmp_path)


def flat(rows):
    return [row for node_rows in rows.values() for row in node_rows]


OBJECTS = {
    "int": lambda n: n,
    "big int": lambda n: n + 2**70,
    "float": lambda n: n / 3,
    "bool": lambda n: n % 2 == 0,
    "str": lambda n: "héllo " * (n % 3) + str(n),
    "bytes": lambda n: bytes([n % 256]) * (n % 5),
    "none": lambda n: None,
    "tuple": lambda n: ([float(n), 2.0], n),
    "ragged": lambda n: (list(range(n % 4)), "x"),
    "mixed": lambda n: [n, "text", None, {"k": (n,)}][n % 4],
    "dict": lambda n: {"a": n, "b": [n, float(n)]},
    "row": lambda n: Row(label=n, pixels=[float(n)] * 3),
    "array": lambda n: np.full((2, 3), n, dtype=np.float32),
    "array and label": lambda n: (np.arange(n, n + 5), np.int16(n)),
    "nested": lambda n: ((n, [n, (float(n), "s")]), {"x": {"y": [None, n]}}),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("cached", [False, True], ids=["pipelined", "cached"])
def test_rows_arrive_as_exactly_the_objects_in_order(
    spark, tmp_path, kind, cached, one_node_cluster
):
    make = OBJECTS[kind]
    rdd = spark.sparkContext.parallelize(range(100), 3).map(make)
    expected = [make(n) for n in range(100)]
    results = one_node_cluster.inference(rdd.cache() if cached else rdd).collect()
    assert len(results) == 100
    assert_same([row for _, row in results], expected)


@pytest.fixture(scope="module")
def one_node_cluster(spark):
    with tfos.run(spark, programs.echo, nodes=1, args={"batch": 9}) as cluster:
        yield cluster


def test_every_row_once_and_in_order_within_a_partition(spark, tmp_path):
    rdd = spark.sparkContext.parallelize(range(1000), 10)
    seen = feed_through(spark, tmp_path, rdd)
    assert sorted(flat(seen)) == list(range(1000))
    for rows in seen.values():
        for partition in range(10):
            part = [row for row in rows if row // 100 == partition]
            assert part == sorted(part)


def test_epochs_feed_the_rows_that_often(spark, tmp_path):
    seen = feed_through(spark, tmp_path, spark.sparkContext.parallelize(range(50), 3), epochs=3)
    assert sorted(flat(seen)) == sorted(list(range(50)) * 3)


def test_empty_partitions_and_more_partitions_than_slots(spark, tmp_path):
    rdd = spark.sparkContext.parallelize(range(5), 30)
    assert sorted(flat(feed_through(spark, tmp_path, rdd))) == [0, 1, 2, 3, 4]


def test_an_empty_rdd_feeds_nothing(spark, tmp_path):
    assert flat(feed_through(spark, tmp_path, spark.sparkContext.emptyRDD())) == []


def test_a_dataframes_rows(spark, tmp_path):
    frame = spark.range(10).selectExpr("id", "cast(id as double) / 2 as half")
    seen = flat(feed_through(spark, tmp_path, frame))
    assert sorted(seen) == [Row(id=n, half=n / 2) for n in range(10)]
    assert seen[0].__fields__ == ["id", "half"]


def test_a_row_of_200_megabytes(spark, tmp_path):
    rdd = spark.sparkContext.parallelize([200 << 20], 1).map(lambda size: b"x" * size)
    (row,) = flat(feed_through(spark, tmp_path, rdd, nodes=1))
    assert row == b"x" * (200 << 20)


def test_inference_results_are_one_to_one_in_order(spark):
    with tfos.run(spark, programs.echo, nodes=2, args={"batch": 8}) as cluster:
        rdd = spark.sparkContext.parallelize(range(2000), 7)
        results = cluster.inference(rdd)
        assert [row for _, row in results.collect()] == list(range(2000))
        assert results.map(lambda pair: pair[1]).filter(lambda n: n % 2).count() == 1000
        assert {node for node, _ in results.collect()} == {0, 1}
        assert cluster.inference(spark.sparkContext.parallelize([], 4)).collect() == []
        # A partitioner put the rows where they are, and not the answers.
        sums = rdd.map(lambda n: (n % 40, n)).reduceByKey(operator.add)
        answers = cluster.inference(sums).mapValues(lambda row: 1)
        counts = answers.reduceByKey(operator.add).collectAsMap()
        assert sum(counts.values()) == 40


def test_a_missing_result_fails_the_partition_with_both_counts(spark):
    cluster = tfos.run(spark, programs.leave_a_row_unanswered, nodes=1)
    with pytest.raises(SPARK_ERRORS, match="it took 10 of its rows and gave 9 results"):
        cluster.inference(spark.sparkContext.parallelize(range(10), 1)).collect()
    with pytest.raises(
        NodeFailedError, match="partition 0 unfinished: it took 10 of its rows and gave 9 results"
    ):
        cluster.shutdown()


def test_inference_after_the_programs_have_returned_is_an_error(spark):
    with tfos.run(spark, programs.return_at_once, nodes=1) as cluster:
        results = cluster.inference(spark.sparkContext.parallelize(range(10), 1))
        with pytest.raises(
            SPARK_ERRORS, match="feed ended before partition 0|no node could be reached"
        ):
            results.collect()


def test_a_good_run_leaves_no_failed_launch_job(spark, monkeypatch):
    failures = []
    monkeypatch.setattr(Coordinator, "fail", lambda self, *what: failures.append(what))
    with tfos.run(spark, programs.return_at_once, nodes=2, input_mode="tensorflow") as cluster:
        pass
    assert cluster._launcher.job.done
    assert cluster._launcher.job.error is None
    assert failures == []


def test_an_environment_that_is_no_text_reaches_the_node_as_it_is(spark, tmp_path, monkeypatch):
    """A parameter server on the driver, as this process's environment is easy to set."""
    monkeypatch.setitem(os.environb, b"TFOS_TEST_BYTES", b"caf\xe9")
    with tfos.run(
        spark,
        programs.write_environment,
        nodes=2,
        args={"dir": str(tmp_path)},
        ps=1,
        driver_parameter_servers=True,
        input_mode="tensorflow",
    ):
        # Nobody waits for a parameter server's program.
        wait_for((tmp_path / "environment-0").exists, "what it writes")
    assert b"TFOS_TEST_BYTES=caf\xe9\0" in (tmp_path / "environment-0").read_bytes()


def test_terminate_ends_feeding_quickly_and_without_an_error(spark):
    with tfos.run(spark, programs.take_one_batch_and_stop, nodes=2) as cluster:
        cluster.train(spark.sparkContext.parallelize(range(1_000_000), 50), epochs=100)


def test_programs_that_return_early_end_feeding(spark):
    with tfos.run(spark, programs.return_at_once, nodes=2) as cluster:
        cluster.train(spark.sparkContext.parallelize(range(100_000), 10), epochs=10)


def test_too_few_slots_is_said_at_once(spark):
    with pytest.raises(BadInputError, match="3 nodes were asked for .* 2 task slot"):
        tfos.run(spark, programs.return_at_once, nodes=3)


def test_a_node_that_cannot_get_a_slot_is_named(spark):
    """One of the two slots is taken by another job of the same application."""
    sc = spark.sparkContext
    from tfos.spark.jobs import SparkJob

    def occupy(_):
        import signal

        signal.pause()

    blocker = SparkJob(
        sc,
        "blocker",
        "occupies a slot",
        lambda: sc.parallelize([0], 1).foreach(occupy),
        lambda _job: None,
    )
    try:
        wait_for(lambda: blocker.task_counts()[0], "the task that takes a slot")
        with pytest.raises(NodeFailedError, match=r"node [01] .*no executor slot .*1 of 2"):
            tfos.run(spark, programs.return_at_once, nodes=2, registration_timeout=10)
    finally:
        blocker.cancel()


@pytest.mark.failure("node frozen", "starting")
def test_a_node_that_does_not_get_to_its_program_is_named(spark, tmp_path, leftovers):
    program = programs.HangsWhileLoading(str(tmp_path))
    # How far the node is by then is up to the machine, and so is whether `run` has returned.
    sentence = r"worker:0 \(node 0 on .* within 1.5 s .*node.startTimeout.* and last said '"
    with pytest.raises(NodeFailedError, match=sentence):
        with tfos.run(spark, program, nodes=1, node_start_timeout=1.5) as cluster:
            cluster.train(spark.sparkContext.parallelize(range(10), 1))


def test_a_node_says_that_it_imports_its_program(spark, tmp_path, leftovers):
    cluster = tfos.run(spark, programs.HangsWhileLoading(str(tmp_path)), nodes=1)
    try:
        wait_for(
            lambda: cluster.status()[0].detail == "importing the program",
            lambda: f"a node that imports its program: {cluster.status()}",
        )
    finally:
        cluster._closing.abort("test ends")


@pytest.mark.failure("node frozen", "shutdown")
def test_shutdown_timeout_names_the_nodes_and_ends_them(spark, tmp_path, leftovers):
    cluster = tfos.run(
        spark, programs.ignore_stop, nodes=1, args={"dir": str(tmp_path)}, stop_grace=0.5
    )
    assert cluster._coordinator.wait(lambda: cluster.status()[0].state == "running", BOUND_SECONDS)
    with pytest.raises(ClusterTimeoutError, match=r"worker:0 \(node 0 on .*draining"):
        cluster.shutdown(timeout=2)


def test_an_error_in_the_with_block_is_not_masked(spark, tmp_path, leftovers):
    with pytest.raises(KeyError, match="mine"):
        with tfos.run(
            spark, programs.wait_for_ever_with_a_child, nodes=2, args={"dir": str(tmp_path)}
        ):
            raise KeyError("mine")


def test_feed_timeout_is_about_progress_and_names_the_idle_side(spark, tmp_path):
    cluster = tfos.run(
        spark,
        programs.wait_for_ever_with_a_child,
        nodes=1,
        args={"dir": str(tmp_path)},
        feed_memory=4 << 20,
        feed_region=2 << 20,
    )
    rdd = spark.sparkContext.parallelize(range(64), 1).map(lambda n: bytes(1 << 20))
    # Waiting for a node that still starts is bounded by the same time, and says something else.
    assert cluster._coordinator.wait(lambda: cluster.status()[0].state == "running", BOUND_SECONDS)
    with pytest.raises(
        SPARK_ERRORS,
        match="taken for 2 s: the programs are not reading .node 0|node 0 .*no memory to give"
        "|not reached within .* node 0 on",
    ):
        cluster.train(rdd, feed_timeout=2)
    cluster._closing.abort("test ends")


def test_metrics_of_the_program_reach_the_driver(spark):
    def report(ctx):
        ctx.report(step=7, loss=np.float32(0.5), accuracy=float("nan"))
        while not ctx.feed.should_stop():
            ctx.feed.next_batch(10)

    with tfos.run(spark, report, nodes=1, heartbeat_interval=0.1) as cluster:
        cluster.train(spark.sparkContext.parallelize(range(10), 1))
        expected = {"step": 7, "loss": 0.5, "accuracy": "nan", "rows": 10}
        assert cluster._coordinator.wait(
            lambda: expected.items() <= cluster.status()[0].metrics.items(), BOUND_SECONDS
        )


def test_the_driver_hears_what_a_program_does_that_is_no_step(spark):
    def export_then_read(ctx):
        with ctx.doing("exporting the model"):
            ctx.feed.next_batch(1)
        while not ctx.feed.should_stop():
            ctx.feed.next_batch(10)

    def doing():
        return cluster.status()[0].detail

    with tfos.run(spark, export_then_read, nodes=1) as cluster:
        said = "exporting the model"
        assert cluster._coordinator.wait(lambda: doing() == said, BOUND_SECONDS)
        cluster.train(spark.sparkContext.parallelize(range(10), 1))
        assert cluster._coordinator.wait(lambda: doing() != said, BOUND_SECONDS)


def test_http_wants_a_key_for_each_page(spark):
    import urllib.error
    import urllib.request

    with tfos.run(spark, programs.return_at_once, nodes=1) as cluster:
        scrape = urllib.request.Request(cluster.metrics_url, headers=cluster.metrics_header)
        with urllib.request.urlopen(scrape) as answer:
            assert b"tfos_nodes{" in answer.read()
        look = urllib.request.Request(cluster.status_url, headers=cluster.status_header)
        with urllib.request.urlopen(look) as answer:
            assert json.load(answer)["cluster_id"] == cluster.cluster_id
        host, port = cluster.coordinator_address
        for path in ("/v1/status", "/metrics", "/v1/failure?wait_ms=0", "/v1/agent", "/v1/history"):
            others = [keys.key_for(cluster._token, name) for name in keys.OF_LAUNCH]
            for key in ("0" * 64, cluster._token, *others):
                headers = {"Authorization": f"Bearer {key}"}
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(
                        urllib.request.Request(f"http://{host}:{port}{path}", headers=headers)
                    )
                assert refused.value.code == 401


def test_agents_and_tasks_reach_a_coordinator_that_wants_everything_encrypted(spark, tmp_path):
    def fail(ctx):
        assert sorted(ctx._bootstrap["keys"]) == ["feed", "parameters", "tensors"]
        assert "token" not in ctx._bootstrap
        ctx.feed.next_batch(1)
        raise ValueError("on purpose")

    with pytest.raises(NodeFailedError, match="ValueError: on purpose"):
        with tfos.run(spark, fail, nodes=1, encrypt=True) as cluster:
            cluster.train(spark.sparkContext.parallelize(range(100_000), 1))


def test_environment_of_a_node(spark, tmp_path):
    def dump(ctx):
        pathlib.Path(ctx.args, f"env-{ctx.node_id}").write_text(json.dumps(dict(os.environ)))

    with tfos.run(spark, dump, nodes=2, args=str(tmp_path)):
        pass

    environments = [json.loads(path.read_text()) for path in tmp_path.glob("env-*")]
    assert len(environments) == 2
    for environment in environments:
        assert "OMP_NUM_THREADS" not in environment
        assert not [name for name in environment if "SECRET" in name]
        assert {"worker"} == set(json.loads(environment["TF_CONFIG"])["cluster"])


def test_a_cluster_that_a_function_would_take_to_executors_says_what_to_do():
    cluster = Cluster.__new__(Cluster)
    with pytest.raises(TypeError, match="a Cluster works in the driver program only.*foreachBatch"):
        cloudpickle.dumps(lambda rows: cluster.train(rows))
