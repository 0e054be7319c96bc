"""Parameter servers that are killed while nodes train: they come again, and training goes on."""

from __future__ import annotations

import contextlib
import json
import pathlib

import psutil
import pytest

import tfos
from support.programs import parameter_server as programs


def result(directory, index=0):
    return json.loads((directory / f"worker-{index}.json").read_text())


def lose_server(cluster, directory, what):
    """Once nodes push; then tells the programs. Returns the process of the server."""
    workers = [node.node_id for node in cluster.status() if node.job_name != "ps"]
    pushing = cluster._coordinator.wait(
        lambda: all(cluster.status()[id].metrics.get("pushed", 0) > 5 for id in workers), 120
    )
    assert pushing
    agent = psutil.Process(cluster.status()[0].agent_pid)
    server = programs.lose_of(agent, what)

    def is_lost():
        # On a busy machine another one has its place before anyone looks.
        node = cluster.status()[0]
        return node.state == "lost" or node.agent_pid != agent.pid

    assert cluster._coordinator.wait(is_lost, 120)
    pathlib.Path(directory, "lost").touch()
    return server


def one_worker(spark, directory, *, overlap):
    """A cluster of it and a server: it adds 1 in each step, until a while after the loss."""
    return tfos.run(
        spark,
        programs.add_through_a_loss,
        nodes=2,
        parameter_servers=1,
        input_mode="tensorflow",
        args={"directory": str(directory), "overlap": overlap},
    )


def assert_nothing_is_lost(cluster, directory):
    found = result(directory)
    assert found["steps"] > 30
    assert found["value"] == found["version"] == found["steps"]
    assert [node.state for node in cluster.status()] == ["done", "done"]


@pytest.mark.failure("parameter server killed", "parameter servers")
@pytest.mark.parametrize(
    "what",
    ["process", *(pytest.param(what, marks=pytest.mark.long) for what in ("agent", "executor"))],
)
def test_a_server_that_is_killed_comes_again_and_its_worker_loses_nothing(
    spark, tmp_path, leftovers, what
):
    with one_worker(spark, tmp_path, overlap=what == "agent") as cluster:
        lose_server(cluster, tmp_path, what)
    assert_nothing_is_lost(cluster, tmp_path)


@pytest.mark.long
def test_one_comes_again_beside_a_lost_one_that_stands_still(spark, tmp_path, leftovers):
    """That has its socket yet, and would take a connection. The kernel wakes a stopped process whose
    parent has ended, unless it was about to stop: both happen here."""
    with one_worker(spark, tmp_path, overlap=False) as cluster:
        stopped = lose_server(cluster, tmp_path, "agent of a stopped server")
        try:
            assert cluster._coordinator.wait(lambda: cluster.status()[0].state == "running", 120)
            cluster.wait()
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                stopped.resume()
    assert_nothing_is_lost(cluster, tmp_path)


@pytest.mark.long
@pytest.mark.failure("parameter server killed", "parameter servers")
def test_two_workers_go_on_from_the_newest_values(spark, tmp_path, leftovers):
    with tfos.run(
        spark,
        programs.add_through_a_loss,
        nodes=3,
        parameter_servers=1,
        driver_parameter_servers=True,
        input_mode="tensorflow",
        args={"directory": str(tmp_path), "overlap": True},
    ) as cluster:
        lose_server(cluster, tmp_path, "process")
    first, second = result(tmp_path, 0), result(tmp_path, 1)
    steps = first["steps"] + second["steps"]
    # A push of each may have been combined that nobody had pulled yet, or counts twice.
    assert steps - 2 <= max(first["value"], second["value"]) <= steps + 2
    assert {node.state for node in cluster.status()} == {"done"}


@pytest.mark.long
@pytest.mark.failure("parameter server killed", "feeding")
@pytest.mark.parametrize("lost", ["process", "executor"])
def test_fed_nodes_go_on_though_their_tasks_have_all_slots(spark, tmp_path, leftovers, lost):
    # More than the node has room for, so the tasks wait for it.
    rows = spark.sparkContext.range(5000, numSlices=4).map(lambda number: bytes(4000))
    with tfos.run(
        spark,
        programs.add_for_each_batch,
        nodes=2,
        parameter_servers=1,
        feed_memory="2m",
        args={"directory": str(tmp_path), "lost": lost},
    ) as cluster:
        cluster.train(rows)
    if lost == "process":
        assert cluster.status()[0].executor_id == "driver"
    found = result(tmp_path)
    assert found["rows"] == 5000
    assert found["value"] == found["version"] == found["batches"]
    assert [node.state for node in cluster.status()] == ["done", "done"]
