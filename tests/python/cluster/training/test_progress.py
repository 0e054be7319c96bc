"""The driver's progress line."""

from __future__ import annotations

import io
import os
import sys

import pytest

from tfos.cluster.ledger import Ledger
from tfos.cluster.notebook import status_html
from tfos.cluster.progress import Progress

FEED = {"socket": "tfos-x", "port": 40000}


def node(feed, **metrics):
    return {
        "node_id": 0,
        "job_name": "worker",
        "task_index": 0,
        "host": "host-a",
        "state": "running",
        "detail": "",
        "feed": feed,
        "metrics": metrics,
    }


def line_of(*nodes, doing="running"):
    stream = io.StringIO()
    Progress(True, stream=stream).show(list(nodes), doing, last=True)
    return stream.getvalue().partition(" s  ")[2].strip()


def test_rows_of_the_feed_are_counted():
    line = line_of(node(FEED, rows=1234, feed_bytes=5e6, feed_queued_bytes=0), doing="feeding")
    assert "1,234 rows read | queue 0.0 MB |" in line


@pytest.mark.parametrize(
    "metrics",
    [
        {"rows": "12 of 40"},
        {"rows": 12},
        {"feed_bytes": "1.2 MB"},
        {"feed_rate": 3.0, "rows": "12 of 40"},
        {"feed_queued_bytes": "none"},
    ],
    ids=str,
)
def test_a_program_without_a_feed_may_report_what_it_likes(metrics):
    """Under any name: those of the feed's counters are its to use then."""
    assert "rows read" not in line_of(node(None, **metrics))
    assert "worker:0" in status_html("c1", [node(None, **metrics)])


@pytest.mark.parametrize("name", ["rows", "feed_bytes", "feed_queued_bytes", "feed_memory_bytes"])
def test_a_text_by_the_name_of_a_counter_counts_nothing(name):
    nodes = [node(FEED, rows=5), node(FEED, **{"rows": 7, name: "many"})]
    read = 5 if name == "rows" else 12
    assert f"{read} rows read" in line_of(*nodes, doing="feeding")


def test_a_node_without_a_sign_of_life_is_named_and_nobody_else_is_blamed():
    full = {"rows": 10, "feed_queued_bytes": 9e6, "feed_memory_bytes": 10e6}
    silent = node(FEED, **full, seconds_without_answer=12) | {"task_index": 1, "host": "host-b"}
    other = node(FEED, **full) | {"task_index": 2}
    line = line_of(node(FEED, **full), silent, doing="feeding")
    assert "worker:1 running (no sign of life on host-b for 12 s)" in line
    assert "waiting" not in line
    ended = line_of(node(FEED, **full), other, silent | {"state": "lost"}, doing="feeding")
    assert "sign of life" not in ended
    answers_again = silent["metrics"] | {"seconds_without_answer": 0}
    assert "sign of life" not in line_of(silent | {"metrics": answers_again}, doing="feeding")


@pytest.mark.parametrize("state", ["done", "failed", "lost", "stopped"])
def test_a_node_that_has_ended_waits_for_nothing_and_its_rows_stay_counted(state):
    fed = node(FEED, rows=10, feed_queued_bytes=9e6, feed_memory_bytes=10e6)
    ended = fed | {"task_index": 1, "state": state}
    line = line_of(fed, ended, doing="feeding")
    assert "20 rows read | queue 9.0 MB | " in line
    assert line.endswith(f"worker:1 {state}")
    assert "queue" not in line_of(ended, doing="feeding")


def test_rows_stay_counted_when_another_node_comes_in_place_of_a_lost_one():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(True, stream=stream, clock=clock)
    other = node(FEED, rows=100) | {"task_index": 1}
    lost = node(FEED, rows=4000)
    before = {"metrics_before": [lost["metrics"]]}
    again = node(None) | before, node(FEED, rows=20) | before
    for moment, first in enumerate((lost, *again)):
        clock.now += 10
        other["metrics"] = {"rows": 100 + moment}
        progress.show([first, other], f"look {moment}")
    lines = stream.getvalue().splitlines()
    assert ["4,100 rows read" in lines[0], "4,101 rows read" in lines[1]] == [True, True]
    assert "4,122 rows read" in lines[2]


