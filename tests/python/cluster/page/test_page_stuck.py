"""What the page shows of nodes that stand still and of those that have not begun, in a real browser.

The coordinator says so only after a long time, so these are reports of a run with its words in them.
"""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request

from selenium.webdriver.common.by import By

from support.page.browsers import browser, complaints, looks, text_of
from support.page.shown import metrics, row
from support.waiting import BOUND_SECONDS, wait_for

_RECORDED = re.compile(r'(<script type="application/json" id="recorded">)(.*?)(</script>)', re.S)


@contextlib.contextmanager
def report_with(small, tmp_path, change):
    """A browser with the report of ``small``, after ``change`` of what it holds."""
    request = urllib.request.Request(
        small.base_url + "/v1/report", headers={"Authorization": f"Bearer {small.read_key}"}
    )
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        html = answer.read().decode()
    recorded = json.loads(_RECORDED.search(html)[2])
    change(recorded)
    text = json.dumps(recorded)
    file = tmp_path / "report.html"
    file.write_text(_RECORDED.sub(lambda found: found[1] + text + found[3], html))
    with browser() as driver:
        driver.get(file.as_uri())
        wait_for(lambda: looks(driver), "the report")
        yield driver
        assert complaints(driver) == []


def bars(driver, name):
    """The classes of a row's bars in the timeline."""
    return driver.execute_script(
        """const row = [...document.querySelectorAll('.phases-row')].find(
            (row) => row.querySelector('.phases-name').textContent === arguments[0]);
        return [...row.querySelectorAll('.phase')].map((bar) => bar.className.split(' ')[1]);""",
        name,
    )


def test_a_node_that_makes_no_steps_any_more_does_not_look_healthy(small, tmp_path):
    stuck = "no step on worker:0 for 1:10"

    def change(recorded):
        status = recorded["status"]
        status["progress"] |= {"stuck": stuck, "text": f"step 3, {stuck}"}
        status["metrics"]["1"]["seconds_without_step"] = 70
        status["nodes"][1]["detail"] = "no step for 1:10"
        recorded["whole"]["phases"]["1"] = [[0, "running", ""], [1, "stuck", ""]]

    with report_with(small, tmp_path, change) as driver:
        assert text_of(driver, "#state") == "running, no step"
        assert "silent" in driver.find_element(By.ID, "state").get_attribute("class")
        assert stuck in text_of(driver, "#training-text")
        assert row(driver, "worker:0")["State"] == "running (no step for 1:10)"
        state = driver.find_element(By.CSS_SELECTOR, "tr[data-node='1'] td.long")
        assert "silent" in state.get_attribute("class")
        assert bars(driver, "worker:0") == ["phase-train", "phase-warn"]


def test_the_timeline_tells_the_beginning_from_the_training(small, tmp_path):
    begins = [
        ["registered", "waiting for the other nodes"],
        ["starting", "importing the program"],
        ["starting", "importing TensorFlow"],
        ["running", "importing TensorFlow"],
        ["running", ""],
        ["running", "no row read yet"],
        ["draining", "all its rows are there"],
        ["running", "waiting for the first rows"],
        ["running", "first step (tracing)"],
        ["running", ""],
        ["running", "first step (tracing)"],
        ["draining", "all its rows are there"],
    ]

    def change(recorded):
        past = recorded["whole"]
        past["now_ms"] = 1000 * len(begins)
        past["phases"]["0"] = [[1000 * at, *phase] for at, phase in enumerate(begins)]
        past["phases"]["1"] = [[0, "running", ""], [1000, "draining", ""]]

    with report_with(small, tmp_path, change) as driver:
        assert bars(driver, "chief:0") == [
            *["phase-start"] * 2,
            *["phase-import"] * 2,
            *["phase-start"] * 3,
            "phase-wait",
            "phase-first",
            "phase-train",
            "phase-first",
            "phase-train",
        ]
        assert bars(driver, "worker:0") == ["phase-train"] * 2, "of a program that says nothing"
        key = text_of(driver, ".phases-key")
        for words in ("imports TensorFlow", "waits for the first rows", "first step", "trains"):
            assert words in key


def test_phases_that_are_not_remembered_are_no_part_of_those_around_them(small, tmp_path):
    def change(recorded):
        past = recorded["whole"]
        past["now_ms"] = 4000
        begins = ["starting", "importing TensorFlow"], ["forgotten", ""], ["running", ""]
        past["phases"]["0"] = [[1000 * at, *phase] for at, phase in enumerate(begins)]

    with report_with(small, tmp_path, change) as driver:
        assert bars(driver, "chief:0") == ["phase-import", "phase-forgotten", "phase-train"]
        assert "not remembered" in text_of(driver, ".phases-key")


def test_where_neither_side_waits_the_page_names_what_looks_into_the_program(small):
    def report(step, **more):
        for node_id in range(2):
            small.report(node_id, **metrics(step, **more))

    no_waits = {"feed_node_wait_seconds": 0.1, "feed_feeder_wait_seconds": 0.0}
    small.coordinator.send(
        "activity", doing="feeding", items_read=0, items_moved=0, unit="rows", cut_short=False
    )
    with browser() as driver:
        driver.get(small.link)
        step = iter(range(4, 1_000_000))

        def advice():
            report(next(step), **no_waits)
            return text_of(driver, "#advice")

        wait_for(lambda: "tfos profile chief:0 says with what" in advice(), "the advice")

        def rate():
            small.report(0, **metrics(next(step), **no_waits))
            small.report(1, **metrics(next(step), **no_waits, seconds_without_answer=5))
            return row(driver, "worker:0")["Rows/s"]

        wait_for(lambda: rate() == "", "what does not answer has no rates")
        assert not driver.find_element(By.ID, "advice").is_displayed(), "a node stands still"
        assert row(driver, "chief:0")["Rows/s"] != ""
        assert complaints(driver) == []
