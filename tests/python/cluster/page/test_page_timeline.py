"""How the page shows which node did what, and when, in a real browser."""

from __future__ import annotations

from support.page.browsers import browser, complaints
from support.page.shown import metrics
from support.page.simulated_cluster import SimulatedCluster
from support.waiting import wait_for


def told(driver):
    """What each row says of itself to those who can't see it: its name, and its phases."""
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#timeline [role=img]')].map(row => row.ariaLabel)"
    )
    named = (row.partition(": ") for row in rows)
    return {name: [phase.split(",")[0] for phase in said.split("; ")] for name, _, said in named}


def key(driver):
    return driver.execute_script(
        "return [...document.querySelectorAll('.phases-key span')].map(part => part.textContent)"
    )


def test_the_timeline_has_what_each_node_did_and_what_became_of_it(small):
    small.coordinator.send(
        "activity", doing="feeding", items_read=0, items_moved=0, unit="rows", cut_short=False
    )
    small.report(1, **metrics(4, loss="nan"))
    with browser() as driver:
        driver.get(small.link)
        both = ["running", "diverged"]
        wait_for(lambda: told(driver).get("worker:0", [])[-2:] == both, "its phases")
        assert told(driver)["chief:0"][-1] == "running"
        assert told(driver)["driver"] == ["feeding"]
        small.end(0)
        small.end(1)
        wait_for(lambda: told(driver).get("chief:0", [])[-1:] == ["done"], "the end")
        ends = ["trains", "driver", "failed, lost or diverged", "ended"]
        assert [part for part in key(driver) if part != "starts"] == ends
        edges = driver.execute_script(
            "return [...document.querySelectorAll('.phases')].map(row => {"
            "  const parts = [...row.children].map(part => part.getBoundingClientRect());"
            "  return [row.getBoundingClientRect().right - parts.at(-1).right,"
            "          ...parts.slice(1).map((part, at) => part.left - parts[at].right)];"
            "})"
        )
        assert all(abs(gap) < 3 for row in edges for gap in row), "no gap, and up to now"
        assert complaints(driver) == []


def test_of_many_nodes_the_timeline_has_those_that_are_selected():
    with SimulatedCluster(65) as cluster, browser() as driver:
        for node_id in range(65):
            cluster.run(node_id)
        driver.get(cluster.link)
        place = "return document.getElementById('timeline').textContent"
        wait_for(lambda: "Select nodes in the table" in driver.execute_script(place), "the hint")
        driver.execute_script("document.querySelector('tr[data-node=\"2\"]').click()")
        wait_for(lambda: list(told(driver)) == ["driver", "worker:1"], "the selected node")
        assert complaints(driver) == []
