"""A cluster in a notebook: the table of its nodes, one that keeps itself up to date, and what
stands there for the driver's progress line."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable
from html import escape
from typing import Any

from tfos import _native
from tfos.cluster.coordinator import FINAL_STATES
from tfos.cluster.progress import Told, counted, number

logger = logging.getLogger(__name__)

_OF_TFOS = frozenset(_native.known_metrics())
_COLUMNS = ("node", "host", "state", "step", "loss", "rows", "queue MB", "reported")
_COLORS = {"running": "#1a7f37", "failed": "#cf222e", "lost": "#cf222e"}
#: Points of a curve.
_MOST_POINTS = 120
#: The room for a curve, and what its line keeps from the edges, in pixels.
_WIDTH, _HEIGHT, _EDGE = 260, 44, 2
#: What the colours of text and background, light or dark, make visible.
_PALE = "opacity:.7"
#: From here on a number is shown in powers of ten, as a loss that runs away.
_LARGE = 1e15


def status_html(
    cluster_id: str, nodes: list[dict[str, Any]], failure: dict[str, Any] | None = None
) -> str:
    """The table of ``nodes``, as the coordinator gives them, and what has ended the cluster."""
    states = [node["state"] for node in nodes]
    summary = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    heads = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    rows = "".join(_row(node) for node in nodes)
    failed = (
        ""
        if failure is None
        else _colored("pre", f"{failure['step']}: {failure['message']}", "failed")
    )
    return (
        f"<div><b>tfos cluster {escape(cluster_id)}</b>: {escape(summary)}"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{failed}</div>"
    )


def _row(node: dict[str, Any]) -> str:
    metrics = dict(node["metrics"])
    own = [number(metrics[name]) if name in metrics else "" for name in ("step", "loss", "rows")]
    reported = ", ".join(
        f"{name}={number(value)}"
        for name, value in sorted(metrics.items())
        if name != "loss" and name not in _OF_TFOS
    )
    state = told = node["state"]
    if node.get("detail"):
        told += f" ({node['detail']})"
    if node.get("leaving"):
        told += f" ({node['leaving']})"
    cells = [
        _cell(f"{node['job_name']}:{node['task_index']}"),
        _cell(node["host"] or ""),
        _colored("td", told, state),
        *map(_cell, own),
        _cell(
            f"{counted(metrics, 'feed_queued_bytes') / 1e6:,.1f}"
            if "feed_queued_bytes" in metrics and state not in FINAL_STATES
            else ""
        ),
        _cell(reported),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _colored(tag: str, text: str, state: str) -> str:
    return f'<{tag} style="color:{_COLORS.get(state, "inherit")}">{escape(text)}</{tag}>'


class Watch:
    """Shows the cluster's table where it was made, and renews it until the cluster has ended.

    Owner and lifetime: a thread of its own that ends with the cluster, at the look after ``stop``,
    or when the notebook takes no more of it. Threads: any.
    """

    def __init__(
        self,
        html: Callable[[], str],
        ended: threading.Event,
        interval: float,
        show: Callable[[str], Callable[[str], None]] | None = None,
    ):
        """
        Args:
            html: makes the table.
            ended: set when the cluster has.
            interval: seconds between two looks; the table is sent again if it has changed.
            show: shows a table for the first time, and returns what replaces it.
        """
        self._html = html
        self._ended = ended
        self._interval = interval
        self._stopped = False
        #: Held while a table is sent, so that none comes after ``stop``.
        self._sending = threading.Lock()
        self._shown = html()
        self._replace = (show or _show_in_notebook)(self._shown)
        self._thread = threading.Thread(target=self._run, name="tfos-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leaves the table as it is. The thread sees it at its next look."""
        with self._sending:
            self._stopped = True

    def _run(self) -> None:
        over = False
        while not over and not self._stopped:
            over = self._ended.wait(self._interval)
            with self._sending:
                try:
                    table = self._html()
                    if table == self._shown or self._stopped:
                        continue
                    self._replace(table)
                except Exception as error:  # a thread's boundary, and the training is worth more
                    logger.warning("the table of the nodes is not shown any more: %s", error)
                    return
                self._shown = table


