"""The standalone Spark cluster that demo and tests run on: it works, and it never stays behind."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import psutil
import pytest

import spark_cluster
from daemons import DaemonError, end_with_parent

HARNESS = pathlib.Path(spark_cluster.__file__)
BOUND_SECONDS = 120
pytestmark = pytest.mark.spark

COUNT = """
import sys
from pyspark import SparkConf, SparkContext
sc = SparkContext(conf=SparkConf().setMaster(sys.argv[1]).set("spark.ui.enabled", "false"))
print("sum", sc.parallelize(range(10), 4).sum())
sc.stop()
"""


def start_harness(tmp_path, *command):
    """Runs `command` under the harness; returns the process and the daemons once it runs."""
    process = subprocess.Popen(
        [sys.executable, str(HARNESS), "--directory", str(tmp_path), "--", *command],
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("Spark cluster ready"):
            return process, psutil.Process(process.pid).children(recursive=True)
    pytest.fail("the cluster did not start")


def test_a_job_runs_on_both_workers(standalone_cluster):
    assert standalone_cluster.alive_workers() == 2
    done = subprocess.run(
        [sys.executable, "-c", COUNT, standalone_cluster.url],
        stdout=subprocess.PIPE,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "sum 45\n")


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL],
)
def test_nothing_stays_when_the_harness_is_stopped(tmp_path, number):
    process, children = start_harness(tmp_path, "sleep", "1000")
    os.kill(process.pid, number)
    assert process.wait(BOUND_SECONDS) == (-number if number == signal.SIGKILL else 130)
    _, alive = psutil.wait_procs(children, timeout=BOUND_SECONDS)
    assert alive == []


def test_a_child_that_begins_after_its_parent_has_died_ends(monkeypatch):
    with monkeypatch.context() as dead_parent:
        dead_parent.setattr("os.getpid", lambda: 1)
        prepare = end_with_parent()
    assert subprocess.run(["true"], preexec_fn=prepare).returncode == 1


def test_the_exit_status_is_that_of_the_command(tmp_path):
    script = "echo $SPARK_MASTER_URL {master}; exit 7"
    process, children = start_harness(tmp_path, "sh", "-c", script)
    printed = process.stdout.read().split()
    assert process.wait(BOUND_SECONDS) == 7
    assert printed[0] == printed[1]
    assert printed[0].startswith("spark://127.0.0.1:")
    assert psutil.wait_procs(children, timeout=BOUND_SECONDS)[1] == []


def test_a_daemon_that_fails_is_named_with_its_log(tmp_path):
    before = psutil.Process().children()
    cluster = spark_cluster.SparkCluster(workers=1, memory="nonsense", directory=tmp_path)
    named_with_log = "worker-0 ended with status 1(.|\n)*Usage: Worker"
    with pytest.raises(DaemonError, match=named_with_log):
        cluster.__enter__()
    assert psutil.Process().children() == before, "the Master that had started is to be stopped"


def test_a_missing_spark_is_said(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DaemonError, match="install pyspark, or set SPARK_HOME"):
        spark_cluster.spark_home()
