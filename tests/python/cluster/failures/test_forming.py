"""Nodes that are lost while the others are waited for."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

import tfos
from support.operating import tfos as run_tfos
from support.spark.slots import slot_held
from support.waiting import wait_for


def meet(ctx):
    from tfos import collective

    collective.barrier("all")
    return collective.size()


def _registered():
    """Agents of the only cluster that runs: process ids."""
    told = run_tfos("status", "--json")
    nodes = json.loads(told.stdout)["nodes"] if told.returncode == 0 else []
    return {node["agent_pid"] for node in nodes if node["state"] == "registered"}


@pytest.mark.failure("agent killed", "starting")
@pytest.mark.parametrize(
    "input_mode", [pytest.param("tensorflow", marks=pytest.mark.long), "spark"]
)
def test_a_node_that_is_lost_is_started_again(spark_on, leftovers, tmp_path, input_mode):
    spark = spark_on("local-cluster[2,1,1024]")

    def kill_the_first():
        try:
            (first,) = wait_for(_registered, "the first node")
            os.kill(first, signal.SIGKILL)
            # It, or the other one in its slot.
            wait_for(lambda: _registered() - {first}, "another agent")
        finally:
            release()

    with slot_held(spark.sparkContext, tmp_path) as release, ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill_the_first)
        with tfos.run(spark, meet, nodes=(2, 2), input_mode=input_mode) as cluster:
            killing.result()
            if input_mode == "tensorflow":
                assert cluster.wait(timeout=280) == [2, 2]
    assert [node.state for node in cluster.status()] == ["done", "done"]
