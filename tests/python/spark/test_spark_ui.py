"""What the driver tells Spark's UI of a cluster, and when (tfos.spark.ui)."""

from __future__ import annotations

import json
import logging
import types

import pytest

from tfos.spark import ui
from tfos.spark.ui import ClusterTab, EventMaker, Pace
from tfos.spark.ui_channel import ui_address

KEY = "0" * 64


def node(task_index, **fields):
    return {
        "node_id": task_index,
        "job_name": "worker",
        "task_index": task_index,
        "state": "running",
        "detail": "",
        "host": "host-a",
        "address": "10.0.0.6",
        "executor_id": "1",
        "feed": {"socket": "tfos-x", "port": 1},
        "metrics": {},
        **fields,
    }


@pytest.fixture
def cluster():
    """A cluster of one node that has just formed."""
    nodes = [node(0)]

    def lines(*, is_last):
        return [f"ledger | line {n}{' at last' if is_last else ''}" for n in range(80)]

    ledger = types.SimpleNamespace(lines=lines)
    return types.SimpleNamespace(
        node=nodes[0],
        nodes=lambda: nodes,
        formed=True,
        progress={},
        failure=None,
        was_stopped=False,
        ledger=lambda: ledger,
        now=100.0,
        jump=0.0,
    )


@pytest.fixture
def maker(cluster):
    return EventMaker(
        "abc",
        "http://h:1/",
        cluster,
        cluster.ledger,
        clock=lambda: cluster.now + cluster.jump,
        ticks=lambda: cluster.now,
    )


def test_says_what_is_known_and_leaves_the_rest_out(cluster, maker):
    cluster.now += 2.5
    cluster.progress = {"epoch": 1, "text": "epoch 1", "loss": float("nan"), "waits": "nodes"}
    cluster.node["metrics"] = {"step": 3, "secret": "of the program"}
    event = maker.look(over=False)
    assert event["id"] == "abc" and event["page"] == "http://h:1/"
    assert (event["began_ms"], event["time_ms"], event["state"]) == (100_000, 102_500, "running")
    assert event["progress"] == {"epoch": 1, "text": "epoch 1", "loss": "nan"}
    assert event["nodes"] == [
        {"name": "worker:0", "host": "host-a", "executor": "1", "state": "running", "step": 3}
    ]
    assert event["ledger"][0] == "line 0" and len(event["ledger"]) == 50
    assert maker.look(over=True)["ledger"][0] == "line 0 at last"
    json.dumps(event, allow_nan=False)


def test_rates_are_over_some_seconds_and_none_is_left_at_the_end(cluster, maker):
    def rates(rows, over=False):
        cluster.node["metrics"] = {"rows": rows, "step": "no number"}
        (told,) = maker.look(over)["nodes"]
        assert "steps_per_second" not in told
        return told.get("rows_per_second")

    assert rates(0) is None
    cluster.now += 1
    assert rates(50) is None
    cluster.now += 4
    assert rates(500) == 100
    cluster.now += 1
    assert rates(900) == 100
    cluster.now += 9
    assert rates(700) == 20
    cluster.now += 10
    assert rates(0) == 0  # Another process in the node's place counts anew.
    assert rates(0, over=True) is None


def test_a_wall_clock_that_is_set_back_does_not_stop_rates(cluster, maker):
    for rows, jump in ((0, 0.0), (500, -3600.0)):
        cluster.node["metrics"] = {"rows": rows}
        cluster.jump = jump
        (told,) = maker.look(over=False)["nodes"]
        cluster.now += 5
    assert told["rows_per_second"] == 100


