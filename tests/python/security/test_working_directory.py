"""Modules of the working directory are not run by processes that tfos starts, where the one that
starts them does not look there: that may be a directory to which others write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from support.waiting import BOUND_SECONDS
from tfos.cluster import keeper, launch
from tfos.parallel import process
from tfos.spark import executor

PLAN = launch.LaunchPlan(
    cluster_id="0123456789abcdef",
    keys={},
    encrypt="auto",
    coordinator_address="127.0.0.1",
    coordinator_port=1,
    node={},
    payload=b"",
    stay=False,
    registration_timeout_ms=1000,
    heartbeat_interval_ms=1000,
    heartbeat_timeout_ms=1000,
    answer_timeout_ms=0,
    advertised_address="",
    bind_address="0.0.0.0",
    ports="0",
    python="",
    keep_omp_num_threads=False,
    gpu_count=0,
    gpu_count_if_any=0,
    gpu_fraction=0,
    nodes_without_gpus=frozenset(),
    parameter_servers=0,
    returning_nodes=0,
    log_level="INFO",
    log_dir=None,
    hadoop_environment={},
)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """The working directory. Every process of tfos imports json."""
    (tmp_path / "json.py").write_text("open('ran', 'w')\n")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    # Spark's, of the task that starts an instance.
    monkeypatch.setattr(TaskContext, "_taskContext", object.__new__(TaskContext))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start_by_agent(what):
    bootstrap = json.loads(launch._bootstrap(PLAN, 0, "0", 0, [], None))
    environment = dict(each.split("=", 1) for each in bootstrap["environment"])
    # Neither has what it needs here, so both end at once.
    subprocess.run(
        bootstrap[what],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BOUND_SECONDS,
    )


def start_keeper():
    first = keeper.start({"start": {}, "lease": 1, "ports": "0"})
    assert first["type"] == "fatal"


def start_parallel():
    assert process.run(b"no program", SimpleNamespace(gpus=[]), [], {}).failure


@pytest.mark.parametrize(
    "start",
    [
        lambda: start_by_agent("python"),
        lambda: start_by_agent("tensorboard"),
        start_keeper,
        start_parallel,
    ],
    ids=["node", "TensorBoard", "keeper", "instance with GPUs"],
)
def test_modules_of_the_working_directory_are_not_run(directory, leftovers, start):
    start()
    assert not (directory / "ran").exists()


def test_they_are_where_the_one_that_starts_looks_there(directory, monkeypatch):
    """As in a notebook, whose nodes find what it finds."""
    assert str(directory) not in executor.python_path().split(os.pathsep)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert executor.python_path().split(os.pathsep)[0] == str(directory)
