"""``Cluster.wait``: what the programs returned."""

from __future__ import annotations

import threading

import pytest

import tfos
from tfos.errors import BadInputError, ClusterTimeoutError, NodeFailedError


def whoami(ctx):
    return ctx.job_name, ctx.task_index, ctx.rank, ctx.size, list(range(5))[ctx.rank :: ctx.size]


def test_results_come_by_rank(spark, leftovers):
    with tfos.run(spark, whoami, nodes=2, chief="chief", input_mode="tensorflow") as cluster:
        results = cluster.wait()
    assert results == [("chief", 0, 0, 2, [0, 2, 4]), ("worker", 0, 1, 2, [1, 3])]
    assert cluster.wait() == results


def serve_or_train(ctx):
    if ctx.job_name == "ps":
        with pytest.raises(BadInputError, match="ps:0 does not train, so it has no rank"):
            ctx.rank
        threading.Event().wait()
    return ctx.rank


def test_nodes_that_serve_have_no_result(spark, leftovers):
    with tfos.run(spark, serve_or_train, nodes=2, ps=1, input_mode="tensorflow") as cluster:
        assert cluster.wait() == [0]


def test_a_wait_that_is_over_leaves_the_programs_running(spark, tmp_path, leftovers):
    def program(ctx):
        import pathlib
        import time

        while not pathlib.Path(ctx.args, "go").exists():
            time.sleep(0.05)
        return "went"

    with tfos.run(spark, program, nodes=1, args=str(tmp_path), input_mode="tensorflow") as cluster:
        with pytest.raises(ClusterTimeoutError, match="did not return within 0.1 s: worker:0"):
            cluster.wait(timeout=0.1)
        (tmp_path / "go").touch()
        assert cluster.wait(timeout=120) == ["went"]


def test_a_value_that_cannot_be_sent_fails_only_who_asks(spark, leftovers):
    def program(ctx):
        return threading.Lock()

    with tfos.run(spark, program, nodes=1, input_mode="tensorflow") as cluster:
        with pytest.raises(BadInputError, match="program of worker:0 .*can't be sent.*pickled"):
            cluster.wait()
    tfos.run(spark, program, nodes=1, input_mode="tensorflow").shutdown()


def test_a_failed_program_fails_the_wait(spark, leftovers):
    def program(ctx):
        raise KeyError("no layer")

    with pytest.raises(NodeFailedError, match="no layer"):
        with tfos.run(spark, program, nodes=1, input_mode="tensorflow") as cluster:
            cluster.wait()


def test_fed_programs_are_not_waited_for(spark, leftovers):
    def program(ctx):
        while not ctx.feed.should_stop():
            ctx.feed.next_batch(1)

    with tfos.run(spark, program, nodes=1) as cluster:
        with pytest.raises(BadInputError, match="call shutdown or leave the with block"):
            cluster.wait()
