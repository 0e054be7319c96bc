"""What of the coordinator's page can be read: nothing is cut off, and nothing says too much."""

from __future__ import annotations

import re

import pytest

from support.page.browsers import browser, complaints, looks, text_of, wait_for_looks
from support.page.shown import CLICK, cell, charts, heading, metrics, report_all, tiles
from support.waiting import wait_for

#: Keeps what is written on each canvas, and whether it is cut there.
WATCH_LABELS = """
window.labels = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
  const width = this.measureText(text).width;
  const share = {center: 0.5, right: 1, end: 1}[this.textAlign] || 0;
  const left = this.getTransform().transformPoint({x: x - share * width, y}).x;
  window.labels.push([text, this.canvas, left >= 0 && left + width <= this.canvas.width]);
  return write.call(this, text, x, y, ...more);
};
"""

LABELS_OF = """const box = document.querySelector(`[data-chart=${arguments[0]}]`);
return window.labels.filter(([, canvas]) => box.contains(canvas)).map(([text, , whole]) => [text, whole]);
"""


def labels(driver, chart):
    """Of the axes of a chart: texts, and whether all of each is there."""
    return driver.execute_script(LABELS_OF, chart)


def watch(driver):
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_LABELS})


def check_labels(driver):
    for chart in charts(driver):
        written = labels(driver, chart)
        assert written, chart
        assert [text for text, whole in written if not whole] == [], chart
    moved = [text for text, _ in labels(driver, "collective_bytes_per_second") if "B/s" in text]
    assert any(text.endswith("MB/s") and len(text) >= len("50.0 MB/s") for text in moved), moved


def test_no_label_of_an_axis_is_cut(small, tmp_path):
    for node_id in range(2):
        small.report(
            node_id,
            **metrics(4, loss=1_234_567.25),
            collective_bytes_per_second=87_000_000.0,
            parameter_pushes=123_456_789,
            seconds_without_answer=0,
        )
    with browser() as driver:
        watch(driver)
        driver.get(small.link)
        moved = "collective_bytes_per_second"
        wait_for(lambda: heading(driver, moved) == "174 MB/s", "a sample")
        check_labels(driver)
        file = tmp_path / "report.html"
        file.write_text(
            driver.execute_async_script(
                """const done = arguments[0];
                fetch("v1/report", {headers: {Authorization: `Bearer ${sessionStorage.getItem(
                    `tfos-key ${location.pathname}`)}`}}).then((a) => a.text()).then(done);"""
            )
        )
        driver.get(file.as_uri())
        wait_for(lambda: looks(driver), "the report")
        check_labels(driver)
        assert complaints(driver) == []


#: As while a browser does not know the system's font yet: a canvas that is not shown has another.
OTHER_FONT = """
const measure = CanvasRenderingContext2D.prototype.measureText;
CanvasRenderingContext2D.prototype.measureText = function (text) {
  const width = measure.call(this, text).width;
  return {width: this.canvas.isConnected ? width : 0.5 * width};
};
"""


def test_labels_are_measured_where_they_are_drawn(small):
    for node_id in range(2):
        small.report(node_id, **metrics(4, loss=1_234_567.25), collective_bytes_per_second=87e6)
    with browser() as driver:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": OTHER_FONT})
        watch(driver)
        driver.get(small.link)
        moved = "collective_bytes_per_second"
        wait_for(lambda: heading(driver, moved) == "174 MB/s", "a sample")
        check_labels(driver)
        assert complaints(driver) == []


def lowest(driver, chart):
    """The labels of the y axis, from below."""
    return [text for text, _ in labels(driver, chart) if ":" not in text]


