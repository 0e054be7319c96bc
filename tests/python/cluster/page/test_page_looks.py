"""What looks of the page leave to its reader, and what it says where they fail, in a browser."""

from __future__ import annotations

import json
import os
import signal
import urllib.request

from selenium.webdriver.common.by import By

from support.page.browsers import browser, complaints, text_of, wait_for_looks
from support.page.path_proxy import PathProxy
from support.page.shown import CLICK, report_all
from support.page.simulated_cluster import SimulatedCluster
from support.waiting import BOUND_SECONDS, wait_for

#: The page waits half a minute for an answer.
LESS_PATIENCE = """
const timeout = AbortSignal.timeout;
AbortSignal.timeout = (time) => timeout.call(AbortSignal, time / 10);
"""

EVENTS = "return [...document.querySelectorAll('#events li span')].map((e) => e.textContent)"


def test_does_not_call_a_cluster_running_whose_coordinator_stands_still(small):
    """The system takes the connections, as the near end of a tunnel does. Nobody answers."""
    with browser() as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LESS_PATIENCE})
        driver.get(small.link)
        wait_for(lambda: text_of(driver, "#state") == "running", "the page")
        os.kill(small.coordinator.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: text_of(driver, "#state") == "unknown", "word of the silence")
            assert driver.title.startswith("unknown")
            assert "does not answer" in text_of(driver, "#notice")
        finally:
            os.kill(small.coordinator.pid, signal.SIGCONT)
        wait_for(lambda: text_of(driver, "#state") == "running", "its next answer")
        assert text_of(driver, "#notice") == ""


def test_another_cluster_behind_the_same_address_is_not_taken_for_the_first(small):
    def bearer(cluster):
        return {"Authorization": f"Bearer {cluster.read_key}"}

    with (
        SimulatedCluster(3) as other,
        PathProxy("/", small.base_url, bearer(small)) as proxy,
        browser() as driver,
    ):
        small.coordinator.send("end_epoch", queue="of the first", epoch=0)
        other.run(2)
        driver.get(proxy.url)
        wait_for(lambda: "of the first" in text_of(driver, "#events"), "its events")
        assert text_of(driver, "#state") == "running"
        proxy.target = other.base_url
        wait_for(lambda: "needs the key" in text_of(driver, "#ask-key"), "the question for the key")
        assert text_of(driver, "#state") == "unknown" and driver.title.startswith("unknown")
        proxy.headers = bearer(other)
        driver.switch_to.active_element.send_keys(other.read_key)
        driver.find_element(By.CSS_SELECTOR, "#ask-key button").click()
        wait_for(lambda: other.cluster_id in text_of(driver, "header"), "the other cluster")
        request = urllib.request.Request(f"{other.base_url}/v1/history", headers=bearer(other))
        with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
            events = [event["text"] for event in json.load(answer)["events"]]
        assert events
        wait_for(
            lambda: driver.execute_script(EVENTS) == events[::-1],
            lambda: f"{events}: {driver.execute_script(EVENTS)}",
        )


SELECT = """const range = document.createRange();
range.selectNodeContents(document.querySelector(arguments[0]));
getSelection().removeAllRanges();
getSelection().addRange(range);"""
SELECTED = "return getSelection().toString()"
FOCUSED = "return document.activeElement.textContent"


def test_a_look_leaves_selection_and_focus_where_they_are(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        driver.execute_script(CLICK, "tr[data-node='1']")
        driver.execute_script("document.querySelector('#legend button').focus()")
        selectors = ("#details dd", "tr[data-node='1'] td", "#cluster")
        for step, selector in enumerate(selectors, start=46):
            driver.execute_script(SELECT, selector)
            selected = driver.execute_script(SELECTED)
            assert selected
            report_all(small, step)
            wait_for_looks(driver, 2)
            assert driver.execute_script(SELECTED) == selected, selector
            assert driver.execute_script(FOCUSED) == "chief:0"
        assert text_of(driver, "#details dl").endswith("step\n48"), "its numbers follow"
        # What readers of screens read again is the name and the state.
        assert text_of(driver, "#details [aria-live]").split()[0] == "worker:0"
        assert "step\n48" not in text_of(driver, "#details [aria-live]")
        small.fail(1, "ValueError: no such column", "Traceback ...\n  train.py, line 3")
        wait_for(lambda: text_of(driver, "#state") == "failed", "the failure")
        driver.execute_script(CLICK, "#failure-more summary")
        driver.execute_script(SELECT, "#failure-text")
        selected = driver.execute_script(SELECTED)
        assert "train.py" in selected
        wait_for_looks(driver, 2)
        assert driver.execute_script(SELECTED) == selected
        assert complaints(driver) == []


#: How many processes' output a panel begins with, one call of `show` for each of the nodes given.
BEGINNINGS = """
let begun = 0;
const live = {get: (path) => {
  if (path.includes("lines=")) begun += 1;
  return new Promise(() => {});
}};
const panel = new tfos.Panel(document.createElement("section"), live, () => {});
const node = {node_id: 1, job_name: "worker", task_index: 0, state: "running", gpus: []};
for (const [pid, host] of arguments[0]) panel.show({...node, pid, host, executor_id: "1"});
return begun;
"""


def test_a_node_that_comes_again_begins_its_output_anew(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)

        def beginnings(*processes):
            return driver.execute_script(BEGINNINGS, processes)

        assert beginnings((7, "a"), (7, "a")) == 1
        assert beginnings((0, "a"), (7, "a")) == 1, "its first process"
        assert beginnings((7, "a"), (8, "a")) == 2
        assert beginnings((7, "a"), (0, "a"), (8, "a")) == 2, "it was seen without a process"
        assert beginnings((7, "a"), (7, "b")) == 2, "in two containers"
