"""The driver's side of the coordinator process, with a process that says what a test wants."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from support.page.simulated_cluster import SimulatedCluster
from support.waiting import wait_for
from tfos.base import child, executable
from tfos.base.page import PageLink
from tfos.cluster import coordinator as coordinator_module
from tfos.cluster import launch
from tfos.cluster.coordinator import Coordinator
from tfos.cluster.view.report import Report
from tfos.errors import ClusterStoppedError, NodeFailedError, TfosError

BOUND_SECONDS = 60
LISTENING = '{"type":"listening","address":"127.0.0.1","port":1}'


def says(monkeypatch, tmp_path, *commands, reads=True):
    """Makes the executable of tfos a script of ``commands``, which first reads a line."""
    script = tmp_path / "tfos"
    script.write_text("\n".join(["#!/bin/sh", "read -r first" if reads else "", *commands]) + "\n")
    script.chmod(0o755)
    monkeypatch.setattr(executable, "path", lambda: str(script))


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        (['printf \'{"type":"node","no\'', "kill -KILL $$"], "was killed by SIGKILL"),
        (['printf \'{"type":"node","no\'', "kill -35 $$"], "was killed by signal 35"),
        (['printf \'{"type":"fin\'', "exit 3"], "ended with code 3"),
        (["echo 'no event'", "exec sleep 600"], "sent an event that can't be handled"),
        (['echo \'{"type":"node"}\'', "exec sleep 600"], "sent an event that can't be handled"),
        (["exec >&-", "exec sleep 600"], "has closed its output"),
    ],
    ids=[
        "killed in mid-line",
        "killed by a signal without a name",
        "ended in mid-line",
        "not JSON",
        "not an event",
        "closed its output",
    ],
)
def test_waits_end_when_the_coordinator_says_nothing_readable(monkeypatch, tmp_path, commands, why):
    says(monkeypatch, tmp_path, f"echo '{LISTENING}'", *commands)
    failed = threading.Event()
    coordinator = Coordinator({"max_lost_nodes": 0}, on_failure=failed.set)
    with pytest.raises(NodeFailedError, match=f"coordinate the cluster: the coordinator .*{why}"):
        coordinator.wait(lambda: False, BOUND_SECONDS)
    assert failed.wait(BOUND_SECONDS)
    assert coordinator.wait_quietly(lambda: False, BOUND_SECONDS), "the end is known"
    coordinator.close()


@pytest.mark.parametrize(
    ("doing", "text", "left"),
    [
        (
            "1 of 2 nodes: importing TensorFlow",
            "loss 0.5, 1 of 2 nodes: importing TensorFlow, no sign of life on worker:1",
            "loss 0.5, no sign of life on worker:1",
        ),
        ("1 of 2 nodes: step, by step", "1 of 2 nodes: step, by step, loss 0.5", "loss 0.5"),
        ("step", "step 5 of 10, first step, step", "step 5 of 10, first step"),
        ("step", "step", ""),
    ],
)
def test_what_nodes_do_is_not_said_beside_newer_words_of_a_node(
    monkeypatch, tmp_path, doing, text, left
):
    node = {"node_id": 0, "job_name": "worker", "task_index": 0, "state": "running"}
    progress = {"nodes": doing, "loss": 0.5, "text": text}
    events = [
        {"type": "node", "node": node | {"detail": "importing TensorFlow"}},
        {"type": "metrics", "nodes": [], "progress": progress},
        {"type": "node", "node": node | {"detail": "importing TensorFlow"}},
        {"type": "epoch_drained", "number": 1},
        {"type": "node", "node": node | {"detail": ""}},
        {"type": "epoch_drained", "number": 2},
    ]
    before, after = (
        [f"echo '{json.dumps(event)}'" for event in some] for some in (events[:4], events[4:])
    )
    says(
        monkeypatch,
        tmp_path,
        f"echo '{LISTENING}'",
        *before,
        "read -r line",
        *after,
        "read -r last",
    )
    coordinator = Coordinator({"max_lost_nodes": 0}, on_failure=lambda: None)
    assert coordinator.wait_quietly(lambda: coordinator.drained == 1, BOUND_SECONDS)
    assert coordinator.progress == progress
    coordinator.send("go_on")
    assert coordinator.wait_quietly(lambda: coordinator.drained == 2, BOUND_SECONDS)
    assert coordinator.progress == progress | {"nodes": "", "text": left}
    coordinator.close()


def test_what_nodes_do_is_said_again_after_other_words_of_a_node():
    with SimulatedCluster(2) as cluster:
        coordinator = cluster.coordinator

        def wait_for_it():
            waiting = "waiting for the first rows"
            assert coordinator.wait_quietly(
                lambda: coordinator.progress.get("nodes") == waiting, BOUND_SECONDS
            )

        for node_id in range(2):
            cluster.run(node_id)
            cluster.report(node_id, rows=0, feed_chunks=0, feed_node_wait_seconds=3.5)
        wait_for_it()
        # No number changes meanwhile, which would bring the progress with it.
        for detail in ("opening a file", ""):
            cluster.run(0, detail=detail)
            assert coordinator.wait_quietly(
                lambda detail=detail: coordinator.nodes()[0]["detail"] == detail, BOUND_SECONDS
            )
        wait_for_it()


@contextlib.contextmanager
def full_standard_error():
    """The standard error of processes that start meanwhile: a pipe that takes nothing more. No
    fixture, as pytest takes the stream again between a test and its fixtures."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    before = os.dup(2)
    os.dup2(writer, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        for descriptor in (reader, writer, before):
            os.close(descriptor)


FORKING_DRIVER = """
import os, signal
from support.page.simulated_cluster import SimulatedCluster

cluster = SimulatedCluster(1)
child = os.fork()
if child != 0:
    print(cluster.coordinator.pid, child, flush=True)
signal.pause()
"""


def test_a_coordinator_ends_with_its_driver_though_a_child_holds_its_input():
    driver = subprocess.Popen(
        [sys.executable, "-c", FORKING_DRIVER],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with driver:
        try:
            pids = driver.stdout.readline().split()
        finally:
            driver.kill()
        coordinator, child = (psutil.Process(int(pid)) for pid in pids)
        try:
            _, alive = psutil.wait_procs([coordinator], timeout=BOUND_SECONDS)
            assert alive == []
            assert child.is_running()
        finally:
            child.kill()
            if coordinator.is_running():
                coordinator.kill()


def test_a_terminal_that_nobody_reads_holds_up_no_cluster():
    # With a line of log for each node that comes.
    with full_standard_error(), SimulatedCluster(nodes=2, log_level="INFO") as cluster:
        assert cluster.coordinator.formed
        cluster.run(1)
        assert cluster.coordinator.wait(
            lambda: cluster.coordinator.nodes()[1]["state"] == "running", BOUND_SECONDS
        )


def test_a_callback_that_fails_does_not_leave_waits_behind(monkeypatch, tmp_path):
    failure = '{"type":"fatal","message":"no port"}'
    says(monkeypatch, tmp_path, f"echo '{LISTENING}'", f"echo '{failure}'", "exec sleep 600")

    def broken():
        raise OSError("Spark is gone")

    coordinator = Coordinator({"max_lost_nodes": 0}, on_failure=broken)
    with pytest.raises(NodeFailedError, match="no port"):
        coordinator.wait(lambda: False, BOUND_SECONDS)
    coordinator._reader.join(BOUND_SECONDS)
    assert not coordinator._reader.is_alive()
    assert coordinator._ended
    coordinator.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_all_waits_are_for_the_end_once_somebody_asks_for_it(monkeypatch, tmp_path):
    asked = '{"type":"stop_asked","by":"alice@host-a","timeout_ms":1500}'
    says(
        monkeypatch,
        tmp_path,
        f"echo '{LISTENING}'",
        f"echo '{asked}'",
        f"echo '{asked}'",
        "read -r last",
    )
    calls, raised = [], []
    called, ended = threading.Event(), threading.Event()

    def on_stop(reason, timeout):
        calls.append(timeout)
        called.set()
        ended.wait(BOUND_SECONDS)
        raise OSError("Spark is gone")

    coordinator = Coordinator({"max_lost_nodes": 0}, on_failure=lambda: None, on_stop=on_stop)
    assert called.wait(BOUND_SECONDS)
    (stops,) = [thread for thread in threading.enumerate() if thread.name == "tfos-stop"]
    assert not coordinator.wait(lambda: True, 0.1), "what it waits for no longer matters"

    def wait():
        try:
            coordinator.wait(lambda: True, BOUND_SECONDS)
        except ClusterStoppedError as error:
            raised.append(str(error))

    waits = threading.Thread(target=wait)
    waits.start()
    ended.set()
    # What it raises is of this test.
    stops.join(BOUND_SECONDS)
    waits.join(BOUND_SECONDS)
    assert raised == ["alice@host-a has stopped the cluster with `tfos stop`"]
    assert calls == [1.5], "the second one changes nothing"
    coordinator.close()


def test_a_server_that_is_lost_and_awaited_is_named_and_a_node_that_never_came_is_not(
    monkeypatch, tmp_path, caplog
):
    node = {"node_id": 0, "job_name": "ps", "task_index": 0, "host": "host-a", "executor_id": "1"}
    lost = {"type": "node", "node": {**node, "state": "lost", "detail": "its executor has ended"}}
    late = {"node_id": 1, "job_name": "worker", "host": "", "detail": "did not come"}
    never = {"type": "node", "node": {**node, **late, "state": "lost"}}
    says(
        monkeypatch,
        tmp_path,
        f"echo '{LISTENING}'",
        f"echo '{json.dumps(never)}'",
        f"echo '{json.dumps(lost)}'",
        "read -r last",
    )
    start = {"max_lost_nodes": 0, "returning_nodes": 1}
    coordinator = Coordinator(start, on_failure=lambda: None)
    assert coordinator.wait(lambda: len(coordinator.nodes()) == 2, BOUND_SECONDS)
    coordinator.close()
    assert "ps:0" in caplog.text and "is lost: its executor has ended" in caplog.text
    assert "worker" not in caplog.text


def launch_node(monkeypatch):
    """Launches node 1 with an agent that does not care for its bootstrap."""
    monkeypatch.setattr(launch, "_bootstrap", lambda *arguments: "{}")
    monkeypatch.setattr(launch, "_payload", lambda *arguments: b"")
    plan = SimpleNamespace(stay=False, returning_nodes=0, node={"late": False})
    return launch.launch(plan, 1, executor_id="0", watch_pid=-1, gpus=[])


def test_an_agent_killed_in_mid_line_is_a_node_that_did_not_start(monkeypatch, tmp_path):
    says(monkeypatch, tmp_path, 'printf \'{"type":"form\'', "kill -KILL $$")
    with pytest.raises(TfosError, match="node 1 on .* did not start: its supervisor"):
        launch_node(monkeypatch)


def test_an_agent_that_ends_at_once_is_told_with_what_to_do(monkeypatch, tmp_path):
    says(monkeypatch, tmp_path, reads=False)
    start = child.start

    def start_and_end(*arguments, **options):
        process, to_agent, from_agent = start(*arguments, **options)
        process.wait()
        return process, to_agent, from_agent

    monkeypatch.setattr(child, "start", start_and_end)
    with pytest.raises(TfosError, match="ended at once with code 0; run `tfos doctor` there"):
        launch_node(monkeypatch)


def test_an_agent_that_ends_as_its_task_leaves_it_is_left_to_the_coordinator(monkeypatch, tmp_path):
    says(monkeypatch, tmp_path, 'echo \'{"type":"formed"}\'')
    assert launch_node(monkeypatch) is None


def test_a_failed_cluster_that_nobody_closes_is_kept_before_it_ends(monkeypatch, tmp_path):
    monkeypatch.setattr(coordinator_module, "_FAILED_LINGER_SECONDS", 0.0)
    with SimulatedCluster(1) as cluster:
        link = PageLink.of(cluster.coordinator.address, cluster.coordinator.port, cluster.read_key)
        report = Report(link)
        cluster.coordinator.before_end = report.keep
        cluster.run(0)
        cluster.fail(0, "ValueError: too cold", "the traceback")
        wait_for(lambda: cluster.coordinator.failure, "the failure")
        cluster.lose(0)
        assert cluster.coordinator.wait_quietly(lambda: False, BOUND_SECONDS), "it has ended"
        report.keep()
        report.write(tmp_path / "run.html")
    assert "too cold" in (tmp_path / "run.html").read_text()
