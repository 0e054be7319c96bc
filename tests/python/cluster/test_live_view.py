"""What stands in a notebook for the driver's progress line, without a kernel; test_notebook.py has it
in a real one."""

from __future__ import annotations

import io
import math

import pytest

from support.html_text import text_in
from tfos.cluster.notebook import Curve, LiveView, live_view
from tfos.cluster.progress import Progress


def node(**changes):
    return {
        "job_name": "worker",
        "task_index": 0,
        "host": "host-a",
        "state": "running",
        "metrics": {},
        **changes,
    }


class Notebook:
    """Stands for the kernel, and keeps what is shown: HTML and text, by cell."""

    def __init__(self):
        self.now, self.cell, self.shown = 0.0, 1, {}
        self.view = LiveView(lambda: self.cell, self.display)
        self.text = io.StringIO()
        self.progress = Progress(True, stream=self.text, clock=lambda: self.now, view=self.view)

    def display(self, *bundle):
        assert self.cell not in self.shown, "a second view in the same cell"
        shown = self.shown[self.cell] = [bundle]
        return lambda *newer: shown.append(newer)

    def wait(self, *looks, doing="feeding"):
        """A cell in which the driver waits, with what the coordinator says at each look."""
        with self.progress.waiting():
            for known in looks:
                self.now += 2
                self.progress.show([node(metrics={"step": 7})], doing, known)


LOOKS = [
    {"text": f"epoch {epoch} of 4", "done": epoch / 4, "loss": 1 / epoch, "rows_per_second": 50.0}
    for epoch in (1, 2, 3)
]


def test_each_cell_that_waits_keeps_a_view_of_its_own():
    notebook = Notebook()
    notebook.wait(*LOOKS[:2])
    notebook.cell = 2
    notebook.wait(LOOKS[2])
    notebook.cell = 3
    notebook.progress.show([node(state="done")], "ended", LOOKS[2], last=True)
    assert [len(shown) for shown in notebook.shown.values()] == [3, 2, 1]
    last = [
        (text_in(html), text) for html, text in (shown[-1] for shown in notebook.shown.values())
    ]
    assert last[0][1] == "tfos    4.0 s  feeding: done | epoch 2 of 4 | worker:0 running step=7"
    assert last[0][0].startswith("tfos 4.0 s | feeding: done | epoch 2 of 4worker:0 running step=7")
    assert "feeding: done | epoch 3 of 4" in last[1][0]
    assert "ended" in last[2][0] and "worker:0 done" in last[2][0]
    assert notebook.text.getvalue() == "", "nothing is said twice"


def test_a_view_has_a_bar_and_curves_of_what_is_known():
    notebook = Notebook()
    notebook.wait({}, LOOKS[0], *LOOKS)
    first, *_, last, _settled = [shown for shown, _ in notebook.shown[1]]
    assert "progressbar" not in first and "<svg" not in first
    assert 'aria-valuenow="75"' in last and last.count("<svg") == 2
    assert 'aria-label="loss 0.3333, 0.3333 to 1"' in last
    assert "rows/s 50 (50 to 50)" in text_in(last)


def test_a_cell_that_is_stopped_says_so():
    notebook = Notebook()
    with pytest.raises(KeyboardInterrupt), notebook.progress.waiting():
        notebook.now += 2
        notebook.progress.show([], "feeding", LOOKS[0])
        raise KeyboardInterrupt
    assert "feeding: stopped" in text_in(notebook.shown[1][-1][0])


def test_nothing_in_a_view_that_a_node_or_the_driver_says_is_html():
    said = "<script>alert('&')</script>"
    notebook = Notebook()
    nodes = [node(job_name=said, state=said, metrics={"step": said, "loss": said})]
    known = {"text": said, "done": said, "loss": said, "rows_per_second": math.nan}
    with notebook.progress.waiting():
        notebook.progress.show(nodes, said, known)
    for shown, _ in notebook.shown[1]:
        assert "<script" not in shown and "progressbar" not in shown
        assert text_in(shown).count(said) == 6


def test_a_curve_of_any_length_is_small_and_whole():
    curve = Curve()
    assert curve.html("loss") == ""
    for second in range(100_000):
        curve.add(float(second), 1000.0 - second if second else 2000.0)
        curve.add(float(second), math.inf)
    points = curve.points()
    assert len(points) <= 122
    assert points[0] == (0.0, 2000.0) and points[-1] == (99_999.0, -98_999.0)
    gaps = [later - before for (before, _), (later, _) in zip(points, points[1:], strict=False)]
    assert max(gaps) < 100_000 / 50
    assert len(curve.html("loss")) < 2500


def test_a_view_that_cannot_be_shown_becomes_lines(caplog):
    notebook = Notebook()

    def broken(_html, _text):
        raise OSError("the kernel is gone")

    notebook.view._display = broken
    notebook.wait(*LOOKS)
    assert "as text from here on: the kernel is gone" in caplog.text
    (line,) = notebook.text.getvalue().splitlines()
    assert line == "tfos    2.0 s  feeding | epoch 1 of 4 | worker:0 running step=7"


def test_without_a_kernel_there_is_no_view():
    assert live_view() is None