@pytest.mark.parametrize("queued", [0, 9e6])
def test_which_side_waits_is_what_the_coordinator_has_measured_and_no_guess(queued):
    """A full queue is healthy, and an empty one may be a moment's."""
    fed = node(FEED, rows=10, feed_queued_bytes=queued, feed_memory_bytes=10e6)
    nodes = [fed, fed | {"task_index": 1}]
    assert "wait" not in line_of(*nodes, doing="feeding")
    stream = io.StringIO()
    measured = {"text": "step 3, nodes wait for rows"}
    Progress(True, stream=stream).show(nodes, "feeding", measured, last=True)
    assert stream.getvalue().count("wait") == 1


def test_what_a_running_node_does_is_said():
    tracing = node(FEED) | {"detail": "first step (tracing)"}
    assert line_of(tracing) == "running | worker:0 running (first step (tracing))"


def test_the_states_of_many_nodes_are_counted():
    nodes = [node(FEED) | {"task_index": index} for index in range(12)]
    nodes[3] |= {"state": "done"}
    nodes[7] = node(FEED, seconds_without_answer=5) | {"task_index": 7}
    assert line_of(*nodes) == (
        "running | 12 nodes: 11 running, 1 done | "
        "worker:7 running (no sign of life on host-a for 5 s)"
    )


