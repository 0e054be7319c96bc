"""What is closed of a cluster, and in which order, without a cluster."""

from __future__ import annotations

import atexit
import os
from types import SimpleNamespace

import pytest

from tfos.cluster.closing import Closing
from tfos.errors import ClusterStoppedError, NodeFailedError
from tfos.spark.connect import ConnectContext

STEPS = (
    ("tally", "cut_short"),
    ("ending", "stop"),
    ("ending", "await_nodes"),
    ("ending", "end_as_asked"),
    ("launcher", "close"),
    ("launcher", "wait"),
    ("launcher", "release_executors"),
    ("jobs", "cancel"),
    ("coordinator", "close"),
)


class Parts:
    """Those of a cluster. `done` is what was done with them, `fails` has what fails then."""

    def __init__(self, feeds=True, finished=True):
        self.done, self.fails, self.behind = [], {}, None
        for part, step in STEPS:
            owner = self.__dict__.setdefault(part, SimpleNamespace())
            setattr(owner, step, self.note(f"{part}.{step}"))
        self.coordinator.finished = finished
        self.jobs.spark_context = None
        self.coordinator.failure_behind = lambda error: self.behind
        self.closing = Closing(
            self.coordinator,
            self.tally,
            self.ending,
            self.launcher,
            self.jobs,
            feeds=feeds,
            stop_grace=2.0,
            show_end=self.note("show_end"),
            forget=self.note("forget"),
        )

    def note(self, name):
        def step(*arguments, **_options):
            self.done.append((name, *arguments))
            if name in self.fails:
                raise self.fails[name]

        return step

    def names(self):
        return [name for name, *_ in self.done]


CLOSED = [
    ("launcher.close",),
    ("ending.await_nodes",),
    ("show_end", None),
    ("launcher.wait", 5.0),
    ("jobs.cancel",),
    ("launcher.release_executors",),
    ("coordinator.close",),
    ("forget",),
]


def test_a_shutdown_closes_all_once_the_programs_have_returned():
    parts = Parts()
    seen = []

    def wait():
        seen.append((parts.closing.has_begun, parts.closing.ended.is_set()))
        parts.done.append("waited")

    parts.closing.shut_down(wait)
    assert seen == [(True, False)]
    assert parts.done == ["waited", *CLOSED]
    assert parts.closing.ended.is_set()


def test_results_are_waited_for_longer():
    parts = Parts()
    parts.closing.wants_results = True
    parts.closing.shut_down(lambda: None)
    assert ("launcher.wait", 120.0) in parts.done


def test_launch_tasks_of_nodes_that_do_not_end_are_not_waited_for():
    parts = Parts(finished=False)
    parts.closing.shut_down(lambda: None)
    assert parts.done == [step for step in CLOSED if step[0] != "launcher.wait"]


def test_programs_are_stopped_where_a_shutdown_is_interrupted():
    parts = Parts()

    def wait():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.closing.shut_down(wait)
    assert parts.done == [
        ("ending.stop", "the driver's shutdown ended with KeyboardInterrupt"),
        *CLOSED,
    ]


@pytest.mark.parametrize("step", [name for name, *_ in CLOSED])
def test_whatever_fails_the_rest_is_closed(step):
    parts = Parts()
    parts.fails[step] = OSError(step)
    with pytest.raises(OSError, match=step):
        parts.closing.abort("a test")
    last = ["jobs.cancel", "launcher.release_executors", "coordinator.close", "forget"]
    assert parts.names()[:2] == ["tally.cut_short", "ending.stop"]
    assert parts.names()[-4:] == last


@pytest.mark.parametrize(
    ("error", "reason", "failure"),
    [
        (
            ClusterStoppedError("alice has stopped it"),
            "alice has stopped it",
            "ClusterStoppedError",
        ),
        (ValueError("3"), "the driver program failed: ValueError", "ValueError"),
        (KeyboardInterrupt(), "the driver program was interrupted", "KeyboardInterrupt"),
    ],
)
def test_nodes_are_told_who_stopped_the_cluster_or_what_failed(error, reason, failure):
    parts = Parts()
    parts.closing.abort_after(error)
    assert ("ending.stop", reason) in parts.done
    (shown,) = [arguments for name, *arguments in parts.done if name == "show_end"]
    message = f"{failure}: {error}"
    assert shown == [{"step": "run the driver program", "message": message}]


def test_what_is_behind_an_error_of_the_program_is_raised():
    parts = Parts()
    parts.behind = NodeFailedError.from_message({"node_id": -1, "step": "run", "message": "gone"})
    error = ValueError("3")
    with pytest.raises(NodeFailedError, match="gone") as raised:
        parts.closing.abort_after(error)
    assert raised.value.__cause__ is error
    assert ("show_end", None) in parts.done and parts.names()[-1] == "forget"


@pytest.mark.parametrize("feeds", [True, False])
def test_who_stops_a_cluster_leaves_its_closing_to_the_program(feeds):
    parts = Parts(feeds)
    parts.closing.stop_as_asked("alice", 3.0)
    of_feed = [("tally.cut_short",), ("jobs.cancel",)] if feeds else []
    assert parts.done == [("launcher.close",), *of_feed, ("ending.end_as_asked", "alice", 3.0)]
    assert not parts.closing.has_begun and not parts.closing.ended.is_set()


def test_a_program_that_ends_without_a_shutdown_leaves_the_jobs_to_spark(monkeypatch):
    at_exit = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setattr(atexit, "unregister", at_exit.remove)
    parts = Parts()
    parts.closing.follow_exit()
    at_exit[0]()
    assert not at_exit
    kept = ("launcher.wait", "jobs.cancel", "launcher.release_executors")
    assert parts.done == [
        ("ending.stop", "the driver program has ended"),
        *(step for step in CLOSED if step[0] not in kept),
    ]


def test_a_client_that_ends_without_a_shutdown_cancels_its_jobs():
    """Its server goes on."""
    parts = Parts()
    parts.jobs.spark_context = object.__new__(ConnectContext)
    parts.closing._at_exit()
    assert parts.done == [("ending.stop", "the driver program has ended"), *CLOSED]


def test_a_forked_child_that_ends_leaves_the_cluster_alone(tmp_path):
    parts = Parts()
    parts.closing.follow_exit()
    try:
        child = os.fork()
        if child == 0:
            atexit._run_exitfuncs()
            (tmp_path / "done").write_text(str(parts.done))
            os._exit(0)
        os.waitpid(child, 0)
    finally:
        atexit.unregister(parts.closing._at_exit)
    assert (tmp_path / "done").read_text() == "[]"
