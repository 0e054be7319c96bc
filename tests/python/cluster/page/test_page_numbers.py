"""What the coordinator's page makes of numbers and events, in a real browser."""

from __future__ import annotations

import re

from support.page.browsers import browser, complaints, text_of, wait_for_looks
from support.page.shown import charts, heading, metrics, row, tiles
from support.waiting import wait_for


def test_a_node_that_does_not_answer_is_named(small):
    small.report(1, **metrics(5, seconds_without_answer=24))
    with browser() as driver:
        driver.get(small.link)
        silent = "no sign of life on worker:0 for 24 s"
        wait_for(lambda: silent in text_of(driver, "#training-text"), "word of the silence")
        assert row(driver, "worker:0")["State"] == "running (no sign of life for 24 s)"
        assert row(driver, "chief:0")["State"] == "running"
        assert small.coordinator.progress["silent"] == silent
        assert complaints(driver) == []
        small.report(1, **metrics(5, seconds_without_answer=0))
        wait_for(lambda: row(driver, "worker:0")["State"] == "running", "its answer")
        assert "sign of life" not in text_of(driver, "#training-text")


def whole(text):
    return round(float(text.replace(",", "")))


def test_numbers_of_one_moment_agree(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: "CPU of programs" in tiles(driver), "rates")
        for step in range(10, 200, 10):
            for node_id in range(2):
                small.report(node_id, **metrics(step + node_id))
            shown = driver.execute_script(
                """const text = (selector) => document.querySelector(selector).innerText;
                return [text("#training-text"), text("#tiles"), text("#table tbody"),
                        text("#table tfoot")];"""
            )
            training, numbers, nodes, sums = shown
            (at,) = re.findall(r"step ([\d,]*\d)", training)
            assert re.search(rf"Step\n{at}( to [\d,]+)?\n", numbers), shown
            assert re.search(rf"chief:0\t.*\trunning\t{at}\t", nodes), shown
            (rate,) = re.findall(r"([\d.,]+) rows/s", training)
            (tile,) = re.findall(r"Rows/s\n([\d,]+)", numbers)
            assert abs(whole(rate) - whole(tile)) <= 1, shown
            assert tile in sums.split(), shown
            if step % 50 == 0:
                wait_for_looks(driver)
        assert complaints(driver) == []


def test_no_node_waits_for_more_than_all_of_the_time(small):
    """A late heartbeat brings the waits of a longer time than it is measured over."""
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: "CPU of programs" in tiles(driver), "rates")
        small.report(1, **metrics(4, feed_node_wait_seconds=1000, feed_feeder_wait_seconds=900))
        wait_for(lambda: row(driver, "worker:0")["Waits for rows"] == "100 %", "its share")
        assert complaints(driver) == []


def events(driver):
    script = "return [...document.querySelectorAll('#events span')].map((event) => event.innerText)"
    return driver.execute_script(script)


def test_short_epochs_push_no_other_event_out(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for_looks(driver)
        small.report(1, **metrics(4, loss="nan"))
        wait_for(lambda: "worker:0: its loss is nan" in events(driver), "the event")
        for epoch in range(2, 57):
            small.coordinator.send("end_epoch", queue="input", epoch=epoch)
        fed = "epochs 3 to 57 of the queue 'input' were fed"
        wait_for(lambda: events(driver)[0] == fed, "the epochs")
        small.coordinator.send("end_epoch", queue="input", epoch=57)
        fed = fed.replace("57", "58")
        wait_for(lambda: events(driver)[0] == fed, "one more")
        assert events(driver)[1] == "worker:0: its loss is nan"
        assert not [event for event in events(driver)[1:] if "epoch" in event]
        assert "earlier events" not in text_of(driver, "#events")
        assert complaints(driver) == []


def test_collective_operations_have_charts_with_names_for_people(small):
    shares = {"share_in_collectives": 0.25, "share_waiting_for_nodes": 0.125}
    for node_id in range(2):
        small.report(node_id, **metrics(4), **shares, collective_bytes_per_second=2_000_000)
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: {*shares} <= {*charts(driver)}, "the charts")
        shown = charts(driver)
        assert shown.index("waits") < shown.index("share_in_collectives") < shown.index("rss_bytes")
        wait_for(lambda: heading(driver, "share_in_collectives") == "25 %", "a sample")
        title = text_of(driver, "[data-chart=share_waiting_for_nodes] h3")
        assert title.startswith("Time waiting for other nodes")
        assert heading(driver, "collective_bytes_per_second") == "4.0 MB/s"
        small.report(1, **metrics(4, seconds_without_answer=7))
        silent = "seconds_without_answer"
        wait_for(lambda: silent in charts(driver), "a silence")
        wait_for(lambda: heading(driver, silent) == "worker:0 7 s", "its node")
        assert complaints(driver) == []
