"""The driver's progress line."""

from __future__ import annotations

import io

import pytest

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
    return stream.getvalue().partition("s  ")[2].strip()


def test_rows_of_the_feed_are_counted():
    line = line_of(node(FEED, rows=1234, feed_bytes=5e6, feed_queued_bytes=0), doing="feeding")
    assert "1,234 rows read" in line
    assert "the node is waiting for rows" in line


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
    assert "Spark is waiting for the node" in line_of(node(FEED, **full), doing="feeding")
    line = line_of(node(FEED, **full), silent, doing="feeding")
    assert "worker:1 running (no sign of life on host-b for 12 s)" in line
    assert "waiting" not in line
    ended = line_of(node(FEED, **full), silent | {"state": "lost"}, doing="feeding")
    assert "sign of life" not in ended and "Spark is waiting for the node" in ended
    answers_again = silent["metrics"] | {"seconds_without_answer": 0}
    assert "sign of life" not in line_of(silent | {"metrics": answers_again}, doing="feeding")


@pytest.mark.parametrize("state", ["done", "failed", "lost", "stopped"])
def test_a_node_that_has_ended_waits_for_nothing_and_its_rows_stay_counted(state):
    fed = node(FEED, rows=10, feed_queued_bytes=9e6, feed_memory_bytes=10e6)
    ended = fed | {"task_index": 1, "state": state}
    line = line_of(fed, ended, doing="feeding")
    assert "20 rows read | queue 9.0 MB, Spark is waiting for the node | " in line
    assert line.endswith(f"worker:1 {state}")
    assert "queue" not in line_of(ended, doing="feeding")


@pytest.mark.parametrize(
    ("queued", "total"),
    [(0, "the nodes are waiting for rows"), (9e6, "Spark is waiting for the nodes")],
)
def test_the_sum_of_several_nodes_speaks_of_nodes(queued, total):
    fed = node(FEED, rows=10, feed_queued_bytes=queued, feed_memory_bytes=10e6)
    line = line_of(fed, fed | {"task_index": 1}, doing="feeding")
    assert f"MB, {total} | worker:0 running (" in line
    assert line.count(f"MB, {total.replace('nodes are', 'node is').replace('nodes', 'node')})") == 2