def test_axes_of_times_and_shares_begin_at_zero(small):
    for node_id in range(2):
        small.report(node_id, **metrics(4), seconds_without_answer=0, share_in_collectives=0.5)
    with browser() as driver:
        watch(driver)
        driver.get(small.link)
        wait_for(lambda: "seconds_without_answer" in charts(driver), "the charts")
        assert lowest(driver, "seconds_without_answer")[0] == "0 s"
        for seconds in (20, 24):
            for node_id in range(2):
                small.report(node_id, **metrics(4), seconds_without_answer=seconds)
            wait_for(
                lambda seconds=seconds: f"{seconds} s" in heading(driver, "seconds_without_answer"),
                "the silence",
            )
        driver.execute_script("window.labels.length = 0")
        wait_for_looks(driver)
        assert lowest(driver, "seconds_without_answer")[0] == "0 s"
        assert complaints(driver) == []


#: A run of as many days as it has samples.
STRETCH = """
const json = Response.prototype.json;
Response.prototype.json = async function () {
  const answer = await json.call(this);
  if (answer.times) answer.times = answer.times.map((time, at) => at * 86400000);
  return answer;
};
"""


def test_the_time_of_a_run_of_several_days_has_days_and_a_zone(small):
    for step in range(4, 8):
        report_all(small, step)
    with browser() as driver:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": STRETCH})
        watch(driver)
        driver.get(small.link)
        wait_for(lambda: charts(driver), "curves")
        assert text_of(driver, "#elapsed").endswith(" UTC+05:30")
        days = [text for text, _ in labels(driver, "loss") if re.fullmatch(r"\d\d-\d\d", text)]
        assert len(set(days)) > 1, labels(driver, "loss")
        label = "return tfos.timeLabel(new Date(...arguments[0]), ...arguments[1])"
        midnight, noon = [2026, 10, 29], [2026, 10, 29, 12, 30]
        assert driver.execute_script(label, midnight, [43200, 172800]) == "11-29"
        assert driver.execute_script(label, noon, [43200, 172800]) == "12:30"
        assert driver.execute_script(label, midnight, [3600, 7200]) == "00:00"
        moment = "return tfos.moment(new Date(...arguments[0]), arguments[1])"
        assert driver.execute_script(moment, noon, 86400) == "11-29 12:30"
        assert driver.execute_script(moment, noon, 60) == "12:30:00"
        assert complaints(driver) == []


def tile_rows(driver):
    """How many tiles stand in each row."""
    tops = driver.execute_script(
        "return [...document.querySelectorAll('#tiles > div')].map((tile) => tile.offsetTop)"
    )
    return [tops.count(top) for top in sorted(set(tops))]


@pytest.mark.parametrize("width", [700, 1000, 1400])
def test_no_tile_stands_alone_in_its_row(small, width):
    with browser(width) as driver:
        driver.get(small.link)
        wait_for(lambda: "CPU of programs" in tiles(driver), "rates")
        rows = tile_rows(driver)
        assert sum(rows) == len(tiles(driver)) and max(rows) - min(rows) <= len(rows) - 1, rows
        assert complaints(driver) == []


@pytest.mark.parametrize("view", ["training", "rows", "machine"])
def test_a_phone_has_all_of_each_column_that_it_shows(small, view):
    for node_id in range(2):
        small.report(
            node_id,
            **metrics(706, epoch=26, loss=0.001376),
            share_waiting_for_nodes=0.25,
        )
    with browser(390, 800) as driver:
        driver.get(small.link)
        wait_for(lambda: "CPU of programs" in tiles(driver), "rates")
        driver.execute_script(CLICK, f"[data-view={view}]")
        widths = "const table = document.getElementById('scroller'); return [table.scrollWidth, table.clientWidth]"
        table, room = driver.execute_script(widths)
        assert table <= room
        assert complaints(driver) == []


def test_a_node_that_has_all_its_rows_looks_healthy(small):
    small.coordinator.send("end_feed")
    with browser() as driver:
        driver.get(small.link)
        draining = "draining (all its rows are there)"
        wait_for_looks(driver)
        wait_for(lambda: cell(driver, "worker:0", "State") == draining, "the end of the feed")
        state = (
            "return getComputedStyle(document.querySelector(\"tr[data-node='1'] td.long\")).color"
        )
        good = "return getComputedStyle(document.getElementById('state')).color"
        assert driver.execute_script(state) == driver.execute_script(good)
        assert complaints(driver) == []
