"""The coordinator's page in a real browser, with simulated nodes."""

import json
import os
import re
import signal
import urllib.error
import urllib.request

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support.page.browsers import browser, complaints, looks, text_of, wait_for_looks
from support.page.path_proxy import PathProxy
from support.page.shown import CLICK, cell, charts, heading, metrics, report_all, row, tiles
from support.page.simulated_cluster import SimulatedCluster
from support.waiting import BOUND_SECONDS, wait_for
from tfos.base import keys


def test_shows_nodes_curves_and_events(small):
    small.coordinator.send(
        "activity",
        doing="feeding",
        items_read=384,
        items_moved=0,
        unit="rows",
        cut_short=False,
        epoch=2,
        epochs=4,
        items_before=0,
        items_planned=1536,
    )
    small.coordinator.send("end_epoch", queue="input", epoch=1)
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: "feeding" in text_of(driver, "#doing"), "what the driver is at")
        wait_for(lambda: charts(driver), "curves")
        training = "epoch 2 of 4, step 3, 50 %"
        wait_for(lambda: training in text_of(driver, "#training-text"), "how far the training is")
        bar = driver.find_element(By.CSS_SELECTOR, "#training-done")
        assert float(bar.get_attribute("value")) == 0.5
        assert charts(driver)[:3] == ["loss", "accuracy", "rows"]
        assert {"waits", "feed_queued_bytes", "step", "cpu_seconds", "rss_bytes"} <= {
            *charts(driver)
        }
        assert driver.find_elements(By.CSS_SELECTOR, "[data-chart=loss] canvas")
        assert small.cluster_id in text_of(driver, "header")
        assert text_of(driver, "#name") == "simulated"
        assert text_of(driver, "#state") == "running"
        worker = row(driver, "worker:0")
        assert worker["State"] == "running" and worker["Step"] == "3" and worker["Loss"] == "0.25"
        assert worker["Rows read"] == "384" and worker["Queue"] == "2.0 MB"
        assert "Epoch\n2\nof 4" in text_of(driver, "#tiles")
        assert "384 rows read from Spark" in text_of(driver, "#ledger")
        assert "epoch 2 of the queue 'input' was fed" in text_of(driver, "#events")
        assert "chief:0" in text_of(driver, "#legend")

        driver.execute_script(CLICK, "[data-view=rows]")
        assert row(driver, "chief:0")["Delivered"] == "884"
        assert text_of(driver, "#table tfoot").split() == ["All", "1,768", "768", "1,000"]
        driver.execute_script(CLICK, "[data-view=machine]")
        assert row(driver, "chief:0")["Memory"] == "800 MB"

        report_all(small, 7)
        driver.execute_script(CLICK, "[data-view=training]")
        wait_for(lambda: cell(driver, "worker:0", "Step") == "7", "the next step")
        driver.execute_script(CLICK, "#range-whole")
        wait_for_looks(driver)
        assert charts(driver)
        assert complaints(driver) == []


def test_a_lost_node_is_in_no_mean_and_no_sum_of_what_is_there_now():
    with SimulatedCluster(3, max_lost_nodes=1) as cluster, browser() as driver:
        for node_id in range(3):
            cluster.run(node_id)
        for node_id, (step, loss) in enumerate(((4000, 0.1), (4000, 0.1), (120, 5))):
            cluster.report(node_id, **metrics(step, loss=loss))
        driver.get(cluster.link)
        wait_for(lambda: "0.1 to 5" in tiles(driver).get("Loss, mean", ""), "the worst loss")
        # It is a rate, so it comes with the second sample.
        wait_for(lambda: "CPU of programs" in tiles(driver), "the CPU")
        before = tiles(driver)
        assert before["Step"].startswith("120 to 4,000")
        assert before["Queue"] == "6.0 MB" and "2.4 GB" in before["CPU of programs"]

        cluster.lose(2)
        wait_for(lambda: "1 lost" in tiles(driver)["Nodes"], "the loss of a node")
        wait_for(lambda: tiles(driver)["Loss, mean"] == "0.1", "the loss of those that run")
        after = tiles(driver)
        assert after["Step"].startswith("4,000") and after["Queue"] == "4.0 MB"
        assert "1.6 GB" in after["CPU of programs"]
        # What it has counted stays counted.
        assert after["Rows read"] == before["Rows read"] == f"{128 * 8120:,}"
        assert heading(driver, "loss") == "0.1"
        lost = row(driver, "worker:1")
        assert lost["Step"] == "120" and lost["Loss"] == "5"
        assert lost["Queue"] == lost["Rows/s"] == lost["Waits for rows"] == ""
        assert text_of(driver, "#table tfoot").split()[-2:] == ["4.0", "MB"]
        driver.execute_script(CLICK, "[data-view=machine]")
        assert row(driver, "worker:1")["Memory"] == ""
        assert complaints(driver) == []
        scraped = get(cluster, "/metrics", "scrape")
        assert "# TYPE tfos_node_rows counter" in scraped
        assert re.search(
            r'tfos_node_rows\{node="2",job="worker",task="\d+",host="[^"]*"\} 15360\n', scraped
        )
        assert "tfos_node_rss_bytes{" in scraped and 'tfos_node_rss_bytes{node="2"' not in scraped

        for node_id in range(2):
            cluster.end(node_id)
        wait_for(lambda: text_of(driver, "#state") == "finished", "the end")
        wait_for(lambda: "CPU of programs" not in tiles(driver), "a moment after the end")
        assert tiles(driver)["Step"] == "4,000" and tiles(driver)["Loss, mean"] == "0.1"


