"""The launch task of a node whose executor is told to end, as YARN does with a preempted one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from support.waiting import BOUND_SECONDS
from tfos.cluster import launch
from tfos.errors import TfosError
from tfos.spark import executor


def test_a_worker_outlives_its_daemon_only_while_it_follows_a_node():
    before = signal.getsignal(signal.SIGHUP)
    with executor.outliving_the_daemon():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize(
    ("parents", "watch_pid", "starts"),
    [([5, 5, 1], -1, 2), ([5, 1], -1, 1), ([5, 1, 1], 7, 3)],
    ids=["its parent ends later", "its parent has ended", "on the driver"],
)
def test_a_lost_node_starts_again_unless_its_executor_ends(monkeypatch, parents, watch_pid, starts):
    found, started = iter(parents), []

    def launch_once(plan, node_id, **options):
        started.append(node_id)
        return None, len(started) < 3

    monkeypatch.setattr(launch, "_launch_once", launch_once)
    monkeypatch.setattr(launch.os, "getppid", lambda: next(found))
    plan = type("Plan", (), {"stay": True})
    launch.launch(plan, 4, executor_id="1", watch_pid=watch_pid, gpus=[])
    assert started == [4] * starts


@pytest.mark.parametrize(
    ("failures", "over_after", "retry_seconds", "starts"),
    [(3, 100, BOUND_SECONDS, 5), (100, 100, 0, 2), (100, 4, BOUND_SECONDS, 4)],
    ids=["its host was cut off", "for good", "the cluster ends"],
)
def test_a_lost_node_that_does_not_start_again_is_tried_again(
    monkeypatch, caplog, failures, over_after, retry_seconds, starts
):
    started = []

    def launch_once(plan, node_id, **options):
        started.append(node_id)
        if len(started) == 1:
            return None, True
        if len(started) <= 1 + failures:
            raise TfosError("can't reach the coordinator: No route to host")
        return b"result", False

    monkeypatch.setattr(launch, "_launch_once", launch_once)
    monkeypatch.setattr(launch, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(launch, "_RETRY_SECONDS", retry_seconds)
    result = launch.launch(
        SimpleNamespace(stay=True),
        4,
        executor_id="1",
        watch_pid=-1,
        gpus=[],
        is_over=lambda: len(started) >= over_after,
    )
    assert (len(started), result) == (starts, b"result" if failures == 3 else None)
    assert ("is tried again in 0 s: can't reach the coordinator" in caplog.text) == bool(
        retry_seconds
    )
    assert ("is given up after 1 attempts" in caplog.text) == (retry_seconds == 0)


def test_an_executor_is_known_by_its_executable_where_a_thread_renamed_it(tmp_path):
    java = shutil.copy("/bin/sh", tmp_path / "java")
    worker = "from tfos.spark import executor; print(executor.executor_pid())"
    # What waits for another command does not become it.
    daemon = f"'{sys.executable}' -c '{worker}'; exit"
    renamed = 'echo renamed > /proc/$$/comm; echo $$; /bin/sh -c "$1"; exit'
    done = subprocess.run(
        [java, "-c", renamed, "java", daemon], capture_output=True, text=True, check=True
    )
    pid, found = done.stdout.split()
    assert found == pid


@pytest.mark.parametrize(
    ("assigned", "named", "of_executor"),
    [(["0"], ["0", "1"], ["0", "1"]), (["0"], [], ["0", "2"]), ([], ["0"], [])],
    ids=["a Worker names them", "its nodes had them", "Spark manages none"],
)
def test_in_place_of_a_gpu_that_a_node_has_one_of_its_executor_may_be_taken(
    monkeypatch, assigned, named, of_executor
):
    plan = SimpleNamespace(
        nodes_without_gpus=frozenset(),
        gpu_count=1,
        gpu_count_if_any=0,
        gpu_fraction=0.0,
        gpus_of_executors={"5": ["0", "2"], "6": ["3"]},
    )
    monkeypatch.setattr(executor, "gpus", lambda: named)
    request = launch._gpu_request(plan, 1, "5", assigned)
    assert (request["of_executor"], request["may_share"]) == (of_executor, False)
    plan.gpu_count = 0
    assert launch._gpu_request(plan, 1, "5", assigned)["may_share"]
