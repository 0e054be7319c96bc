"""A cluster in a notebook: the table of its nodes, and one that keeps itself up to date."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from html import escape
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES
from tfos.cluster.progress import counted, number

logger = logging.getLogger(__name__)

_COLUMNS = ("node", "host", "state", "step", "loss", "rows", "queue MB", "reported")
#: What the feed reports for each node, beside what its program does.
_OF_THE_FEED = (
    "feed_",
    "items_",
    "cache_",
    "rows",
    "result_rows",
    "batches",
    "cpu_seconds",
    "rss_bytes",
)
_COLORS = {"running": "#1a7f37", "failed": "#cf222e", "lost": "#cf222e"}


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
        if name not in ("step", "loss", "progress") and not name.startswith(_OF_THE_FEED)
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


def _show_in_notebook(table: str) -> Callable[[str], None]:
    from IPython.display import HTML, display

    shown = display(HTML(table), display_id=True)
    # None outside of a notebook, where display prints.
    return (lambda newer: shown.update(HTML(newer))) if shown is not None else (lambda _newer: None)