def test_a_cluster_that_has_ended_shows_where_it_came_to(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: "CPU of programs" in tiles(driver), "rates")
        for node_id in range(2):
            small.report(node_id, **metrics(9))
            small.end(node_id)
        wait_for(lambda: text_of(driver, "#state") == "finished", "the end")
        wait_for(lambda: tiles(driver)["Loss, mean"] == "0.1", "the last word of the nodes")
        wait_for(lambda: "CPU of programs" not in tiles(driver), "a moment after the end")
        ended = tiles(driver)
        assert ended["Step"] == "9" and ended["Rows read"] == f"{2 * 128 * 9:,}"
        assert ended["Rows/s"] == "0\nended" and ended["Queue"] == "0 B"
        assert heading(driver, "loss") == "0.1"
        assert complaints(driver) == []


GPU_CHARTS = {"gpu_utilization", "gpu_memory_bytes"}


def test_gpus_are_shown_where_nodes_have_some_and_as_long_as_they_are_known(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: charts(driver), "curves")
        assert not GPU_CHARTS & {*charts(driver)}
        assert "GPU use, mean" not in tiles(driver)
        driver.execute_script(CLICK, "[data-view=machine]")
        assert not {"GPU use", "GPU memory"} & row(driver, "chief:0").keys()

        small.report(0, **metrics(5, gpu_utilization=0.25, gpu_memory_bytes=6_000_000_000))
        small.report(1, **metrics(5, gpu_utilization=0.75, gpu_memory_bytes=2_000_000_000))
        wait_for(lambda: {*charts(driver)} >= GPU_CHARTS, "curves of GPUs")
        wait_for(lambda: heading(driver, "gpu_utilization") == "50 % (25 % to 75 %)", "a sample")
        assert heading(driver, "gpu_memory_bytes") == "4.0 GB (2.0 GB to 6.0 GB)"
        assert tiles(driver)["GPU use, mean"] == "50 %"
        chief = row(driver, "chief:0")
        assert chief["GPU use"] == "25 %" and chief["GPU memory"] == "6.0 GB"
        assert 'tfos_node_gpu_utilization{node="1"' in get(small, "/metrics", "scrape")

        small.report(1, **metrics(6))
        wait_for(lambda: cell(driver, "worker:0", "GPU use") == "", "the end of what is known")
        assert row(driver, "worker:0")["GPU memory"] == ""
        assert tiles(driver)["GPU use, mean"] == "25 %\n1 of 2 nodes"
        assert 'tfos_node_gpu_utilization{node="1"' not in get(small, "/metrics", "scrape")
        small.end(0)
        wait_for(lambda: "GPU use, mean" not in tiles(driver), "a node that has ended")
        assert "GPU use" not in row(driver, "chief:0")
        assert complaints(driver) == []


def test_a_number_of_a_parameter_server_has_a_chart_by_a_name_for_people(small):
    small.report(0, parameter_pushes=5, parameter_bytes_sent=9, rows_seen=3)
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: "parameter_pushes" in charts(driver), "its chart")
        shown = charts(driver)
        assert "rows_seen" in shown and "parameter_bytes_sent" not in shown
        assert text_of(driver, "[data-chart=parameter_pushes] h3").startswith("Pushes to")


