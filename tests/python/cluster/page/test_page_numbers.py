"""What the coordinator's page makes of numbers and events, in a real browser."""

from __future__ import annotations

import re

from support.page.browsers import browser, complaints, text_of, wait_for_looks
from support.page.shown import CLICK, cell, charts, heading, metrics, row, tiles
from support.page.simulated_cluster import SimulatedCluster
from support.waiting import wait_for


def test_a_node_that_does_not_answer_is_named(small):
    small.report(1, **metrics(5, seconds_without_answer=24))
    with browser() as driver:
        driver.get(small.link)
        silent = "no sign of life on worker:0 for 24 s"
        wait_for(lambda: silent in text_of(driver, "#training-text"), "word of the silence")
        assert row(driver, "worker:0")["State"] == "running (no sign of life for 24 s)"
        assert row(driver, "chief:0")["State"] == "running"
        # The driver's line has it a heartbeat later.
        wait_for(lambda: small.coordinator.progress["silent"] == silent, "word of it in the driver")
        assert complaints(driver) == []
        small.report(1, **metrics(5, seconds_without_answer=0))
        wait_for(lambda: cell(driver, "worker:0", "State") == "running", "its answer")
        assert "sign of life" not in text_of(driver, "#training-text")


def style(driver, selector):
    return driver.execute_script("return document.querySelector(arguments[0]).className", selector)


def test_a_node_that_does_not_answer_does_not_look_healthy(small):
    small.report(1, **metrics(5, seconds_without_answer=24))
    with browser() as driver:
        driver.get(small.link)
        badge = "running, no sign of life"
        wait_for(lambda: text_of(driver, "#state") == badge, "the badge")
        assert style(driver, "#state") == "badge silent"
        assert "silent" in style(driver, "tr[data-node='1'] td.long")
        assert "running" in style(driver, "tr[data-node='0'] td.long")
        assert "no sign of life" in text_of(driver, "#events")
        small.report(1, **metrics(5, seconds_without_answer=0))
        wait_for(lambda: text_of(driver, "#state") == "running", "its answer")
        assert "signs of life again" in text_of(driver, "#events")
        assert complaints(driver) == []


def test_a_training_that_has_diverged_does_not_look_healthy(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: heading(driver, "loss") == "0.25", "a healthy loss")
        assert text_of(driver, "#state") == "running"
        small.report(1, **metrics(4, loss="nan"))
        wait_for(lambda: text_of(driver, "#state") == "running, diverged", "the badge")
        assert style(driver, "#state") == "badge diverged"
        assert row(driver, "worker:0")["State"] == "running (loss nan)"
        assert "diverged" in style(driver, "tr[data-node='1'] td.long")
        assert row(driver, "chief:0")["State"] == "running"
        since = r"nan since 0:\d\d on worker:0; the others 0.25"
        wait_for(lambda: re.fullmatch(since, heading(driver, "loss")), "since when")
        small.report(0, **metrics(4, loss="nan"))
        wait_for(lambda: cell(driver, "chief:0", "State") == "running (loss nan)", "the other one")
        small.end(0)
        small.end(1)
        wait_for(lambda: text_of(driver, "#state") == "finished, diverged", "the badge of the end")
        ended = r"nan since 0:\d\d; last number 0.25"
        wait_for(lambda: re.fullmatch(ended, heading(driver, "loss")), "what it was before")
        assert style(driver, "#state") == "badge diverged"
        assert complaints(driver) == []


def test_a_loss_that_is_no_number_from_the_first_step_on_has_a_chart():
    with SimulatedCluster(2) as cluster, browser() as driver:
        for node_id in range(2):
            cluster.run(node_id)
            cluster.report(node_id, **metrics(1, loss="inf"))
        driver.get(cluster.link)
        wait_for(lambda: charts(driver)[:1] == ["loss"], "its chart")
        since = r"inf since 0:\d\d"
        wait_for(lambda: re.fullmatch(since, heading(driver, "loss")), "since when")
        assert complaints(driver) == []


def test_a_node_says_that_it_waits_for_the_first_of_its_rows():
    waits = {"rows": 0, "feed_chunks": 0, "feed_node_wait_seconds": 3.5}
    with SimulatedCluster(2) as cluster, browser() as driver:
        for node_id in range(2):
            cluster.run(node_id)
            cluster.report(node_id, **waits)
        driver.get(cluster.link)
        waiting = "waiting for the first rows"
        wait_for(lambda: waiting in text_of(driver, "#training-text"), "what the nodes do")
        assert row(driver, "worker:0")["State"] == f"running ({waiting})"
        wait_for(
            lambda: cluster.coordinator.progress["nodes"] == waiting, "word of it in the driver"
        )
        cluster.report(1, **waits | {"feed_chunks": 1})
        has_rows = "running (no row read yet)"
        wait_for(lambda: cell(driver, "worker:0", "State") == has_rows, "rows to read")
        cluster.report(1, **waits | {"feed_chunks": 1, "rows": 9})
        wait_for(lambda: cell(driver, "worker:0", "State") == "running", "the first rows")
        assert complaints(driver) == []


