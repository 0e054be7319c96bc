"""The driver ends before its cluster, in each phase: it is killed, interrupted, or Spark's session
stops. Nothing is left."""

from __future__ import annotations

import os
import signal

import pytest

from support.driver_process import PROGRAMS

pytestmark = pytest.mark.spark  # The driver, a process of its own, starts it.

failure, long = pytest.mark.failure, pytest.mark.long


@long
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("start", marks=failure("driver killed", "starting")),
        pytest.param("feed", marks=failure("driver killed", "feeding")),
        pytest.param("train", marks=failure("driver killed", "training")),
        pytest.param("push", marks=failure("driver killed", "parameter servers")),
        pytest.param("infer", marks=failure("driver killed", "inference")),
        pytest.param("cache", marks=failure("driver killed", "caching")),
        pytest.param("shutdown", marks=failure("driver killed", "shutdown")),
    ],
)
def test_a_killed_driver_leaves_nothing(drive, phase):
    driver = drive(PROGRAMS[phase], phase)
    driver.reach(phase)
    driver.kill("driver")
    assert driver.ends() == (-signal.SIGKILL, [])


@long
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("start", marks=failure("Ctrl-C", "starting")),
        pytest.param("feed", marks=failure("Ctrl-C", "feeding")),
        pytest.param("wait", marks=failure("Ctrl-C", "training")),
        pytest.param("push", marks=failure("Ctrl-C", "parameter servers")),
        pytest.param("infer", marks=failure("Ctrl-C", "inference")),
        pytest.param("cache", marks=failure("Ctrl-C", "caching")),
        pytest.param("shutdown", marks=failure("Ctrl-C", "shutdown")),
    ],
)
def test_ctrl_c_ends_everything(drive, phase):
    driver = drive(PROGRAMS[phase], phase)
    driver.reach(phase)
    driver.process.send_signal(signal.SIGINT)
    code, left = driver.ends()
    assert left == []
    if phase == "infer" and code == 1:
        # PySpark's handler uses the connection to the JVM on which its action waits, and fails.
        assert "Py4JError" in driver.read_errors()
    else:
        assert code == -signal.SIGINT
        assert "KeyboardInterrupt" in driver.read_errors()


@long
@failure("Ctrl-C", "feeding")
def test_ctrl_c_at_a_terminal_ends_everything(drive):
    """A terminal sends it to all processes that are still in the driver's group."""
    driver = drive(PROGRAMS["feed"], "feed")
    driver.reach("feed")
    group = driver.process.pid
    assert {os.getpgid(executor.pid) for executor in driver.members["executor"]} == {group}
    os.killpg(group, signal.SIGINT)
    assert driver.ends() == (-signal.SIGINT, [])


@long
@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("start", marks=failure("Spark session stopped", "starting")),
        pytest.param("feed", marks=failure("Spark session stopped", "feeding")),
        pytest.param("train", marks=failure("Spark session stopped", "training")),
        pytest.param("push", marks=failure("Spark session stopped", "parameter servers")),
        pytest.param("infer", marks=failure("Spark session stopped", "inference")),
        pytest.param("cache", marks=failure("Spark session stopped", "caching")),
        pytest.param("shutdown", marks=failure("Spark session stopped", "shutdown")),
    ],
)
def test_a_spark_session_that_stops_ends_everything(drive, phase):
    driver = drive(PROGRAMS[phase], f"{phase} and stop")
    driver.reach(phase)
    driver.let_stop()
    code, left = driver.ends()
    assert (code, left) == (1, [])
    # The job is told by Spark, and its nodes that their executors end: either is first. Spark may
    # also take a result when its manager of blocks has gone, which it says in its own words.
    errors = driver.read_errors()
    causes = ("SparkContext was shut down", "NodeFailedError", "BlockManagerMaster.driverEndpoint")
    assert any(cause in errors for cause in causes), errors[-3000:]
    assert "AttributeError" not in errors, "what came of it hides the cause"