def test_the_key_leaves_the_line_of_addresses_and_outlives_a_reload(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        assert driver.current_url == f"{small.base_url}/"
        assert driver.get_cookies() == []
        driver.refresh()
        wait_for_looks(driver)


def test_asks_for_the_key_where_it_has_none_or_a_wrong_one(small):
    with browser() as driver:
        driver.get(small.base_url)
        wait_for(lambda: "needs the key" in text_of(driver, "#ask-key"), "the question for the key")
        assert not driver.find_element(By.ID, "content").is_displayed()
        driver.switch_to.active_element.send_keys("0" * 64 + Keys.ENTER)
        wait_for(lambda: "does not open this cluster" in text_of(driver, "#ask-key"), "a refusal")
        driver.switch_to.active_element.send_keys(small.read_key + Keys.ENTER)
        wait_for_looks(driver)
        assert not driver.find_element(By.ID, "ask-key").is_displayed()


def test_shows_a_failure_and_stays_when_the_coordinator_has_gone(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        small.fail(1, "ValueError: <b>no</b> such column", "Traceback ...\n  train.py, line 3")
        wait_for(lambda: text_of(driver, "#state") == "failed", "the failure")
        shown = text_of(driver, "#failure")
        assert "worker:0 on host-000.cluster.example failed to run map_fun" in shown
        assert "ValueError: <b>no</b> such column" in shown
        # The message stands there alone.
        assert row(driver, "worker:0")["State"] == "failed (could not run map_fun)"
        events = text_of(driver, "#events")
        assert "the cluster has failed: worker:0 failed to run map_fun" in events
        assert "no such column" not in events.replace("<b>", "").replace("</b>", "")
        driver.execute_script(CLICK, "#failure-more summary")
        assert "train.py, line 3" in text_of(driver, "#failure")
        assert "the last line" in text_of(driver, "#failure")
        small.coordinator.close()
        wait_for(lambda: "does not answer" in text_of(driver, "#notice"), "word of the end")
        assert row(driver, "worker:0")["Step"] == "3"


def test_shows_a_failure_of_a_cluster_that_ends_at_once(small):
    """As where the driver's program raises because of it, and leaves."""
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        small.fail(1, "ValueError: no such column", "Traceback ...")
        assert small.coordinator.wait_quietly(lambda: small.coordinator.failure, BOUND_SECONDS)
        small.coordinator.close()
        # The page has the end and may take its time to show it. Without it, it says `unknown`.
        wait_for(lambda: text_of(driver, "#state") in ("failed", "unknown"), "the page's end")
        assert text_of(driver, "#state") == "failed"
        assert "ValueError: no such column" in text_of(driver, "#failure")
        wait_for(lambda: "has ended" in text_of(driver, "#notice"), "word of the end")
        assert text_of(driver, "#state") == "failed"


def test_does_not_call_a_cluster_running_that_nobody_answers_for(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        assert text_of(driver, "#state") == "running"
        os.kill(small.coordinator.pid, signal.SIGKILL)
        wait_for(lambda: "does not answer" in text_of(driver, "#notice"), "word of the end")
        state = driver.find_element(By.ID, "state")
        assert state.text == "unknown" and state.get_attribute("class") == "badge unknown"
        assert driver.title.startswith("unknown")


# Each node is told of all others: a million lines, which take a busy machine minutes.
@pytest.mark.timeout(900)
def test_a_thousand_nodes_stay_usable():
    with SimulatedCluster(1000, heartbeat_ms=1000) as cluster:
        for node_id in range(1000):
            cluster.run(node_id)
        report_all(cluster, 5)
        cluster.report(700, **metrics(5, loss=9.5))
        with browser() as driver:
            driver.get(cluster.link)
            wait_for(lambda: row(driver, "chief:0"), "the table")
            in_document = "return document.querySelectorAll('tr.node').length"
            assert driver.execute_script(in_document) < 100
            assert row(driver, "worker:998") is None
            driver.execute_script(CLICK, "[data-sort=loss]")
            first = "return document.querySelector('tr.node').cells[0].innerText"
            wait_for(lambda: driver.execute_script(first) == "worker:699", "the largest loss")
            # By the keyboard: to the filter, to a node, and its curves.
            driver.find_element(By.TAG_NAME, "body").send_keys("/")
            driver.switch_to.active_element.send_keys("host-249")
            assert text_of(driver, "#shown") == "4 of 1000"
            driver.switch_to.active_element.send_keys(Keys.BACKSPACE * 8)
            driver.execute_script("document.querySelector('tr.node').focus()")
            # Not to an element: each look of the page makes the rows anew, and keeps the focus.
            ActionChains(driver).send_keys(Keys.END).perform()
            at = "return Number(document.activeElement.dataset.at)"
            assert driver.execute_script(at) == 999
            ActionChains(driver).send_keys(Keys.ARROW_UP, Keys.ENTER).perform()
            assert driver.execute_script(at) == 998
            picked = driver.execute_script("return document.activeElement.cells[0].innerText")
            assert text_of(driver, "#legend").endswith(picked.strip())
            assert text_of(driver, "#details").startswith(picked.strip())
            assert complaints(driver) == []
            # Its page asks every ten seconds, and the end waits for it.
            cluster.fail(1, "ValueError: no such column", "Traceback ...")
            assert cluster.coordinator.wait_quietly(
                lambda: cluster.coordinator.failure, BOUND_SECONDS
            )
            cluster.coordinator.close()
            # A page that has missed the end says `unknown`.
            wait_for(lambda: text_of(driver, "#state") in ("failed", "unknown"), "the page's end")
            assert text_of(driver, "#state") == "failed"


@pytest.mark.parametrize("dark", [False, True])
def test_fits_a_phone_in_both_colors(small, dark):
    with browser(380, 800, dark=dark) as driver:
        driver.get(small.link)
        wait_for(lambda: charts(driver), "curves")
        widths = "return [document.documentElement.scrollWidth, innerWidth]"
        page, window = driver.execute_script(widths)
        assert page <= window
        back = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
        assert row(driver, "chief:0")["Step"] == "3"


def test_works_below_a_path_of_a_proxy(small):
    """The proxy adds the key, so the browser has none."""
    headers = {"Authorization": f"Bearer {small.read_key}"}
    with (
        PathProxy("/training/", small.base_url, headers) as proxy,
        browser() as driver,
    ):
        driver.get(proxy.url)
        wait_for(lambda: charts(driver), "curves")
        assert row(driver, "worker:0")["Step"] == "3"
        assert complaints(driver) == []


def test_the_way_to_tensorboard_works_below_a_path_of_a_proxy(small):
    with PathProxy("/training/", small.base_url) as proxy, browser() as driver:
        driver.get(f"{proxy.url}tensorboard/")
        assert "TensorBoard" not in text_of(driver, "body")
        driver.get(f"{proxy.url}tensorboard/?key={small.read_key}")
        # There is none here. Without the key, a browser would not be told so.
        wait_for(
            lambda: "TensorBoard does not listen" in text_of(driver, "body"),
            lambda: f"the way in: {driver.current_url}",
        )
        assert driver.current_url == f"{proxy.url}tensorboard/"
        (cookie,) = driver.get_cookies()
        assert cookie["path"] == "/training/tensorboard"
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"


def test_tensorboard_opens_in_a_tab_without_the_key(small):
    small.run(0, tensorboard={"pid": 3, "port": 6006})
    with browser() as driver:
        driver.get(small.link)
        link = driver.find_element(By.ID, "tensorboard")
        wait_for(link.is_displayed, "the link")
        (page,) = driver.window_handles
        keys_in = "return Object.keys(sessionStorage)"
        assert driver.execute_script(keys_in) != []
        link.click()
        wait_for(lambda: len(driver.window_handles) == 2, "the other tab")
        driver.switch_to.window(next(tab for tab in driver.window_handles if tab != page))
        wait_for(lambda: driver.current_url == f"{small.base_url}/tensorboard/", "the way in")
        assert driver.execute_script(keys_in) == []
        assert driver.execute_script("return window.opener") is None


def get(cluster, path, purpose="read"):
    request = urllib.request.Request(f"{cluster.base_url}{path}")
    request.add_header("Authorization", f"Bearer {keys.key_for(cluster.token, purpose)}")
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        return answer.read().decode()


def test_a_report_shows_the_run_without_a_coordinator(small, tmp_path):
    report_all(small, 4)
    wait_for(
        lambda: json.loads(get(small, "/v1/history?range=whole"))["series"].get("loss"), "a sample"
    )
    file = tmp_path / "report.html"
    file.write_text(get(small, "/v1/report"))
    small.coordinator.close()
    with browser() as driver:
        driver.get(file.as_uri())
        wait_for(lambda: looks(driver), "the report")
        assert row(driver, "worker:0")["Step"] == "4"
        assert "loss" in charts(driver)
        assert driver.find_elements(By.CSS_SELECTOR, "[data-chart=loss] canvas")
        driver.execute_script(CLICK, "#range-recent")
        assert "loss" in charts(driver)
        assert not driver.find_element(By.ID, "save").is_displayed()
        assert complaints(driver) == []


def test_nobody_has_the_data_without_the_key(small):
    for path in ("/v1/history", "/v1/report", "/v1/status"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(small.base_url + path, timeout=BOUND_SECONDS)
    with urllib.request.urlopen(small.base_url + "/", timeout=BOUND_SECONDS) as page:
        text = page.read().decode()
        assert page.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert small.cluster_id not in text and small.read_key not in text
