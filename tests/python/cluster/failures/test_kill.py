"""Every process of a cluster is killed, at start, while feeding and at the end: nothing is left, and
the message says what died. test_driver_end.py kills the driver."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

from support.driver_process import OF_SPARK, PROGRAMS
from support.waiting import BOUND_SECONDS, wait_for

pytestmark = pytest.mark.spark  # The driver, a process of its own, starts it.

failure, long = pytest.mark.failure, pytest.mark.long


@pytest.mark.parametrize(
    "phase, victim",
    [
        pytest.param(
            "load",
            "node",
            marks=[failure("node killed", "starting"), failure("out-of-memory kill", "starting")],
        ),
        pytest.param(
            "feed",
            "node",
            marks=[failure("node killed", "feeding"), failure("out-of-memory kill", "feeding")],
        ),
        pytest.param(
            "infer",
            "node",
            marks=[
                long,
                failure("node killed", "inference"),
                failure("out-of-memory kill", "inference"),
            ],
        ),
        pytest.param(
            "cache",
            "node",
            marks=[
                long,
                failure("node killed", "caching"),
                failure("out-of-memory kill", "caching"),
            ],
        ),
        pytest.param(
            "shutdown",
            "node",
            marks=[
                long,
                failure("node killed", "shutdown"),
                failure("out-of-memory kill", "shutdown"),
            ],
        ),
        pytest.param(
            "train",
            "node",
            marks=[
                long,
                failure("node killed", "training"),
                failure("out-of-memory kill", "training"),
            ],
        ),
        pytest.param(
            "push",
            "node",
            marks=[
                long,
                failure("node killed", "parameter servers"),
                failure("out-of-memory kill", "parameter servers"),
            ],
        ),
        pytest.param("feed", "agent", marks=[long, failure("agent killed", "feeding")]),
        pytest.param("train", "agent", marks=[long, failure("agent killed", "training")]),
        pytest.param("push", "agent", marks=[long, failure("agent killed", "parameter servers")]),
        pytest.param("infer", "agent", marks=[long, failure("agent killed", "inference")]),
        pytest.param("cache", "agent", marks=[long, failure("agent killed", "caching")]),
        pytest.param("shutdown", "agent", marks=[long, failure("agent killed", "shutdown")]),
        pytest.param("feed", "coordinator", marks=failure("coordinator killed", "feeding")),
        pytest.param(
            "train", "coordinator", marks=[long, failure("coordinator killed", "training")]
        ),
        pytest.param(
            "push", "coordinator", marks=[long, failure("coordinator killed", "parameter servers")]
        ),
        pytest.param(
            "infer", "coordinator", marks=[long, failure("coordinator killed", "inference")]
        ),
        pytest.param(
            "cache", "coordinator", marks=[long, failure("coordinator killed", "caching")]
        ),
        pytest.param(
            "shutdown", "coordinator", marks=[long, failure("coordinator killed", "shutdown")]
        ),
        pytest.param("feed", "executor", marks=[long, failure("executor killed", "feeding")]),
        pytest.param("train", "executor", marks=[long, failure("executor killed", "training")]),
        pytest.param(
            "push", "executor", marks=[long, failure("executor killed", "parameter servers")]
        ),
        pytest.param("infer", "executor", marks=[long, failure("executor killed", "inference")]),
        pytest.param("cache", "executor", marks=[long, failure("executor killed", "caching")]),
        pytest.param("shutdown", "executor", marks=[long, failure("executor killed", "shutdown")]),
        pytest.param(
            "push",
            "python worker",
            marks=[long, failure("Python worker killed", "parameter servers")],
        ),
    ],
)
def test_a_killed_member_ends_the_cluster_and_is_named(drive, victim, phase):
    driver = drive(PROGRAMS[phase], phase, alone=victim in OF_SPARK)
    driver.reach(phase)
    cause = driver.kill(victim)
    raised, left = driver.fails()
    assert left == []
    assert cause in raised


@long
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("node", marks=failure("node killed", "feeding")),
        pytest.param("executor", marks=failure("executor killed", "feeding")),
    ],
)
@pytest.mark.parametrize("rows", ["a frame", "pickled rows"])
def test_a_killed_member_ends_a_cluster_that_jvms_feed(drive, rows, victim):
    driver = drive(PROGRAMS["feed"], f"feed {rows}")
    driver.reach("feed")
    executors = driver.members["executor"]
    wait_for(lambda: all(map(feeds, executors)), "executors whose JVMs feed")
    cause = driver.kill(victim)
    raised, left = driver.fails()
    assert left == []
    assert cause in raised


def feeds(executor):
    """Whether its JVM has loaded the native feeder. In these clusters nothing else needs it."""
    return "/libtfos_jvm" in pathlib.Path(f"/proc/{executor.pid}/maps").read_text()


@pytest.mark.parametrize(
    "action, epochs",
    [
        pytest.param(
            "count",
            1,
            marks=[failure("feeding task killed", "feeding"), failure("task retry", "feeding")],
        ),
        pytest.param("count cached", 2, marks=[long, failure("feeding task killed", "caching")]),
    ],
)
def test_a_killed_python_worker_is_retried_and_its_rows_are_not_fed_twice(drive, action, epochs):
    driver = drive("collect_rows", action)
    pid = driver.wait_for("worker")["pid"]
    os.kill(pid, signal.SIGKILL)
    counted = driver.wait_for("counted")
    assert driver.process.wait(BOUND_SECONDS) == 0, driver.read_errors()
    assert counted == {"rows": 4000, "times": [epochs]}


@long
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("coordinator", marks=failure("coordinator killed", "starting")),
        pytest.param("executor", marks=failure("executor killed", "starting")),
        pytest.param("agent", marks=failure("agent killed", "starting")),
        pytest.param("python worker", marks=failure("Python worker killed", "starting")),
    ],
)
def test_a_death_during_start_up(drive, victim):
    """The second node never gets a slot, so the cluster is caught in the middle of starting."""
    driver = drive(PROGRAMS["start"], "start", alone=victim in OF_SPARK)
    driver.reach("start")
    cause = driver.kill(victim)
    raised, left = driver.fails()
    assert left == []
    if victim == "executor":
        # Its end is seen by its agent and by Spark, and while they start either may be the first to
        # tell.
        of_spark = "launch the nodes" in raised and "ExecutorLostFailure" in driver.read_errors()
        assert of_spark or cause in raised, driver.read_errors()
    else:
        assert cause in raised, raised
