"""``ctx.checkpoint`` on nodes that are killed, and on those that come after them."""

from __future__ import annotations

import numpy as np
import pytest

import tfos
from support.comparing import assert_goes_on
from support.programs import checkpoints as programs
from support.two_nodes import Died, TwoNodes
from tfos.errors import NodeFailedError

pytestmark = pytest.mark.long

TWO_EXECUTORS = "local-cluster[2,1,1024]"
THREE_EXECUTORS = "local-cluster[3,1,1024]"
#: When all nodes are killed, and there are so many checkpoints of it.
MOMENT = (1, 3)


def check(resumed, undisturbed):
    assert_goes_on(resumed, undisturbed, MOMENT)
    for node in resumed:
        assert node["begun"] in (programs.BATCHES + MOMENT[1], programs.BATCHES + MOMENT[1] + 1)


def test_two_nodes_go_on_after_a_kill(tmp_path):
    run = str(tmp_path / "run")
    with TwoNodes() as killed, pytest.raises(Died):
        killed.run(programs.resumable, run, MOMENT, True)
    with TwoNodes() as nodes:
        resumed = nodes.run(programs.resumable, run, MOMENT, False)
        undisturbed = nodes.run(programs.resumable, str(tmp_path / "whole"), MOMENT, False)
    check(resumed, undisturbed)


def test_callbacks_of_all_nodes_decide_as_if_nothing_had_been(tmp_path):
    run = str(tmp_path / "run")
    with TwoNodes() as killed, pytest.raises(Died):
        killed.run(programs.stopping_early, run, True)
    with TwoNodes() as nodes:
        resumed = nodes.run(programs.stopping_early, run, False)
        undisturbed = nodes.run(programs.stopping_early, str(tmp_path / "whole"), False)
        done = nodes.run(programs.stopping_early, run, False)
    for ours, theirs, (epochs, _, weights) in zip(resumed, undisturbed, done, strict=True):
        assert (ours[0], theirs[0], epochs) == ([3], [0, 1, 2, 3], [])
        assert ours[1] == theirs[1] == 1
        # Of the best epoch. A worker's statistics of layers are not in the checkpoint.
        for one, other, again in zip(ours[2][:2], theirs[2][:2], weights[:2], strict=True):
            assert np.array_equal(one, other) and np.array_equal(one, again)


def test_a_cluster_goes_on_where_the_killed_one_was(spark_on, leftovers, tmp_path):
    def run(directory, dies=False):
        args = {"directory": str(tmp_path / directory), "moment": MOMENT, "dies": dies}
        with tfos.run(
            spark_on(TWO_EXECUTORS),
            programs.of_args,
            nodes=2,
            args=args,
            input_mode="tensorflow",
        ) as cluster:
            return cluster.wait(timeout=120)

    with pytest.raises(NodeFailedError, match="SIGKILL|signal 9"):
        run("run", dies=True)
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == MOMENT
    resumed = run("run")
    check(resumed, run("whole"))
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (programs.EPOCHS, 0)


@pytest.mark.parametrize(("fail", "late_nodes"), [([1], False), ([0], False), ([0, 1], True)])
def test_an_error_while_steps_are_passed_over_is_that_of_its_node(
    spark_on, leftovers, tmp_path, fail, late_nodes
):
    """If all nodes have it, it ends the cluster."""
    with TwoNodes() as killed, pytest.raises(Died):
        killed.run(programs.resumable, str(tmp_path), MOMENT, True)

    def run():
        args = {"directory": str(tmp_path), "moment": MOMENT, "dies": False, "fail": fail}
        with tfos.run(
            spark_on(TWO_EXECUTORS),
            programs.of_args,
            nodes=(1, 2),
            args=args,
            input_mode="tensorflow",
            late_nodes=late_nodes,
        ) as cluster:
            return cluster.wait(timeout=120), cluster.status()

    if len(fail) == 2:
        with pytest.raises(NodeFailedError, match="the batch can't be read") as error:
            run()
        assert "failed so, too" in error.value.failure.message
        assert "Traceback" in error.value.failure.traceback
        return
    results, nodes = run()
    (lost,) = fail
    assert results[lost] is None and "the batch can't be read" in nodes[lost].detail
    assert nodes[lost].state == "lost"
    assert results[1 - lost]["epochs"] == list(range(MOMENT[0], programs.EPOCHS))


def test_the_next_node_writes_when_the_chief_is_lost(spark_on, leftovers, tmp_path):
    with tfos.run(
        spark_on(THREE_EXECUTORS),
        programs.lose_the_chief,
        nodes=(2, 3),
        args={"directory": str(tmp_path)},
        input_mode="tensorflow",
        late_nodes=False,
    ) as cluster:
        chief, second, third = cluster.wait(timeout=120)
    assert chief is None
    assert len(second) == len(third)
    assert tfos.last_checkpoint(tmp_path)[1:] == (programs.EPOCHS, 0)


def test_the_next_node_writes_when_the_chief_is_lost_after_another_came(
    spark_on, leftovers, tmp_path
):
    (tmp_path / "lives").mkdir()
    with tfos.run(
        spark_on(THREE_EXECUTORS),
        programs.lose_the_chief_after_another,
        nodes=(2, 3),
        args={"directory": str(tmp_path / "kept"), "dir": str(tmp_path / "lives")},
        input_mode="tensorflow",
    ) as cluster:
        lives = cluster.wait(timeout=280)
    assert lives[1:] == [0, 1]
