"""The page and the report of a real cluster."""

import json
import re

import pytest

import tfos
from support.programs import nodes as programs
from support.waiting import BOUND_SECONDS, wait_for
from tfos.base.page import PageLink
from tfos.cluster.view.report import Report
from tfos.errors import TfosError


def recorded(html):
    """What a report holds."""
    (text,) = re.findall(r'<script type="application/json" id="recorded">(.*?)</script>', html)
    return json.loads(text)


def doing(cluster, path):
    """What the page says of the driver, by a report."""
    cluster.report(path)
    return recorded(path.read_text())["whole"]["activity"]["doing"]


def test_the_driver_prints_the_link_and_keeps_the_last_report(spark, tmp_path, capsys, leftovers):
    def learn(ctx):
        step = 0
        while not ctx.feed.should_stop():
            ctx.feed.next_batch(10)
            step += 1
            ctx.report(step=step, loss=1 / step)

    with tfos.run(spark, learn, nodes=2, heartbeat_interval=0.1) as cluster:
        assert f"page | {cluster.page_url}" in capsys.readouterr().err
        assert cluster.page_url.partition("#")[0].endswith("/")
        cluster.train(spark.sparkContext.parallelize(range(1000), 2), epochs=2)
        wait_for(
            lambda: all(
                "loss" in node.metrics and node.metrics.get("rss_bytes", 0) > 1e6
                for node in cluster.status()
            ),
            "numbers of programs and processes",
            BOUND_SECONDS,
        )
        cluster.report(tmp_path / "running.html")
        wait_for(lambda: doing(cluster, tmp_path / "fed.html") == "between feeds", "the feed's end")
    cluster.report(tmp_path / "ended.html")

    # It says so between feeds, not at the end alone.
    assert recorded((tmp_path / "fed.html").read_text())["whole"]["activity"]["items_read"] > 0
    running = recorded((tmp_path / "running.html").read_text())
    assert running["whole"]["activity"]["epochs_fed"] == {"input": 2}
    assert "loss" in running["recent"]["series"] and "cpu_seconds" in running["recent"]["series"]
    for node, metrics in running["status"]["metrics"].items():
        for curves in ("recent", "whole"):
            (*_, last) = running[curves]["series"]["loss"]["nodes"][node]
            assert last == pytest.approx(metrics["loss"], rel=1e-5)
    ended = recorded((tmp_path / "ended.html").read_text())
    assert [node["state"] for node in ended["status"]["nodes"]] == ["done", "done"]
    assert sum(metrics["rows"] for metrics in ended["status"]["metrics"].values()) == 2000
    assert ended["whole"]["activity"]["items_read"] > 0
    events = [event["text"] for event in ended["whole"]["events"]]
    assert "every node has ended" in events and "the feed has ended" in events


def test_the_driver_takes_the_last_report_from_beside_it(spark, monkeypatch):
    """The advertised address may be one that this host does not reach itself."""
    asked = []
    fetch = PageLink.fetch_report

    def fetch_and_note(link, timeout):
        asked.append(link.base_url)
        return fetch(link, timeout)

    monkeypatch.setattr(PageLink, "fetch_report", fetch_and_note)
    with tfos.run(spark, programs.return_at_once, nodes=1) as cluster:
        pass
    assert asked == [f"http://127.0.0.1:{cluster.coordinator_address[1]}/"]


def test_without_progress_no_link_is_printed(spark, capsys):
    with tfos.run(spark, programs.return_at_once, nodes=1, progress=False):
        pass
    assert "#key=" not in capsys.readouterr().err


def test_a_coordinator_that_was_killed_leaves_no_report(tmp_path):
    # Nobody listens at port 1 of this host.
    report = Report(PageLink.of("127.0.0.1", 1, "ab" * 32))
    report.keep()
    with pytest.raises(TfosError, match="does not answer"):
        report.write(tmp_path / "none.html")
    assert not list(tmp_path.iterdir())
