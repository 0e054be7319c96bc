"""Nodes and coordinators whose process stands still, in each phase of a cluster: they are named within
the bound that a setting gives, and everything of the cluster ends."""

from __future__ import annotations

import collections
import os
import pathlib
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

import tfos
from support.programs import frozen as programs
from support.waiting import wait_for
from tfos.errors import NodeFailedError

ROWS = 20_000
#: What the tests let a node be silent; the default would take them long.
PATIENCE = "2s"
SILENT = (
    r"the node's process \(pid \d+\) has given no sign of life for [2-9] s: it is frozen "
    r"\(stopped by SIGSTOP.*spark\.tfos\.node\.answerTimeout"
)
STOPPED = r"worker:1 \(node 1, executor \d+ on [^)]+\) failed to answer its agent: " + SILENT
LOST = r"worker:1 \(node 1 on [^)]+\) is lost: " + SILENT


@pytest.fixture
def cluster(spark, tmp_path, leftovers):
    """A function that runs a program whose victim, node 1, stops."""

    def run(program, *, nodes=2, **settings):
        arguments = {
            "dir": str(tmp_path),
            "victim": 1,
            "batches": 20,
            "waits": False,
            "epochs": 100,
        }
        arguments |= settings.pop("args", {})
        settings.setdefault("node_answer_timeout", PATIENCE)
        return tfos.run(spark, program, nodes=nodes, args=arguments, **settings)

    return run


def rows_of(spark):
    return spark.sparkContext.range(ROWS, numSlices=4)


def rows_to_fit(spark):
    return spark.sparkContext.range(ROWS, numSlices=4).map(lambda n: [float(n % 7)] * 5)


def kept(directory):
    counts = collections.Counter()
    for path in pathlib.Path(directory).glob("rows-*"):
        counts.update(map(int, path.read_text().split()))
    return counts


@pytest.mark.failure("node frozen", "feeding")
def test_in_feeding(spark, cluster):
    with pytest.raises(NodeFailedError, match=STOPPED), cluster(programs.feeding) as run:
        run.train(rows_of(spark))