def test_no_total_falls_when_a_node_comes_in_place_of_a_lost_one():
    with SimulatedCluster(3, min_nodes=1) as cluster, browser() as driver:
        for node_id in range(3):
            cluster.run(node_id)
            cluster.report(node_id, **metrics(10))
        driver.get(cluster.link)
        wait_for(lambda: tiles(driver).get("Rows read") == "3,840", "the rows of three nodes")
        cluster.lose(2)
        wait_for(lambda: "lost" in (cell(driver, "worker:1", "State") or ""), "the loss")
        cluster.come_again(2)
        wait_for(lambda: "registered" in (cell(driver, "worker:1", "State") or ""), "the other one")
        assert tiles(driver)["Rows read"] == "3,840"
        cluster.run(2)
        cluster.report(2, **metrics(1))
        wait_for(lambda: tiles(driver)["Rows read"] == "3,968", "the other one's first rows")
        assert text_of(driver, "#table tfoot td:nth-child(6)") == "3,968"
        assert tiles(driver)["Step"].split()[0] == "10"
        assert "step 10," in text_of(driver, "#training-text")
        assert complaints(driver) == []


def test_step_and_loss_above_the_table_are_those_of_nodes_that_train():
    with SimulatedCluster(3, evaluator=True) as cluster, browser() as driver:
        for node_id, (step, loss) in enumerate(((100, 0.1), (100, 0.1), (7000, 0.5))):
            cluster.run(node_id)
            cluster.report(node_id, **metrics(step, loss=loss))
        driver.get(cluster.link)
        wait_for(lambda: cell(driver, "evaluator:0", "Loss") == "0.5", "what it reports")
        wait_for(lambda: "loss 0.1000" in text_of(driver, "#training-text"), "the text")
        assert tiles(driver)["Step"].split("\n")[0] == "100"
        assert tiles(driver)["Loss, mean"] == "0.1"
        cluster.end(0)
        cluster.end(1)
        wait_for(lambda: cell(driver, "worker:0", "State") == "done", "the end of the training")
        assert row(driver, "evaluator:0")["State"] == "running"
        assert tiles(driver)["Step"].split("\n")[0] == "100"
        assert tiles(driver)["Loss, mean"] == "0.1"
        assert complaints(driver) == []


def test_a_program_may_call_a_metric_as_the_page_calls_its_own(small):
    with browser() as driver:
        driver.get(small.link)
        wait_for(lambda: "waits" in charts(driver), "the chart of the waits")
        small.report(0, **metrics(4), waits=3, host=17)
        wait_for(lambda: charts(driver).count("waits") == 2, "the chart of the program's number")
        titles = driver.execute_script(
            "return [...document.querySelectorAll('[data-chart=waits] h3')].map((h) => h.innerText)"
        )
        assert titles[0].startswith("waits") and titles[1].startswith("Waiting")
        driver.execute_script(CLICK, "[data-view=machine]")
        driver.execute_script(CLICK, "tr[data-node='0']")
        wait_for(lambda: "17" in text_of(driver, "#details"), "the program's number")
        assert "host-000.cluster.example" in text_of(driver, "#details")
        assert complaints(driver) == []


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
        wait_for(lambda: cell(driver, "worker:0", "Waits for rows") == "100 %", "its share")
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
        small.report(1, **metrics(4), share_waiting_for_nodes=0.93)
        wait_for(lambda: cell(driver, "worker:0", "Waits for nodes") == "93 %", "the fast node")
        assert row(driver, "chief:0")["Waits for nodes"] == "13 %"
        small.report(1, **metrics(4, seconds_without_answer=7))
        silent = "seconds_without_answer"
        wait_for(lambda: silent in charts(driver), "a silence")
        wait_for(lambda: heading(driver, silent) == "worker:0 7 s", "its node")
        # What it said of its work before holds no longer.
        assert row(driver, "worker:0")["Waits for nodes"] == ""
        wait_for(lambda: heading(driver, "share_waiting_for_nodes") == "13 %", "a sample")
        assert complaints(driver) == []
