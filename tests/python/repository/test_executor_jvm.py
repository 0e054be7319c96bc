"""Two runs of the tests whose executors have one directory: each kills its own."""

from __future__ import annotations

import os
import shutil
import subprocess

import psutil
import pytest

from support.executor_jvm import executor_of
from support.places import RUN_VARIABLE
from support.waiting import wait_for


def started(stack, command, directory, run):
    process = subprocess.Popen(
        [command, "1000"], cwd=directory, env={**os.environ, RUN_VARIABLE: run}
    )
    stack.append(process)
    known = psutil.Process(process.pid)
    # The kernel shows a new program's environment a moment after it has begun.
    wait_for(lambda: known.environ(), f"the environment of {command}")
    return known


@pytest.fixture
def processes():
    kept = []
    yield kept
    for process in kept:
        process.kill()
        process.wait()


def test_it_is_of_the_same_run(tmp_path, processes):
    java = tmp_path / "java"
    shutil.copy("/bin/sleep", java)
    started(processes, java, tmp_path, "other run")
    node = started(processes, "sleep", tmp_path, "this run")
    with pytest.raises(AssertionError, match="no executor works in"):
        executor_of(node)
    own = started(processes, java, tmp_path, "this run")
    assert executor_of(node) == own
