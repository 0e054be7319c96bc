"""The executor that a node belongs to, and its tasks in Python, for tests that kill them."""

from __future__ import annotations

import psutil

from support.places import RUN_VARIABLE


def executor_of(node: psutil.Process | None = None) -> psutil.Process:
    """It works in the node's directory; `node` is this process unless one is given.

    Spark names that directory after the second in which the application was registered, so the
    executors of two test processes may share it: only those of the same run are considered."""
    node = node or psutil.Process()
    place = (node.cwd(), node.environ()[RUN_VARIABLE])
    # With None for those of other tests that end meanwhile.
    for process in psutil.process_iter(["name", "cwd", "environ"], ad_value=None):
        if process.info["name"] != "java" or process.info["environ"] is None:
            continue
        if (process.info["cwd"], process.info["environ"].get(RUN_VARIABLE)) == place:
            return process
    raise AssertionError(f"no executor works in {place[0]}")


def tasks_of(executor: psutil.Process) -> list[psutil.Process]:
    """The Python workers of an executor: the daemon's children."""
    found = []
    for daemon in executor.children():
        if "pyspark.daemon" in daemon.cmdline():
            found += daemon.children()
    assert found, f"no Python worker of the executor {executor.pid}"
    return found
