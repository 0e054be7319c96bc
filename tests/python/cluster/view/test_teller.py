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

    def answer(self, seconds, rows=100, sessions=1, apart=1.0):
        """That many rows come in each second, with metrics once in so many seconds."""
        for _ in range(int(seconds / apart)):
            self.now += apart
            self.metrics["result_rows"] = self.metrics.get("result_rows", 0) + rows * apart
            self.metrics["feed_sessions"] = sessions
            self.progress |= {"rows_per_second": 100.4 if rows else 0, "waits": "nodes"}
            self.on_metrics()

    def rest(self, seconds):
        self.answer(seconds, rows=0, sessions=0)

    def lines(self):
        return self.stream.getvalue().splitlines()


def line(now, rows):
    return (
        f"tfos  {now:5.1f} s  inferring | {rows:,} rows answered, 100 rows/s, nodes wait for rows"
        " | worker:0 running"
    )


def test_a_line_each_30_seconds():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(70)
    assert cluster.lines() == [line(6, 600), line(36, 3600), line(66, 6600)]
    cluster.rest(60)
    cluster.answer(10)
    assert cluster.lines()[3:] == [line(136, 7600)], "it counts all answers"
    assert cluster.sent == [], "of the page, the coordinator knows as much by itself"


@pytest.mark.parametrize("seconds", [1, 5])
def test_short_ones_are_not_shown(seconds):
    cluster = Cluster()
    cluster.teller.expect_inference()
    for _ in range(5):
        cluster.answer(seconds)
        cluster.rest(20)
    assert cluster.lines() == []


def test_a_pause_between_two_stages_is_no_end():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(3)
    cluster.rest(6)
    cluster.answer(1)
    assert cluster.lines() == [line(10, 400)]


def test_metrics_may_come_seldom():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(120, apart=20.0)
    assert cluster.lines() == [line(40, 4000), line(80, 8000), line(120, 12000)]


def test_what_is_known_of_a_training_before_is_left_out():
    cluster = Cluster()
    cluster.progress = {"epoch": 5, "done": 1.0, "loss": 0.5, "text": "epoch 5, 100 %, loss 0.5"}
    cluster.teller.expect_inference()
    cluster.answer(6)
    assert cluster.lines() == [line(6, 600)]


def test_a_node_that_gives_no_sign_of_life_is_named():
    cluster = Cluster()
    cluster.progress = {"silent": "no sign of life on worker:1 for 9 s"}
    cluster.teller.expect_inference()
    cluster.answer(6)
    assert "rows, no sign of life on worker:1 for 9 s | worker:0 running" in cluster.lines()[0]


def test_a_training_is_no_inference():
    cluster = Cluster()
    cluster.answer(10)
    cluster.teller.expect_inference()
    cluster.answer(10, rows=0)
    with cluster.teller.waiting():
        cluster.teller("feeding")
        cluster.answer(10)
    assert [line.split(" s  ")[1] for line in cluster.lines()] == ["feeding | worker:0 running"]
    cluster.rest(10)
    assert len(cluster.lines()) == 1


def test_no_line_comes_behind_what_the_program_prints_at_its_end():
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.answer(5)
    cluster.answer(1, sessions=0)
    cluster.state = "done"
    cluster.answer(3)
    assert cluster.lines() == []


def test_on_a_terminal_lines_are_whole():
    cluster = Cluster(Terminal())
    cluster.teller.expect_inference()
    cluster.answer(20)
    assert cluster.stream.getvalue() == f"\r\x1b[K{line(6, 600)}\n"


def test_a_view_in_a_notebook_shows_what_cells_wait_for():
    shown = []
    cluster = Cluster(view=LiveView(lambda: 1, lambda *bundle: shown.append(bundle)))
    cluster.teller.expect_inference()
    cluster.answer(60)
    assert shown == [] and cluster.lines() == []


def test_what_stays_of_a_wait_is_as_it_is_at_the_end():
    cells = []

    def display(*bundle):
        cells.append(bundle)
        return lambda *newer: cells.append(newer)

    for cluster in (Cluster(view=LiveView(lambda: 1, display)), Cluster(Terminal())):
        with cluster.teller.waiting():
            for loss in (1.0, 0.5):
                cluster.now += 2
                cluster.progress = {"loss": loss}
                cluster.teller("starting")
            cluster.now += 2
            cluster.metrics["step"] = 9
            cluster.progress = {"text": "step 9", "done": 0.9, "loss": 0.25}
        shown = cells[-1][1] if cells else ""
        if cluster.stream.getvalue():
            shown = cluster.stream.getvalue()
            assert shown.endswith("starting | step 9 | 1 node: 1 running\x1b[K\n")
        else:
            assert shown.endswith("starting: done | step 9 | worker:0 running step=9")
            assert 'aria-valuenow="90"' in cells[-1][0]
            assert "loss 0.25" in text_in(cells[-1][0]), "the curve ends with it, too"


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
        looks = threading.Thread(target=cluster.answer, args=(90,), daemon=True)
        looks.start()
        looks.join(60)
        assert not looks.is_alive()


def test_a_look_that_fails_is_the_last(caplog):
    cluster = Cluster()
    cluster.teller.expect_inference()
    cluster.nodes = lambda: 1 / 0
    cluster.answer(5)
    assert caplog.text.count("inference is not shown any more: division by zero") == 1


def test_a_stream_that_is_no_file_gets_lines_too():
    class Redirected:
        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

        def isatty(self):
            return False

    cluster = Cluster(Redirected())
    cluster.teller.expect_inference()
    cluster.answer(6)
    assert cluster.stream.text == line(6, 600) + "\n"