class Curve:
    """Values over time, of which a bounded number is kept: when there are too many, every second
    one goes, and half as many are taken from then on. Threads: one at a time. Units: seconds."""

    def __init__(self) -> None:
        self._kept: list[tuple[float, float]] = []
        self._latest: tuple[float, float] | None = None
        self._gap = 0.0  # between two that are kept

    def add(self, now: float, value: Any) -> None:
        """Only a finite number counts."""
        if not isinstance(value, int | float) or not math.isfinite(value):
            return
        self._latest = (now, float(value))
        if self._kept and now - self._kept[-1][0] < self._gap:
            return
        self._kept.append(self._latest)
        if len(self._kept) > _MOST_POINTS:
            self._kept = self._kept[::2]
            self._gap = (self._kept[-1][0] - self._kept[0][0]) / (len(self._kept) - 1)

    def points(self) -> list[tuple[float, float]]:
        """Those that are kept, and the latest."""
        newer = self._latest is not None and self._kept[-1:] != [self._latest]
        return [*self._kept, self._latest] if newer and self._latest else list(self._kept)

    def html(self, title: str) -> str:
        """A small picture with its latest value; nothing before there is a line to draw."""
        points = self.points()
        if len(points) < 2 or points[0][0] == points[-1][0]:
            return ""
        values = [value for _, value in points]
        least, most = min(values), max(values)
        begin, seconds = points[0][0], points[-1][0] - points[0][0]
        across, up = _WIDTH - 2 * _EDGE, _HEIGHT - 2 * _EDGE
        line = " ".join(
            f"{_EDGE + across * (now - begin) / seconds:.1f},"
            f"{_EDGE + up * ((most - value) / (most - least) if most > least else 0.5):.1f}"
            for now, value in points
        )
        said = f"{title} {_short(values[-1])}"
        span = f"{_short(least)} to {_short(most)}"
        return (
            f'<div style="display:inline-block;margin:4px 16px 0 0">'
            f'<div>{escape(said)} <span style="{_PALE}">({escape(span)})</span></div>'
            f'<svg role="img" aria-label="{escape(f"{said}, {span}")}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" style="border-bottom:1px solid rgba(128,128,128,.5)">'
            f'<polyline fill="none" stroke="currentColor" stroke-width="1.5" points="{line}"/>'
            "</svg></div>"
        )


class LiveView:
    """The driver's progress in the cell that waits: a text, a bar, the nodes, and curves of loss
    and rows a second. Each cell that waits has a view of its own, which stays as it was at the
    cell's end. Views are replaced where they are, so a notebook that is saved holds the last one of
    each cell.

    Owner and lifetime: the cluster's :class:`Progress`. Threads: one at a time. Errors: those of
    the notebook, after which it can't be used.
    """

    def __init__(self, cell: Callable[[], Any], display: Callable[[str, str], Callable[..., None]]):
        """
        Args:
            cell: which cell is running.
            display: shows HTML, and text for those who can't, in the running cell; returns what
                replaces them there.
        """
        self._cell = cell
        self._display = display
        self._shown_in: Any = None
        self._replace: Callable[[str, str], None] | None = None
        self._curves = {"loss": Curve(), "rows/s": Curve()}
        self._latest: tuple[Told, float | None] | None = None

    def show(self, told: Told, progress: dict[str, Any] | None) -> None:
        """``progress``: see :meth:`Progress.show`."""
        done = self._take(told, progress or {})
        html, line = self._html(told, done), told.line()
        cell = self._cell()
        if self._replace is None or cell != self._shown_in:
            self._replace, self._shown_in = self._display(html, line), cell
        else:
            self._replace(html, line)

    def settle(
        self, how: str, newer: Told | None = None, progress: dict[str, Any] | None = None
    ) -> None:
        """The cell does not wait any more: what it shows says ``how`` that ended. ``newer``: how it
        is at the end, else what was shown last stays."""
        if self._latest is None or self._replace is None:
            return
        if newer is not None:
            self._take(newer, progress or {})
        (told, done), self._latest = self._latest, None
        told = told._replace(doing=f"{told.doing}: {how}")
        self._replace(self._html(told, done), told.line())

    def _take(self, told: Told, known: dict[str, Any]) -> float | None:
        """Keeps it as the latest, with its point on each curve; how much is done."""
        self._curves["loss"].add(told.seconds, known.get("loss"))
        self._curves["rows/s"].add(told.seconds, known.get("rows_per_second"))
        self._latest = (told, known.get("done"))
        return known.get("done")

    def _html(self, told: Told, done: Any) -> str:
        head = " | ".join([f"{told.seconds:.1f} s", told.doing, *told.sums])
        parts = [
            f"<div><b>tfos</b> {escape(head)}</div>",
            _bar(done),
            "".join(f'<div style="{_PALE}">{escape(node)}</div>' for node in told.nodes),
            *(curve.html(title) for title, curve in self._curves.items()),
        ]
        return f'<div style="line-height:1.5">{"".join(parts)}</div>'


def _bar(done: Any) -> str:
    """How much of the training is done, where that is known."""
    if not isinstance(done, int | float) or not 0 <= done <= 1:
        return ""
    percent = f"{100 * done:.0f}"
    return (
        f'<div role="progressbar" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{percent}" '
        'style="height:6px;margin:3px 0;max-width:540px;background:rgba(128,128,128,.3)">'
        f'<div style="height:6px;width:{percent}%;background:currentColor;{_PALE}"></div></div>'
    )


def _short(value: float) -> str:
    if abs(value) >= _LARGE:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 100 else number(value)


def live_view() -> LiveView | None:
    """None where nothing can be shown but text: outside of the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    return LiveView(lambda: shell.execution_count, _display)


def _show_in_notebook(table: str) -> Callable[[str], None]:
    replace = _display(table, "the nodes, as a table")
    return lambda newer: replace(newer, "the nodes, as a table")


def _display(html: str, text: str) -> Callable[[str, str], None]:
    from IPython.display import display

    def bundle(html: str, text: str) -> dict[str, str]:
        return {"text/html": html, "text/plain": text}

    shown = display(bundle(html, text), raw=True, display_id=True)

    def replace(html: str, text: str) -> None:
        if shown is not None:  # None outside of a notebook, where display prints.
            shown.update(bundle(html, text), raw=True)

    return replace
