"""What the driver tells of an inference, which Spark computes whenever the program wants it."""

from __future__ import annotations

import io
import os
import threading

import pytest

from support.html_text import text_in
from tfos.cluster.notebook import LiveView
from tfos.cluster.progress import Progress
from tfos.cluster.view.teller import Teller


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Cluster:
    """Stands for the coordinator, and for the clock, which metrics move."""

    def __init__(self, stream=None, view=None):
        self.now, self.metrics, self.sent = 0.0, {}, []
        self.waits, self.progress, self.state = "", {}, "running"
        self.stream = io.StringIO() if stream is None else stream
        progress = Progress(True, stream=self.stream, clock=lambda: self.now, view=view)
        self.teller = Teller(progress, self, lambda: {"items_read": 7, "epochs": 3}, self.clock)

    def clock(self):
        return self.now

    def nodes(self):
        return [
            {
                "job_name": "worker",
                "task_index": 0,
                "host": "host-a",
                "state": self.state,
                "feed": {"socket": "tfos-x", "port": 40000},
                "metrics": dict(self.metrics),
                "metrics_before": [],
            }
        ]

    def send(self, kind, **fields):
        self.sent.append((kind, fields["doing"], fields["epochs"]))

    def answer(self, seconds, rows=100, sessions=1):
        """That many rows come in each second, with metrics."""
        for _ in range(seconds):
            self.now += 1.0
            self.metrics["result_rows"] = self.metrics.get("result_rows", 0) + rows
            self.metrics["feed_sessions"] = sessions
            self.progress = {"text": "100 rows/s, nodes wait for rows" if rows else ""}
            self.on_metrics()

    def rest(self, seconds):
        self.answer(seconds, rows=0, sessions=0)

    def lines(self):
        return self.stream.getvalue().splitlines()


def test_a_line_each_30_seconds_and_one_at_the_end():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(70)
    cluster.rest(6)
    assert cluster.lines() == [
        *(
            f"tfos  {now:5.1f} s  inferring | {rows:,} rows answered, 100 rows/s, "
            "nodes wait for rows | worker:0 running"
            for now, rows in ((4, 400), (34, 3400), (64, 6400))
        ),
        "tfos   74.0 s  inferring: no more rows | 7,000 rows answered | worker:0 running",
    ]
    assert cluster.sent == [("activity", "inferring", 0), ("activity", "between feeds", 3)]
    cluster.answer(5)
    assert "| 400 rows answered, " in cluster.lines()[-1], "each inference counts its own"


@pytest.mark.parametrize("seconds", [1, 3])
def test_a_short_one_is_not_shown(seconds):
    cluster = Cluster()
    cluster.teller.expect_inference()
    for _ in range(5):
        cluster.answer(seconds)
        cluster.rest(10)
    assert cluster.lines() == [] and cluster.sent == []


def test_a_gap_between_two_stages_is_no_end():
    cluster = Cluster()
    cluster.teller.expect_inference()
    for _ in range(4):
        cluster.answer(4)
        cluster.rest(2)
    assert len(cluster.lines()) == 1


def test_rows_that_wait_for_their_program_are_being_inferred():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(5, rows=0)
    assert cluster.lines() == ["tfos    4.0 s  inferring | 0 rows answered | worker:0 running"]


def test_a_training_is_no_inference():
    cluster = Cluster()
    cluster.answer(10, rows=0)
    cluster.teller.expect_inference()
    with cluster.teller.waiting():
        cluster.teller("feeding")
        cluster.answer(10)
    assert [line.split(" s  ")[1] for line in cluster.lines()] == ["feeding | worker:0 running"]
    cluster.rest(10)
    assert len(cluster.lines()) == 1


def test_what_the_driver_does_next_ends_it():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(5)
    cluster.now += 2
    cluster.teller("all rows fed")
    assert [line.split(" s  ")[1].split(" | ")[0] for line in cluster.lines()] == [
        "inferring",
        "inferring: no more rows",
        "all rows fed",
    ]


def test_the_last_counts_of_nodes_that_have_ended_are_no_inference():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(3)
    cluster.state = "done"
    cluster.answer(3)
    assert cluster.lines() == []


def test_on_a_terminal_it_stays_in_its_place(monkeypatch):
    monkeypatch.setattr("tfos.cluster.progress.columns_of", lambda stream: 60)
    cluster = Cluster(Terminal())
    cluster.teller.expect_inference()
    cluster.answer(6)
    cluster.rest(4)
    line = "s  inferring | {} rows answered, 100 rows/s, n"
    assert cluster.stream.getvalue() == (
        f"\rtfos    4.0 {line.format(400)}\x1b[K"
        f"\rtfos    6.0 {line.format(600)}\x1b[K"
        "\r\x1b[Ktfos   10.0 s  inferring: no more rows | 600 rows answered | worker:0 running\n"
    )


def test_each_cell_keeps_a_view_of_its_own():
    cells, running = {}, [1]

    def display(*bundle):
        assert running[0] not in cells, "a second view in the same cell"
        shown = cells[running[0]] = [bundle]
        return lambda *newer: shown.append(newer)

    cluster = Cluster(view=LiveView(lambda: running[0], display))
    cluster.teller.expect_inference()
    cluster.answer(6)
    # The metrics of its last moments come while the next cell runs.
    running[0] = 2
    cluster.answer(2)
    cluster.rest(9)
    running[0] = 3
    cluster.answer(10)
    running[0] = 4
    cluster.now += 2
    with cluster.teller.waiting():
        cluster.teller("feeding")
    assert list(cells) == [1, 3, 4]
    last = {cell: text_in(shown[-1][0]) for cell, shown in cells.items()}
    assert "inferring: no more rows | 800 rows answered" in last[1]
    assert "inferring: no more rows | 1,000 rows answered" in last[3]
    assert "feeding: done" in last[4] and "answered" not in last[4]


def test_what_stays_of_a_wait_is_as_it_is_at_the_end():
    cells = []

    def display(*bundle):
        cells.append(bundle)
        return lambda *newer: cells.append(newer)

    for cluster in (Cluster(view=LiveView(lambda: 1, display)), Cluster(Terminal())):
        with cluster.teller.waiting():
            cluster.now += 2
            cluster.teller("starting")
            cluster.metrics["step"] = 9
            cluster.progress = {"text": "step 9", "done": 0.9}
        shown = cells[-1][1] if cells else ""
        if cluster.stream.getvalue():
            shown = cluster.stream.getvalue()
            assert shown.endswith("starting | step 9 | 1 node: 1 running\x1b[K\n")
        else:
            assert shown.endswith("starting: done | step 9 | worker:0 running step=9")
            assert 'aria-valuenow="90"' in cells[-1][0]


def test_the_thread_that_brings_metrics_waits_for_nobody_who_reads():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    with os.fdopen(reader, "rb"), os.fdopen(writer, "w") as stream:
        cluster = Cluster(stream)
        cluster.teller.expect_inference()
        looks = threading.Thread(target=cluster.answer, args=(60,), daemon=True)
        looks.start()
        looks.join(60)
        assert not looks.is_alive()


def test_a_look_that_fails_is_the_last(caplog):
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.nodes = lambda: 1 / 0
    cluster.answer(5)
    assert caplog.text.count("inference is not shown any more: division by zero") == 1
