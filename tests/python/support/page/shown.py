"""What nodes of a simulated cluster report, and what its page shows of them."""

from __future__ import annotations

from typing import Any

from support.page.browsers import text_of
from support.page.simulated_cluster import SimulatedCluster
from support.waiting import wait_for

#: What a click changes is there when the script returns, except where the page asks for more.
CLICK = "document.querySelector(arguments[0]).click()"


def metrics(step: int, **more: Any) -> dict[str, Any]:
    """As the feed and a program report them."""
    return {
        "step": step,
        "loss": 1 / (1 + step),
        "accuracy": 1 - 1 / (1 + step),
        "rows": 128 * step,
        "items_delivered": 128 * step + 500,
        "items_unread": 500,
        "feed_queued_bytes": 2_000_000,
        "feed_node_wait_seconds": 0.01 * step,
        "feed_feeder_wait_seconds": 0.001 * step,
        "cpu_seconds": 0.02 * step,
        "rss_bytes": 800_000_000,
        **more,
    }


def report_all(cluster: SimulatedCluster, step: int) -> None:
    """All nodes report, and the coordinator has taken it."""
    for node_id in range(len(cluster.agents)):
        cluster.report(node_id, **metrics(step))
    wait_for(
        lambda: all(node["metrics"].get("step") == step for node in cluster.coordinator.nodes()),
        f"step {step}",
    )


def row(driver: Any, name: str) -> dict[str, str] | None:
    """The cells of a node's row, by the titles of their columns."""
    return driver.execute_script(
        """const heads = [...document.querySelectorAll("#table th")].map((th) => th.innerText);
        const row = [...document.querySelectorAll("tr.node")].find(
            (tr) => tr.cells[0].innerText.trim() === arguments[0]);
        return row && Object.fromEntries(
            [...row.cells].map((cell, at) => [heads[at].trim(), cell.innerText.trim()]));""",
        name,
    )


def cell(driver: Any, name: str, title: str) -> str | None:
    """What a node's row has in a column; None as long as there is no such row or column."""
    return (row(driver, name) or {}).get(title)


def charts(driver: Any) -> list[str]:
    script = "return [...document.querySelectorAll('[data-chart]')].map((c) => c.dataset.chart)"
    return driver.execute_script(script)


def tiles(driver: Any) -> dict[str, str]:
    """What the summary says, by title."""
    return driver.execute_script(
        """return Object.fromEntries([...document.querySelectorAll("#tiles > div")].map(
            (tile) => [tile.querySelector("dt").innerText, tile.querySelector("dd").innerText]));"""
    )


def heading(driver: Any, chart: str) -> str:
    return text_of(driver, f"[data-chart={chart}] h3 span")
