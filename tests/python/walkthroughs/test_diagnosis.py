"""The causes that docs/diagnosis.md finds in the trainings of examples/trouble.py are found like that."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from support.operating import tfos as run_tfos
from support.places import ROOT
from support.waiting import BOUND_SECONDS, wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.timeout(3 * BOUND_SECONDS),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TFOS_RUNTIME_DIR", str(tmp_path / "clusters"))
    monkeypatch.chdir(tmp_path)


@contextlib.contextmanager
def running(trouble, tmp_path, **environment):
    """The program, as a user starts it; Ctrl-C ends it, if it has not ended."""
    with open(tmp_path / "output", "w+b") as output:
        program = subprocess.Popen(
            [sys.executable, ROOT / "examples/trouble.py", trouble],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
        try:
            yield program
        finally:
            if program.poll() is None:
                program.send_signal(signal.SIGINT)
            program.wait(BOUND_SECONDS)


def progress():
    """What `tfos status --json` says of the training, as far as it has one."""
    done = run_tfos("status", "--json")
    return json.loads(done.stdout)["progress"] if done.returncode == 0 else {}


def come_to(what, holds):
    """Waits until the progress is such, and returns it."""

    def look():
        told = progress()
        return told if holds(told) else None

    return wait_for(look, what)


def test_rows_that_spark_makes_slowly(tmp_path, leftovers):
    with running("slow-rows", tmp_path):
        told = come_to(
            "steps, and nodes that wait",
            lambda progress: progress.get("step") and progress["waits"] == "nodes",
        )
        assert "nodes wait for rows" in told["text"]


def test_a_step_that_does_something_besides(tmp_path, leftovers):
    with running("slow-step", tmp_path):
        come_to("steps", lambda progress: progress.get("step"))
        done = run_tfos("profile", "worker:0", "--seconds", "3")
        assert done.returncode == 0, done.stderr
        functions = done.stdout.partition("Functions of the program")[2]
        assert "augment_slowly" in functions, done.stdout


def test_a_map_of_the_dataset_that_is_slow(tmp_path, leftovers):
    with running("slow-map", tmp_path):
        come_to("steps", lambda progress: progress.get("step"))
        wait_for(lambda: "look_up_slowly" in run_tfos("stack", "worker:0").stdout, "its thread")
        done = run_tfos("profile", "worker:0", "--seconds", "3", "--output", "map.json")
        assert done.returncode == 0, done.stderr
        file = json.loads((tmp_path / "map.json").read_text())
    names = [frame["name"] for frame in file["shared"]["frames"]]
    slow = names.index("look_up_slowly")
    busy = {
        thread["name"]: sum(
            weight
            for stack, weight in zip(thread["samples"], thread["weights"], strict=True)
            if slow in stack
        )
        for thread in file["profiles"]
    }
    assert "look_up_slowly" in done.stdout.partition("on other threads")[2], done.stdout
    assert busy.pop("MainThread") == 0
    assert sum(busy.values()) > file["profiles"][0]["endValue"] / 4, done.stdout


def test_a_node_that_waits_for_a_lock(tmp_path, leftovers):
    with running("stuck", tmp_path):
        come_to("steps", lambda progress: progress.get("step"))
        wait_for(lambda: "wait_for_a_lock" in run_tfos("stack", "worker:1").stdout, "the lock")
        other = run_tfos("stack", "worker:0").stdout
        assert "wait_for_a_lock" not in other


def test_a_node_that_is_stopped(tmp_path, leftovers):
    with running("frozen", tmp_path) as program:
        program.wait(BOUND_SECONDS)
        said = (tmp_path / "output").read_text()
        assert program.returncode != 0
    assert "worker:1" in said
    assert "has given no sign of life for" in said and "stopped" in said
    assert "no sign of life on worker:1 for" in said, "the progress line"
    # Spark is stopped before the driver's Python ends, or its JVM prints many of these.
    assert "Shutdown hooks cannot be modified during shutdown" not in said


def test_a_loss_that_is_no_number_any_more(tmp_path, leftovers):
    with running("diverging", tmp_path):
        told = come_to("a bad loss", lambda progress: "nan on 2" in progress.get("bad_loss", ""))
        assert told["loss"] is None
        assert "loss nan on 2 of 2 nodes" in told["text"]
