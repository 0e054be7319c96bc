"""Which nodes hear that an executor goes, with what Spark says in the test's hands."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from tfos.cluster.leaving import LeavingWatch


class Spark:
    """A SparkContext whose executors ``decommissioned`` go, and how often it was asked. Questions
    that are ``failing`` (from 1) have no answer."""

    def __init__(self):
        self.decommissioned = set()
        self.asked = 0
        self.failing = range(0)
        keys = SimpleNamespace(mkString=self._names)
        scheduler = SimpleNamespace(
            executorsPendingDecommission=lambda: SimpleNamespace(keySet=lambda: keys)
        )
        self.getConf = dict
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(taskScheduler=lambda: scheduler))

    def _names(self, separator):
        self.asked += 1
        if self.asked in self.failing:
            raise RuntimeError("the gateway's connection broke")
        return separator.join(sorted(self.decommissioned))


def node(number, executor):
    return {
        "node_id": number,
        "job_name": "worker",
        "task_index": number,
        "host": "h",
        "executor_id": executor,
        "agent_pid": 100 + number,
        "state": "running",
    }


class Coordinator:
    """Knows ``nodes``, and keeps what it is ``told``."""

    def __init__(self, *nodes):
        self.told = []
        self.copies = 0
        self._nodes = nodes

    def nodes(self):
        self.copies += 1
        return [dict(node) for node in self._nodes]

    def send(self, kind, *, node_id, reason):
        self.told.append((kind, node_id, reason))


def notice(number, executor):
    return ("leaving", number, f"executor {executor} is being decommissioned")


def test_a_node_that_came_again_on_another_executor_is_announced_again():
    spark, again = Spark(), node(1, "1")
    coordinator = Coordinator(again)
    watch = LeavingWatch(spark, coordinator, threading.Event())
    watch._look()
    assert coordinator.told == []
    spark.decommissioned.add("1")
    watch._look()
    watch._look()
    assert coordinator.told == [notice(1, "1")]
    again["state"] = "lost"
    watch._look()
    again.update(state="running", executor_id="4")
    watch._look()
    assert coordinator.told == [notice(1, "1")]
    spark.decommissioned.add("4")
    watch._look()
    watch._look()
    assert coordinator.told == [notice(1, "1"), notice(1, "4")]
    again["agent_pid"] = 200
    watch._look()
    watch._look()
    assert coordinator.told[2:] == [notice(1, "4")], "it came again on the executor that goes"


def test_a_look_at_many_executors_is_one_question():
    spark = Spark()
    waiting = {**node(1000, None), "state": "expected"}
    coordinator = Coordinator(*(node(number, str(number // 2)) for number in range(1000)), waiting)
    watch = LeavingWatch(spark, coordinator, threading.Event())
    watch._look()
    assert (spark.asked, coordinator.copies) == (1, 0)
    spark.decommissioned.update(("7", "499", "of nobody"))
    watch._look()
    assert (spark.asked, coordinator.copies) == (2, 1)
    assert coordinator.told == [
        notice(14, "7"),
        notice(15, "7"),
        notice(998, "499"),
        notice(999, "499"),
    ]


class Ended:
    """An event that is set when it was waited for ``looks`` times."""

    def __init__(self, looks):
        self._looks = looks

    def is_set(self):
        return self._looks < 0

    def wait(self, _seconds):
        self._looks -= 1
        return self.is_set()


def test_a_question_that_fails_is_asked_again(caplog):
    spark, coordinator = Spark(), Coordinator(node(1, "1"))
    spark.decommissioned.add("1")
    spark.failing = range(1, 4)
    LeavingWatch(spark, coordinator, Ended(5))._run()
    assert (spark.asked, coordinator.told) == (5, [notice(1, "1")])
    assert caplog.text.count("Spark does not say which executors it is taking away") == 1


def test_without_a_context_nobody_is_asked_any_more(caplog):
    spark = Spark()
    watch = LeavingWatch(spark, Coordinator(), threading.Event())
    spark._jsc = None
    watch._run()
    assert "its SparkContext has ended" in caplog.text
