"""What an error says of an executor that YARN took, with what Spark says in the test's hands."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

from support.waiting import wait_for
from tfos.cluster import losses
from tfos.cluster.coordinator import Coordinator
from tfos.cluster.losses import ExecutorLosses
from tfos.errors import NodeFailedError

#: As Spark 4.1 says them.
PREEMPTED = "Container container_1_0001_01_000003 on host: h was preempted."
OF_MEMORY = (
    "Container killed by YARN for exceeding physical memory limits. 1.5 GB of 1.5 GB physical memory "
    "used. Consider boosting spark.executor.memoryOverhead."
)
ON_REQUEST = (
    "Container from a bad node: container_1_0001_01_000003 on host: h. Exit status: 143. "
    "Diagnostics: Container killed on request. Exit code is 143\nContainer exited with ...\n."
)


class Spark:
    """A SparkContext that says of executor 2 why it was removed, at the given look, and where its
    log is."""

    def __init__(self, reason, look=1, master="yarn", log=""):
        self.master = master
        self.looks = 0
        self._reason, self._look, self._log = reason, look, log
        store = SimpleNamespace(executorSummary=self._summary)
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))

    def _summary(self, executor):
        if executor != "2":
            raise KeyError(executor)
        self.looks += 1
        known = self.looks >= self._look
        option = SimpleNamespace(isDefined=lambda: known, get=lambda: self._reason)
        log = SimpleNamespace(isDefined=lambda: bool(self._log), get=lambda: self._log)
        logs = SimpleNamespace(get={"stderr": log}.get)
        return SimpleNamespace(removeReason=lambda: option, executorLogs=lambda: logs)


def failed_with(step="watch the executor", executor="2"):
    return {
        "node_id": 1,
        "job_name": "worker",
        "task_index": 1,
        "host": "h",
        "executor_id": executor,
        "step": step,
        "message": "the Spark executor (process 5) has ended",
        "traceback": "",
    }


@pytest.mark.parametrize(
    ("reason", "said", "advice"),
    [
        (PREEMPTED, "on host: h was preempted", "nodes=(least, most)"),
        (OF_MEMORY, "physical memory limits", "raise spark.executor.memoryOverhead"),
        (ON_REQUEST, "Exit code is 143", "NodeManager's log"),
        ("Executor decommission.", "Executor decommission", ""),
    ],
    ids=["preempted", "memory", "on request", "another"],
)
def test_the_failure_has_sparks_reason_and_what_to_do(reason, said, advice):
    message = ExecutorLosses(Spark(reason, look=3)).explained(failed_with())["message"]
    assert message.startswith(
        "the Spark executor (process 5) has ended. Spark says of executor 2: "
    )
    assert said in message and advice in message
    assert "\n" not in message and ".." not in message


@pytest.mark.parametrize(
    ("context", "failed"),
    [
        (Spark(PREEMPTED), failed_with(step="run the program")),
        (Spark(PREEMPTED), failed_with(executor="driver")),
        (Spark(PREEMPTED), failed_with(executor="7")),
        (Spark(PREEMPTED, master="spark://h:7077"), failed_with()),
        (Spark(PREEMPTED, look=10**9), failed_with()),
    ],
    ids=["another step", "on the driver", "unknown executor", "another master", "it lives"],
)
def test_what_spark_does_not_say_is_left_out(monkeypatch, context, failed):
    monkeypatch.setattr(losses, "_PATIENCE_SECONDS", 0.3)
    assert ExecutorLosses(context).explained(failed) == failed


def test_the_error_says_where_spark_shows_the_log():
    url = "http://h:8081/logPage/?executorId=2&logType=stderr"
    spark = Spark(PREEMPTED, master="spark://h:7077", log=url)
    failed = failed_with(step="run the program") | {"log_tail": ["its last line"]}
    explained = ExecutorLosses(spark).explained(failed)
    assert explained == failed | {"output_url": url}
    error = NodeFailedError.from_message(explained)
    assert str(error).endswith(
        f"the stderr of executor 2 on h.\nSpark shows its executor's log at {url}"
    )


def says(events):
    """A channel to a coordinator that says these events."""
    ended = {"await_end": lambda timeout: None, "close": lambda: None, "send": lambda line: None}
    return lambda: SimpleNamespace(
        listen=lambda start: {"address": "127.0.0.1", "port": 1},
        lines=lambda: map(json.dumps, events),
        how_it_ended=lambda: "ended",
        name="of a test",
        **ended,
    )


def test_the_failure_is_raised_once_spark_has_said_why():
    failed = [{"type": "failed", "failure": failed_with()}]
    cancelled = []
    coordinator = Coordinator(
        {},
        lambda: cancelled.append(True),
        says(failed),
        losses=ExecutorLosses(Spark(PREEMPTED, look=3)),
    )
    with pytest.raises(NodeFailedError, match=r"executor 2 on h\) .* was preempted\. YARN gave"):
        coordinator.wait(lambda: False, 60)
    assert cancelled == [True]
    coordinator.close()


def test_the_log_says_why_a_node_is_lost_that_the_others_go_on_without(caplog):
    node = {**failed_with(), "state": "lost", "detail": "the Spark executor has ended"}
    caplog.set_level(logging.WARNING)
    coordinator = Coordinator(
        {"min_nodes": 1},
        lambda: None,
        says([{"type": "node", "node": node}]),
        losses=ExecutorLosses(Spark(PREEMPTED)),
    )
    wait_for(lambda: "Spark says of executor 2: Container" in caplog.text, "the reason")
    coordinator.close()