@pytest.mark.long
@pytest.mark.failure("node frozen", "caching")
def test_in_caching(spark, cluster):
    after_the_first_epoch = {"batches": 2 * ROWS // programs.BATCH}
    with pytest.raises(NodeFailedError, match=STOPPED):
        with cluster(programs.feeding, args=after_the_first_epoch) as run:
            run.train(rows_of(spark), epochs=1000, cache="memory")


@pytest.mark.long
def test_it_is_named_with_its_step(spark, cluster, tmp_path):
    def has_come():
        return run.status()[1].metrics.get("step") == 20

    def let_it_stop():
        wait_for(has_come, "step 20 in the driver")
        (tmp_path / "may-freeze").touch()

    with pytest.raises(NodeFailedError, match=STOPPED) as failed, ThreadPoolExecutor(1) as thread:
        with cluster(programs.feeding, args={"waits": True}) as run:
            seen = thread.submit(let_it_stop)
            run.train(rows_of(spark))
    seen.result()
    assert ", epoch=1, step=20, " in str(failed.value)


@pytest.mark.long
@pytest.mark.failure("node frozen", "inference")
def test_in_inference(spark, cluster):
    with pytest.raises(NodeFailedError, match=STOPPED), cluster(programs.inference) as run:
        with pytest.raises(Exception, match="has given no sign of life"):
            run.inference(rows_of(spark)).collect()


@pytest.mark.long
@pytest.mark.failure("node frozen", "shutdown")
def test_in_shutdown(spark, cluster):
    with pytest.raises(NodeFailedError, match=STOPPED), cluster(programs.shutdown) as run:
        run.train(rows_of(spark))


@pytest.mark.long
@pytest.mark.failure("node frozen", "training")
@pytest.mark.parametrize("shared_memory", [True, False], ids=["shared memory", "TCP"])
def test_in_an_all_reduce(cluster, shared_memory):
    with pytest.raises(NodeFailedError, match=STOPPED):
        with cluster(
            programs.all_reduce, input_mode="tensorflow", tensors_shared_memory=shared_memory
        ) as run:
            run.wait()


@pytest.mark.long
@pytest.mark.failure("node frozen", "training")
def test_in_fit(spark, cluster):
    with pytest.raises(NodeFailedError, match=STOPPED), cluster(programs.fit) as run:
        run.train(rows_to_fit(spark), epochs=100)


@pytest.mark.long
@pytest.mark.failure("node frozen", "training")
def test_fit_goes_on_without_it(spark, cluster, caplog):
    epochs = 2
    with cluster(programs.fit, nodes=(1, 2), late_nodes=False, args={"epochs": epochs}) as run:
        run.train(rows_to_fit(spark), epochs=epochs)
    assert [node.state for node in run.status()] == ["done", "lost"]
    assert re.search(LOST, caplog.text)
    # It was lost in the first epoch, and the other was given all rows of both.
    ledger = run.ledger()
    assert ledger.lost == {"worker:1"}
    assert ledger.nodes["worker:0"]["rows_read"] == epochs * ROWS


@pytest.mark.long
@pytest.mark.failure("node frozen", "parameter servers")
def test_a_parameter_server(spark, cluster, tmp_path):
    stopped = STOPPED.replace(r"worker:1 \(node 1", r"ps:0 \(node 0")
    with pytest.raises(NodeFailedError, match=stopped):
        with cluster(
            programs.push_for_ever,
            nodes=2,
            parameter_servers=1,
            input_mode="tensorflow",
            late_nodes=False,
        ) as run:
            wait_for((tmp_path / "pushes").exists, "a worker that pushes")
            os.kill(run.status()[0].pid, signal.SIGSTOP)
            run.wait()


@pytest.mark.failure("node frozen", "feeding")
def test_a_node_that_may_be_lost_leaves_its_rows_to_others(spark, cluster, tmp_path):
    with cluster(programs.feeding, max_lost_nodes=1) as run:
        run.train(rows_of(spark))
    assert [node.state for node in run.status()] == ["done", "lost"]
    counts = kept(tmp_path)
    assert set(counts.values()) == {1}, "a row came twice"
    assert ROWS - programs.BATCH < len(counts) <= ROWS


def test_a_program_that_holds_the_interpreter_is_not_silent(spark, cluster, tmp_path):
    with cluster(
        programs.hold_the_interpreter, nodes=1, node_answer_timeout="2s", args={"seconds": 6}
    ) as run:
        run.train(rows_of(spark))
    assert run.status()[0].state == "done"
    assert len(kept(tmp_path)) == ROWS - 1


@pytest.mark.long
def test_it_may_be_silent_for_ever_and_go_on(spark, cluster, tmp_path):
    """As with a debugger."""
    with cluster(programs.feeding, node_answer_timeout=0) as run:

        def silent():
            return run.status()[1].metrics.get("seconds_without_answer", 0) >= 3

        def let_go_on():
            wait_for(silent, "the driver to see the silence")
            os.kill(int((tmp_path / "frozen").read_text()), signal.SIGCONT)

        with ThreadPoolExecutor(1) as thread:
            continued = thread.submit(let_go_on)
            run.train(rows_of(spark))
            continued.result()
    assert sorted(kept(tmp_path)) == list(range(ROWS))
    assert run.status()[1].metrics["seconds_without_answer"] == 0


@pytest.mark.long
def test_a_stopped_agent_is_told_apart(spark, cluster):
    with pytest.raises(NodeFailedError, match=r"worker:1 .*no heartbeat from its agent") as failed:
        # A busy host may be late with another agent's heartbeat by seconds.
        with cluster(programs.feeding, heartbeat_timeout="10s", args={"victim": -1}) as run:
            agent = psutil.Process(run.status()[1].agent_pid)
            agent.suspend()
            try:
                run.train(rows_of(spark))
                run.shutdown()
            finally:
                agent.resume()
    assert re.search(rf"\(pid {agent.pid}\)", str(failed.value))


@pytest.mark.failure("node hangs", "training")
def test_a_node_that_makes_no_steps_is_named_with_its_stacks(cluster):
    hangs = (
        r"worker:1 \(node 1, executor \d+ on [^)]+\) failed to make a step: worker:1 .* has made no "
        r"step and read no row for .*spark\.tfos\.node\.stepTimeout\)\. Its last step was 3\."
    )
    with pytest.raises(NodeFailedError, match=hangs) as failed:
        with cluster(
            programs.hang_after_some_steps, input_mode="tensorflow", node_step_timeout="3s"
        ) as run:
            run.wait()
    assert "wait_for_what_never_comes" in str(failed.value)
    assert failed.value.failure.lost


@pytest.mark.long
@pytest.mark.failure("node hangs", "training")
def test_the_others_go_on_without_a_node_that_makes_no_steps(cluster, tmp_path):
    with cluster(
        programs.hang_after_some_steps,
        nodes=(1, 2),
        late_nodes=False,
        input_mode="tensorflow",
        node_step_timeout="3s",
    ) as run:
        wait_for(lambda: run.status()[1].state == "lost", "the loss")
        (tmp_path / "may-end").touch()
        run.wait()
    assert [node.state for node in run.status()] == ["done", "lost"]


@pytest.mark.parametrize(
    ("program", "input_mode"),
    [
        pytest.param(
            programs.run_for_ever,
            "tensorflow",
            marks=pytest.mark.failure("coordinator frozen", "training"),
        ),
        pytest.param(
            programs.stay_after_the_feed,
            "spark",
            marks=pytest.mark.failure("coordinator frozen", "shutdown"),
        ),
    ],
)
def test_a_stopped_coordinator_is_named(cluster, tmp_path, program, input_mode):
    stopped = (
        r"the coordinator \(process \d+ on the driver's host\) has stood still for 5 s "
        r"\(spark\.tfos\.heartbeat\.timeout\).*stopped by SIGSTOP"
    )
    with pytest.raises(NodeFailedError, match=stopped):
        with cluster(program, heartbeat_timeout="5s", input_mode=input_mode) as run:
            coordinator = psutil.Process(run._coordinator.pid)

            def freeze_it():
                wait_for((tmp_path / "runs").exists, "a program that runs")
                coordinator.suspend()

            with ThreadPoolExecutor(1) as thread:
                frozen = thread.submit(freeze_it)
                try:
                    if input_mode == "tensorflow":
                        run.wait(timeout=60)
                    else:
                        run.shutdown(timeout=60)
                finally:
                    frozen.result()
                    if coordinator.is_running():
                        coordinator.resume()
