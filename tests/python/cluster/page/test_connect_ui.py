"""The tab "TensorFlow" of the UI of Spark Connect's server, which a client posts to, and the page that
this UI passes on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import tfos
from connect_server import ConnectServer
from support.page.history_server import fetch
from support.page.passed_on import status_of
from support.places import IMPORT_PATHS, SCRIPTS, TESTS
from support.waiting import wait_for

EVENT = "tfos.internal.ui.ClusterEvent"
BOUND_SECONDS = 600
# The server and the client, processes of their own, start Spark.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS + 60)]


def ui_port(server):
    found = re.search(r"'SparkUI' on port (\d+)", server.daemon.log())
    return int(found.group(1)) if found else None


@pytest.fixture(scope="module")
def seen(standalone_cluster, tmp_path_factory):
    """The tab after a client has trained and ended, and the events in the server's log of them.
    Also what a visitor of the cluster's page gets, with the key and without, and afterwards."""
    directory = tmp_path_factory.mktemp("connect")
    (directory / "events").mkdir()
    (directory / "client").mkdir()
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": 0,
        "spark.driver.extraClassPath": tfos.jar_path(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "events").as_uri(),
        "spark.eventLog.compress": "false",  # To be read here, too.
        "spark.eventLog.rolling.enabled": "false",
    }
    with ConnectServer(standalone_cluster.url, directory, conf, IMPORT_PATHS) as server:
        command = [sys.executable, str(SCRIPTS / "connect_driver.py"), server.url]
        port = wait_for(lambda: ui_port(server), server.daemon.log)
        with open(directory / "log", "w+") as log:
            client = subprocess.Popen(
                [*command, str(directory / "client"), "train_once_looked_at"],
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            line = next((line for line in client.stdout if line.startswith("page ")), None)
            assert line, (directory / "log").read_text()[-4000:]
            page = json.loads(line.removeprefix("page "))
            data = f"http://127.0.0.1:{port}/TensorFlow/page/{page['cluster']}/v1/status"
            key = page["url"].partition("#key=")[2]
            wait_for(lambda: status_of(data, "") != 404, "the page to be passed on")
            visits = [status_of(data, key), status_of(data, "")]
            client.communicate("looked\n", timeout=BOUND_SECONDS)
        said = (directory / "log").read_text()[-4000:]
        assert client.returncode == 0, said
        result = json.loads((directory / "client/train_once_looked_at.json").read_text())
        assert result == {"result": None}, said
        visits.append(status_of(data, key))
        tab = fetch(f"http://127.0.0.1:{port}/TensorFlow/")
    (log,) = (directory / "events").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines() if EVENT in line]
    return tab, [event["cluster"] for event in events], visits


def test_the_servers_tab_shows_the_cluster_of_a_client(seen):
    tab, events, _ = seen
    assert events[-1]["id"] in tab
    assert "<td>worker:0</td>" in tab and "<td>worker:1</td>" in tab
    assert "<strong>State:</strong> ended" in tab


def test_the_servers_event_log_has_the_cluster_to_its_end(seen):
    _, events, _ = seen
    assert [event["state"] for event in (events[0], events[-1])] == ["starting", "ended"]
    assert {event["id"] for event in events} == {events[0]["id"]}
    assert [node["state"] for node in events[-1]["nodes"]] == ["done", "done"]
    assert "key=" not in json.dumps(events)


def test_the_servers_ui_passes_the_page_on_until_the_cluster_ends(seen):
    assert seen[2] == [200, 401, 404]