def test_what_grew_between_two_heartbeats_is_over_the_time_between_them(cluster, maker):
    """The heartbeats are 30 s apart, with a look every 5 s."""
    for second in range(0, 90, 5):
        cluster.now = 100.0 + second
        cluster.node["metrics"] = {"step": second // 30 * 60}
        (told,) = maker.look(over=False)["nodes"]
        assert told.get("steps_per_second") == (2.0 if second >= 30 else None)
    cluster.node["state"] = "done"
    (told,) = maker.look(over=False)["nodes"]
    assert told["step"] == 120 and "steps_per_second" not in told


def test_rows_that_no_feed_has_counted_are_the_programs_and_not_told(cluster, maker):
    cluster.node.update(feed=None, metrics={"rows": 7})
    assert "rows" not in maker.look(over=False)["nodes"][0]


def test_the_state_follows_the_cluster(cluster, maker):
    cluster.formed = False
    assert maker.look(over=False)["state"] == "starting"
    assert maker.look(over=True)["state"] == "ended"
    cluster.failure = {"node_id": -1, "step": "feed", "message": "x" * 5000, "traceback": KEY}
    event = maker.look(over=False)
    assert event["state"] == "failed"
    assert event["failure"] == {
        "node": "",
        "host": "",
        "step": "feed",
        "message": "x" * 4000 + " ...",
    }
    assert KEY not in json.dumps(event)


def test_a_stop_is_no_failure_and_the_failure_of_the_drivers_program_is_one(cluster, maker):
    maker.failure_of_driver = {"step": "run the driver program", "message": "ValueError: no"}
    event = maker.look(over=True)
    assert event["state"] == "failed"
    assert event["failure"]["message"] == "ValueError: no"
    cluster.was_stopped = True
    cluster.failure = {"node_id": -1, "step": "run", "message": "a@b has stopped the cluster"}
    event = maker.look(over=True)
    assert event["state"] == "stopped"
    assert event["failure"]["message"] == "a@b has stopped the cluster"


def test_a_failure_names_its_node(cluster, maker):
    cluster.failure = {
        "node_id": 0,
        "job_name": "worker",
        "task_index": 0,
        "host": "host-a",
        "step": "run the program",
        "message": "ValueError",
    }
    assert maker.look(over=False)["failure"]["node"] == "worker:0"


def test_changes_are_told_soon_numbers_later_and_nothing_new_seldom(cluster, maker):
    pace = Pace(lambda: cluster.now)

    def due(after, size=1000):
        cluster.now += after
        return pace.is_due(maker.look(over=False), size)

    assert due(0)
    cluster.node["metrics"] = {"loss": 1}
    assert not due(9) and due(1)
    assert not due(59) and due(1)  # Only the time differs.
    cluster.node["state"] = "done"
    assert due(1)
    cluster.progress = {"epoch": 2}
    assert due(1)


def test_large_events_are_rare(cluster, maker):
    pace = Pace(lambda: cluster.now)
    size = 200_000

    def due(after):
        cluster.now += after
        return pace.is_due(maker.look(over=False), size)

    assert due(0)
    cluster.node["state"] = "done"
    assert not due(9) and due(1)
    cluster.node["metrics"] = {"loss": 1}
    assert not due(99) and due(1)


def test_a_spark_that_takes_no_events_costs_the_cluster_nothing(cluster, caplog):
    class GoneContext:
        version = "4.1.4"

        @property
        def _jvm(self):
            raise ConnectionError("the JVM is gone")

    with caplog.at_level(logging.INFO, "tfos.spark.ui"):
        tab = tab_of(GoneContext(), cluster)
        tab.finish()
        tab.close()
    assert "does not show the cluster any more: the JVM is gone" in caplog.text


def tab_of(sc, cluster, show_link=None):
    return ClusterTab(
        sc, "abc", "http://h:1/", "http://127.0.0.1:1/", cluster, cluster.ledger, show_link or print
    )


class Channel:
    """Takes events, and notes what it is asked for."""

    def __init__(self, link):
        self.link = link
        self.asked = []

    def open(self):
        self.asked.append("open")
        return self.link

    def post(self, text):
        self.asked.append(json.loads(text)["state"])
        return True

    def close(self):
        self.asked.append("close")


@pytest.mark.parametrize("link", ["", "http://proxy/TensorFlow/page/abc/"])
def test_the_page_is_passed_on_from_the_first_event_until_after_the_last(
    cluster, monkeypatch, link
):
    channel, links = Channel(link), []
    monkeypatch.setattr(ui, "channel_to", lambda *_of: channel)
    tab = tab_of(None, cluster, links.append)
    tab.finish()
    # Between the two, pages ask the coordinator how the cluster has ended.
    assert channel.asked[0] == "open" and channel.asked[-1] == "ended"
    assert links == [link] * bool(link)
    tab.close()
    assert channel.asked[-1] == "close"


YARN = "spark.org.apache.spark.deploy.yarn.AmIpFilter.param.PROXY_URI_BASES"
OLD_YARN = "spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.PROXY_URI_BASES"


@pytest.mark.parametrize(
    ("conf", "address"),
    [
        ({}, "http://driver:4040"),
        ({YARN: "http://rm:8088/proxy/app_1"}, "http://rm:8088/proxy/app_1"),
        ({OLD_YARN: "http://rm:8088/proxy/app_1"}, "http://rm:8088/proxy/app_1"),
        (
            {YARN: "http://a:8088/proxy/app_1,http://b:8088/proxy/app_1"},
            "http://a:8088/proxy/app_1",
        ),
        ({"spark.ui.reverseProxyUrl": "https://front/spark"}, "http://driver:4040"),
        ({"spark.ui.reverseProxy": "true"}, "http://driver:4040"),
        (
            {"spark.ui.reverseProxy": "true", "spark.ui.reverseProxyUrl": "https://front/spark/"},
            "https://front/spark/proxy/app_1",
        ),
        (
            {"spark.ui.reverseProxy": "true", "spark.ui.reverseProxyUrl": "/spark"},
            "http://driver:4040",
        ),
    ],
)
def test_the_address_of_sparks_ui_is_that_of_the_proxy_in_front_of_it(conf, address):
    spark = types.SimpleNamespace(conf=lambda: conf)
    context = types.SimpleNamespace(
        _jsc=types.SimpleNamespace(sc=lambda: spark),
        applicationId="app_1",
        uiWebUrl="http://driver:4040",
    )
    assert ui_address(context) == address
