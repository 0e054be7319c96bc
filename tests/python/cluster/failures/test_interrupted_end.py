"""The end of a cluster that is interrupted in the middle, or in which something fails."""

from __future__ import annotations

import contextlib

import psutil
import pytest

import tfos
from support.programs import nodes as programs
from support.waiting import BOUND_SECONDS, wait_for
from tfos.cluster import coordinator as coordinator_module
from tfos.errors import TfosError


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.failure("Ctrl-C", "shutdown")
@pytest.mark.parametrize(
    ("part", "step"),
    [("_ending", "await_nodes"), ("_report", "keep")],
    ids=["while nodes end", "as the report is kept"],
)
@pytest.mark.parametrize("mode", ["spark", "tensorflow"])
def test_a_second_interrupt_leaves_neither_jobs_nor_the_coordinator(
    spark, monkeypatch, tmp_path, leftovers, mode, part, step
):
    arguments = {"dir": str(tmp_path)}
    program = programs.wait_for_ever_with_a_child
    cluster = tfos.run(spark, program, nodes=1, args=arguments, input_mode=mode)
    coordinator = psutil.Process(cluster._coordinator.pid)
    monkeypatch.setattr(getattr(cluster, part), step, interrupt)
    with pytest.raises(KeyboardInterrupt), cluster:
        interrupt()
    assert not coordinator.is_running()
    assert cluster._launcher.job.wait(BOUND_SECONDS), "Spark has cancelled it"
    assert not any(rdd.is_cached for rdd in cluster._launcher._held), "its executors are free"
    assert cluster._closing.ended.is_set()
    cluster.shutdown()  # There is nothing left to do.


def test_a_failed_cluster_that_nobody_closes_leaves_no_file_for_prometheus(
    spark, tmp_path, monkeypatch, leftovers
):
    monkeypatch.setattr(coordinator_module, "_FAILED_LINGER_SECONDS", 0.0)
    directory = tmp_path / "targets"
    settings = {"scrape_directory": str(directory)}
    cluster = tfos.run(
        spark, programs.fail_after_first_batch, nodes=1, args={"train": True}, **settings
    )
    assert list(directory.iterdir())
    # The node may have all rows before the driver hears of its failure.
    with contextlib.suppress(TfosError):
        cluster.train(spark.sparkContext.parallelize(range(100), 1))
    wait_for(lambda: not list(directory.iterdir()), "the file is gone")
    with pytest.raises(TfosError):
        cluster.shutdown()


def test_a_file_for_prometheus_that_cannot_be_removed_is_named_and_ends_nothing(
    spark, tmp_path, caplog, leftovers
):
    directory = tmp_path / "targets"
    settings = {"scrape_directory": str(directory)}
    with tfos.run(spark, programs.return_at_once, nodes=1, **settings) as cluster:
        (target,) = directory.iterdir()
        directory.rename(tmp_path / "moved")
        directory.write_text("")
    (said,) = [text for text in caplog.messages if "can't be removed" in text]
    assert str(target) in said
    assert cluster.status()[0].state == "done"