class Clock:
    """Stands still until a test moves it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


TRAINING = {"text": "epoch 2 of 5, step 120, 37 %, 83 s left, loss 0.1234", "done": 0.37}


def test_elsewhere_than_on_a_terminal_there_is_a_line_each_30_seconds():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(True, stream=stream, clock=clock)
    for second in range(100):
        clock.now = 1000.0 + second
        progress.show([node(None, step=second)], "running", TRAINING)
    lines = stream.getvalue().splitlines()
    assert [line.split(" s  ")[0].split()[-1] for line in lines] == ["0.0", "30.0", "60.0", "90.0"]
    assert lines[0].endswith(f"s  running | {TRAINING['text']} | worker:0 running step=0")


def test_a_change_of_a_state_or_of_what_the_driver_does_is_told_at_once():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(True, stream=stream, clock=clock)
    looks = [
        ("starting", node(None) | {"state": "registered"}),
        ("starting", node(None) | {"state": "registered", "detail": "importing TensorFlow"}),
        ("running", node(None) | {"detail": "first step (tracing)"}),
        ("running", node(None)),
        ("running", node(None, step=1)),
    ]
    for doing, one in looks:
        progress.show([one], doing)
        clock.now += 2
    lines = [line.split(" s  ")[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "starting | worker:0 registered",
        "starting | worker:0 registered (importing TensorFlow)",
        "running | worker:0 running (first step (tracing))",
        "running | worker:0 running",
    ]


def test_a_silence_is_told_at_once_and_once():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(True, stream=stream, clock=clock)
    for silent in (0, 3, 5, 7, 0, 0):
        progress.show([node(None, seconds_without_answer=silent)], "running")
        clock.now += 2
    lines = [line.split(" s  ")[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "running | worker:0 running",
        "running | worker:0 running (no sign of life on host-a for 3 s)",
        "running | worker:0 running",
    ]


def test_a_loss_that_is_no_number_any_more_is_told_at_once_and_once():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(True, stream=stream, clock=clock)
    for bad in ("", "nan on worker:1", "nan on 2 of 2 nodes"):
        loss = f"loss {bad}" if bad else "loss 0.5"
        progress.show([node(None)], "running", {"text": loss, "bad_loss": bad})
        clock.now += 2
    lines = [line.split(" s  ")[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "running | loss 0.5 | worker:0 running",
        "running | loss nan on worker:1 | worker:0 running",
    ]


def test_a_node_that_makes_no_steps_any_more_is_told_at_once_and_once():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(True, stream=stream, clock=clock)
    for stuck in ({}, {"seconds_without_step": 70}, {"seconds_without_step": 72}, {}):
        progress.show([node(None, step=7, **stuck)], "running")
        clock.now += 2
    lines = [line.split(" s  ")[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        "running | worker:0 running step=7",
        "running | worker:0 running step=7 (no step for 1:10)",
        "running | worker:0 running step=7",
    ]


def test_all_rates_of_a_line_are_those_that_the_coordinator_has_measured():
    """At one moment, so that they add up, however the counters have come."""
    clock, stream = Clock(), io.StringIO()
    progress = Progress(True, quiet=0.0, stream=stream, clock=clock)
    measured = {"text": "step 3, 1,000 rows/s"}
    fed = node(FEED, rows=600, feed_bytes=6e6) | {"rates": {"rows": 600.0, "feed_bytes": 6e6}}
    other = fed | {"task_index": 1, "rates": {"rows": 400.0, "feed_bytes": 2e6}}
    ended = other | {"state": "done", "rates": {}}
    quiet = [one | {"rates": {"rows": 500.0, "feed_bytes": 0.0}} for one in (fed, other)]
    for nodes in ([fed, other], [fed, ended], quiet):
        progress.show(nodes, "running", measured)
        clock.now += 2
    progress.show([fed, other], "ended", measured, last=True)
    both, one, silent, last = stream.getvalue().splitlines()
    assert "1,000 rows/s | 1,200 rows read, 8.0 MB/s from Spark |" in both
    assert "worker:0 running (600 rows/s, " in both and "worker:1 running (400 rows/s, " in both
    assert "6.0 MB/s from Spark" in one and one.endswith("worker:1 done")
    assert "MB/s" not in silent, "the nodes read what had come before"
    assert "MB/s" not in last and last.count("rows/s") == 1


def test_rates_of_a_program_without_a_feed_are_its_own():
    own = node(None, rows=5) | {"rates": {"rows": 5.0, "feed_bytes": 1e9}}
    stream = io.StringIO()
    Progress(True, stream=stream).show([own, node(FEED, rows=7)], "running")
    assert "7 rows read" in stream.getvalue() and "/s" not in stream.getvalue()


def test_on_a_terminal_the_line_stays_in_its_place(monkeypatch):
    monkeypatch.setattr("tfos.cluster.progress.columns_of", lambda stream: 60)
    clock, stream = Clock(), Terminal()
    progress = Progress(True, stream=stream, clock=clock)
    with progress.waiting():
        for _ in range(3):
            progress.show([node(None)], "running", TRAINING)
            clock.now += 2
        progress.say("page | http://h")
        progress.show([node(None)], "running", TRAINING)
    progress.show([node(None) | {"state": "done"}], "ended", last=True)
    cut = "running | epoch 2 of 5, step 120, 37 %, 83 s left"
    assert stream.getvalue() == (
        f"\rtfos    0.0 s  {cut[:44]}\x1b[K"
        f"\rtfos    2.0 s  {cut[:44]}\x1b[K"
        f"\rtfos    4.0 s  {cut[:44]}\x1b[K"
        "\r\x1b[Ktfos    6.0 s  page | http://h\n"
        f"\rtfos    6.0 s  {cut[:44]}\x1b[K\n"
        "\r\x1b[Ktfos    6.0 s  ended | worker:0 done\n"
    )


def test_output_of_nodes_is_shown_where_no_progress_is():
    stream = io.StringIO()
    Progress(False, stream=stream).show_output(["worker:0 | one", "worker:0 | two"])
    assert stream.getvalue() == "worker:0 | one\nworker:0 | two\n"


def stream_of(descriptor):
    """As `sys.stderr` is: what could not be written is not kept."""
    return io.TextIOWrapper(io.FileIO(descriptor, "w"), write_through=True)


def broken_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return stream_of(writer)


def lost_terminal():
    terminal, ours = os.openpty()
    os.close(terminal)
    return stream_of(ours)


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize(
    "make",
    [broken_pipe, lost_terminal, closed, lambda: None],
    ids=["pipe", "tty", "closed", "none"],
)
def test_a_standard_error_that_is_lost_ends_nothing_and_nothing_more_is_shown(monkeypatch, make):
    clock, alive = Clock(), Terminal()
    progress = Progress(True, clock=clock)
    monkeypatch.setattr(sys, "stderr", alive)
    with progress.waiting():
        progress.show([node(None)], "running", TRAINING)
        shown = alive.getvalue()
        assert shown
        monkeypatch.setattr(sys, "stderr", make())
    clock.now += 60
    progress.show([node(None)], "running", TRAINING)
    progress.say("page | http://h")
    progress.show_output(["worker:0 | one"])
    progress.show([node(None) | {"state": "done"}], "ended", last=True)
    progress.say_ledger(Ledger(), False)

    monkeypatch.setattr(sys, "stderr", alive)
    progress.say("more")
    assert alive.getvalue() == shown


class OnlyWritten:
    """As notebooks and tees put in the place of sys.stderr."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


def test_a_stream_that_can_only_be_written_to_gets_lines():
    stream = OnlyWritten()
    progress = Progress(True, stream=stream)
    progress.say("page | here")
    progress.show([node({})], "running")
    progress.show_output(["a line of a node"])
    progress.show([node({})], "ended", last=True)
    assert "page | here\n" in stream.text and "a line of a node\n" in stream.text
    assert stream.text.endswith("\n") and "\r" not in stream.text
