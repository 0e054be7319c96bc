"""Nodes that are lost, and what starts them again."""

from __future__ import annotations

import errno
import os
import time
from types import SimpleNamespace

import pytest

from tfos.cluster import launch
from tfos.cluster import launcher as launcher_module
from tfos.cluster.launcher import Launcher
from tfos.errors import TfosError


class Lost:
    """A coordinator that knows of one node, which is lost and does not come."""

    finished = False
    failure = None

    def nodes(self):
        return [{"node_id": 0, "job_name": "ps", "task_index": 0, "host": "h", "state": "lost"}]

    def wait_quietly(self, condition, timeout):
        return condition()

    def notify(self):
        pass


def fails_on_the_driver(monkeypatch, job):
    def launch_node(plan, node_id, **options):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(launch, "launch", launch_node)


def job_is_unknown(monkeypatch, job):
    def task_counts():
        raise ConnectionError("Spark does not answer")

    job.task_counts = task_counts


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (fails_on_the_driver, "Resource temporarily unavailable"),
        (job_is_unknown, "Spark does not answer"),
    ],
)
def test_a_server_that_could_not_be_started_is_tried_again(monkeypatch, caplog, fails, why):
    job = SimpleNamespace(done=False, error=None, task_counts=lambda: (0, 1), cancel=lambda: None)
    fails(monkeypatch, job)
    spark = SimpleNamespace(appName="a program")
    jobs = SimpleNamespace(start=lambda *arguments: job, spark_context=spark)
    launcher = Launcher(jobs, Lost(), lambda text: None)
    launcher._starting.add(0)
    launcher._starts[0] = [time.monotonic()]
    launcher._start_server_again(SimpleNamespace(), 0, SimpleNamespace(collect=None))
    assert "was not started again" in caplog.text and why in caplog.text
    assert not launcher._starting, "it counts as missing, and the next attempt is made"


class Trains(Lost):
    """A coordinator of two nodes that train, of which the second is lost."""

    formed = True

    def __init__(self, turned_away):
        self.turned_away = turned_away

    def nodes(self):
        return [
            {"node_id": number, "job_name": "worker", "rank": number, "state": state}
            for number, state in enumerate(["running", "lost"])
        ]

    def turned_away_nodes(self):
        return self.turned_away


def plan(stay):
    return SimpleNamespace(stay=stay, returning_nodes=0, node={"late": True})


@pytest.mark.parametrize(
    ("stay", "turned_away", "missing"),
    [
        (True, set(), []),
        (True, {1}, [1]),
        (False, set(), [1]),
        (False, {1}, [1]),
    ],
    ids=["task is there", "task has ended", "fed", "fed, and turned away"],
)
def test_the_driver_starts_a_lost_node_that_no_launch_task_does(stay, turned_away, missing):
    launcher = Launcher(SimpleNamespace(), Trains(turned_away), lambda text: None)
    assert launcher._missing(plan(stay), 0) == missing


def test_the_driver_starts_a_node_again_that_it_has_started_elsewhere():
    """The job in which it was has ended with it, as all executors of that job were lost."""
    launcher = Launcher(SimpleNamespace(), Trains(set()), lambda text: None)
    launcher._again[1] = SimpleNamespace()
    assert launcher._missing(plan(stay=True), 0) == [1]


@pytest.mark.parametrize(
    ("later", "results"), [({1: b"value"}, {0: b"0", 1: b"value"}), ({1: None}, {0: b"0", 1: b"1"})]
)
def test_the_result_is_that_of_the_job_which_has_one(later, results):
    def ended(returned):
        return SimpleNamespace(done=True, error=None, result=returned.items)

    launcher = Launcher(SimpleNamespace(), Trains(set()), lambda text: None)
    launcher._coordinator.nodes = lambda: [{"state": "done"}, {"state": "done"}]
    launcher.job, launcher._again[1] = ended({0: b"0", 1: b"1"}), ended(later)
    assert launcher.results() == results
    launcher._again[1].error = TfosError("its executor is lost")
    with pytest.raises(TfosError, match="did not reach the driver: its executor is lost"):
        launcher.results()


@pytest.mark.parametrize("turned_away", [set(), {1}])
def test_a_node_that_is_turned_away_has_as_many_starts_left(turned_away):
    launcher = Launcher(SimpleNamespace(), Trains(turned_away), lambda text: None, restarts=3)
    launcher._starting.add(1)
    launcher._starts[1] = [time.monotonic()] * 3
    launcher._started_again(1, SimpleNamespace(error=None))
    assert launcher._missing(plan(stay=False), 0) == ([1] if turned_away else [])


def test_starts_of_long_ago_are_forgotten():
    launcher = Launcher(
        SimpleNamespace(), Trains(set()), lambda text: None, restarts=3, loss_period=600
    )
    launcher._starts[1] = [time.monotonic() - 601] + [time.monotonic()] * 2
    assert launcher._missing(plan(stay=False), 0) == [1]
    launcher._starts[1].append(time.monotonic())
    assert launcher._missing(plan(stay=False), 0) == []


def test_a_start_that_fails_is_no_restart_and_is_tried_a_few_times(caplog):
    launcher = Launcher(SimpleNamespace(), Trains(set()), lambda text: None, restarts=1)
    for attempt in range(16):
        assert "given up" not in caplog.text
        assert launcher._missing(plan(stay=False), 0) == [1], attempt
        launcher._starting.add(1)
        launcher._starts[1] = [time.monotonic()]
        launcher._started_again(1, SimpleNamespace(error=TfosError("no memory")))
    assert "node 1 was not started again and is given up: no memory" in caplog.text
    assert launcher._missing(plan(stay=False), 0) == []


def test_that_a_node_does_not_come_again_is_said_once_for_each_loss(monkeypatch, caplog):
    launcher = Launcher(SimpleNamespace(), Trains(set()), lambda text: None)
    other = {"node_id": 0, "job_name": "chief", "task_index": 0, "rank": 0, "host": "g"}
    other["state"] = "running"
    node = other | {"node_id": 1, "job_name": "worker", "task_index": 1, "rank": 1, "host": "h"}
    node["state"] = "lost"
    never_came = node | {"node_id": 2, "task_index": 2, "rank": 2, "host": ""}
    launcher._coordinator.nodes = lambda: [other, node, never_came]
    launcher._tell_of_long_losses()
    assert not caplog.messages, "its launch task has had no time"
    monkeypatch.setattr(launcher_module, "_LOOK_SECONDS", 0)
    launcher._tell_of_long_losses()
    launcher._tell_of_long_losses()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("worker:1 (node 1 on h) is lost, and has not come again")
    node["state"] = "running"
    launcher._tell_of_long_losses()
    node["state"] = "lost"
    launcher._tell_of_long_losses()
    assert len(caplog.messages) == 2
    node["state"] = "running"
    launcher._tell_of_long_losses()
    node["state"], other["state"] = "lost", "done"
    launcher._tell_of_long_losses()
    assert len(caplog.messages) == 2, "nobody joins nodes that have ended"


def test_a_node_that_comes_again_is_told_what_gpus_its_executor_had_for_nodes():
    launcher = Launcher(SimpleNamespace(), Trains(set()), lambda text: None)
    had = [("5", ["0"]), ("6", ["1"]), ("5", ["2"])]
    launcher._coordinator.nodes = lambda: [{"executor_id": e, "gpus": gpus} for e, gpus in had]
    assert launcher._gpus_of_executors() == {"5": ["0", "2"], "6": ["1"]}
