"""What the driver hears of a program that fails, and where."""

from __future__ import annotations

import pytest

import tfos
from support.programs import nodes as programs
from support.spark.errors import SPARK_ERRORS
from tfos.errors import NodeFailedError


@pytest.mark.parametrize(
    "program, train",
    [
        (programs.fail_at_once, True),
        (programs.fail_after_first_batch, True),
    ],
)
def test_an_exception_reaches_train_with_its_traceback(spark, program, train, leftovers):
    cluster = tfos.run(spark, program, nodes=2, args={"train": train})
    with pytest.raises(NodeFailedError, match=r"ValueError: broken(.|\n)*nodes\.py"):
        cluster.train(spark.sparkContext.parallelize(range(100_000), 4), epochs=100)
    with pytest.raises(NodeFailedError):
        cluster.shutdown()


@pytest.mark.parametrize(
    "program, message",
    [
        (programs.fail_with_a_name_that_is_no_text, r"ValueError: can't read /data/caf\\udce9"),
        (
            programs.fail_with_a_long_text,
            "ValueError: beginx+\n.* characters are left out .*\nx+end",
        ),
        (programs.fail_with_closed_streams, "ValueError: nothing to print to"),
    ],
)
def test_an_exception_that_is_hard_to_tell_arrives_even_so(spark, program, message, leftovers):
    cluster = tfos.run(spark, program, nodes=1, input_mode="tensorflow")
    with pytest.raises(NodeFailedError, match=message) as caught:
        cluster.shutdown()
    assert "in fail_with" in caught.value.failure.traceback


def test_an_exception_reaches_the_action_of_inference(spark, leftovers):
    cluster = tfos.run(spark, programs.fail_after_first_batch, nodes=2, args={"train": False})
    with pytest.raises(SPARK_ERRORS, match="ValueError: broken while reading"):
        cluster.inference(spark.sparkContext.parallelize(range(1000), 4)).collect()
    with pytest.raises(NodeFailedError, match="broken while reading"):
        cluster.shutdown()


def test_an_exception_reaches_the_driver_that_waits_for_feeding(spark):
    """How soon is measured by bench/control/idle_and_failure.py."""

    def fail(ctx):
        raise ValueError("in the middle")

    cluster = tfos.run(spark, fail, nodes=1)
    with pytest.raises(NodeFailedError, match="in the middle"):
        cluster.train(spark.sparkContext.parallelize(range(1000), 2), epochs=1000)
    with pytest.raises(NodeFailedError):
        cluster.shutdown()


def test_nodes_of_a_failed_cluster_are_stopped_and_not_done(spark, leftovers, capsys):
    with pytest.raises(NodeFailedError) as raised:
        with tfos.run(spark, programs.fail_in_the_last_node, nodes=2, progress=True) as cluster:
            cluster.train(spark.range(200_000, numPartitions=2))
    text = str(raised.value)
    assert text.startswith("worker:1 (node 1, executor ")
    assert "failed to run the program: ValueError: broken in the last node" in text.split("\n")[0]
    assert "programs/nodes.py" in text and "tfos/node/__main__.py" not in text
    assert raised.value.__cause__ is None
    first, last = cluster.status()
    assert (first.state, last.state) == ("stopped", "failed")
    assert "worker:1" in first.detail and "broken in the last node" in first.detail
    told = capsys.readouterr().err.splitlines()
    (end,) = [line for line in told if " failed | " in line]
    assert "worker:0 stopped" in end and "worker:1 failed" in end


@pytest.mark.failure("disk full", "shutdown")
def test_an_export_to_a_full_disk_surfaces_in_shutdown(spark, leftovers):
    cluster = tfos.run(spark, programs.export_to_a_full_disk, nodes=2)
    cluster.train(spark.sparkContext.parallelize(range(100), 2))
    full = r"^worker:\d \(.*OSError: \[Errno 28\] No space left on device"
    with pytest.raises(NodeFailedError, match=full):
        cluster.shutdown()


def test_the_ledger_counts_what_a_failed_program_has_read(spark):
    cluster = tfos.run(spark, programs.fail_after_the_feed, nodes=1, heartbeat_interval=5)
    cluster.train(spark.range(100))
    with pytest.raises(NodeFailedError):
        cluster.shutdown()
    (count,) = cluster.ledger().nodes.values()
    assert count["rows_read"] == 100


def test_a_driver_failure_that_is_no_text_is_the_clusters(spark, tmp_path, leftovers):
    cluster = tfos.run(
        spark, programs.wait_for_ever_with_a_child, nodes=1, args={"dir": str(tmp_path)}
    )
    cluster._coordinator.fail("launch the nodes", "no caf\udce9", "x" * (5 << 20))
    with pytest.raises(NodeFailedError, match=r"failed: launch the nodes: no caf\\udce9"):
        cluster.shutdown()
