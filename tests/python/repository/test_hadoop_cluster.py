"""The HDFS that tests and benchmarks run on never stays behind."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import psutil
import pytest

import hadoop_cluster
from daemons import DaemonError
from support.waiting import BOUND_SECONDS, wait_for

HARNESS = pathlib.Path(hadoop_cluster.__file__)


@pytest.mark.long
@pytest.mark.hdfs
def test_nothing_stays_when_the_harness_is_killed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, str(HARNESS), "--directory", str(tmp_path), "--", "sleep", "1000"],
        stdout=subprocess.PIPE,
        text=True,
    )
    if not any(line.startswith("HDFS ready") for line in process.stdout):
        pytest.fail("HDFS did not start")
    # Both daemons and, a moment after they are ready, the command.
    wait_for(
        lambda: len(psutil.Process(process.pid).children(recursive=True)) == 3, "three processes"
    )
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait(BOUND_SECONDS)
    assert psutil.wait_procs(children, timeout=BOUND_SECONDS)[1] == []


def test_missing_jars_and_no_maven_are_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DaemonError, match="install maven"):
        hadoop_cluster.fetch_jars(tmp_path / "jars")
