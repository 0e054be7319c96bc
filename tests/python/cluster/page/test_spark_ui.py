"""The tab "TensorFlow" of Spark's UI: of a session that runs, and in a History Server that has
nothing but event logs."""

from __future__ import annotations

import html
import json
import re
import types

import pytest

import tfos
from support.page.history_server import fetch, history_server
from support.programs import nodes
from support.waiting import wait_for
from tfos.errors import NodeFailedError

EVENT = "tfos.internal.ui.ClusterEvent"
TWO_EXECUTORS = "local-cluster[2,1,1024]"
ROWS = 2000
HOSTILE = "<script>alert('&\"')</script>"
#: What event logs hold that nobody of tfos has written: none of them may cost more than itself.
BROKEN = (
    {},
    {"cluster": None},
    {"cluster": "a text"},
    {"cluster": {"nodes": []}},
    {"cluster": {"id": {"of": "no text"}}},
    {
        "cluster": {
            "id": HOSTILE,
            "began_ms": "yesterday",
            "state": HOSTILE,
            "page": "javascript:alert(1)",
            "progress": {"text": HOSTILE, "epoch": HOSTILE, "done": HOSTILE, "loss": [1]},
            "failure": {"node": HOSTILE, "host": HOSTILE, "step": HOSTILE, "message": HOSTILE},
            "ledger": [HOSTILE],
            "nodes": [7, {"name": HOSTILE, "host": HOSTILE, "detail": HOSTILE, "step": HOSTILE}],
        }
    },
)


@pytest.fixture(scope="module")
def event_logs(tmp_path_factory):
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(spark_on, event_logs):
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_logs.as_uri(),
        "spark.eventLog.compress": "false",  # To be read here, too.
        "spark.eventLog.rolling.enabled": "false",
    }
    return spark_on(TWO_EXECUTORS, **conf)


@pytest.fixture(scope="module")
def tab(spark):
    """A function that gets the tab of the session."""
    port = spark.sparkContext.uiWebUrl.rpartition(":")[2]
    return lambda query="": fetch(f"http://127.0.0.1:{port}/TensorFlow/{query}")


@pytest.fixture(scope="module")
def runs(spark, tab, event_logs, tmp_path_factory):
    """Three clusters: one whose training ends, one whose driver's program fails, and one with a node
    that fails. What the tab has shown, and the event log.

    Spark brings events to the tab and to the log by threads of its own, so each is waited for.
    """
    (log,) = event_logs.iterdir()

    def shown(cluster, state):
        wait_for(lambda: items(tab(f"?id={cluster.cluster_id}")).get("State") == state, tab)
        return tab()

    go_on = tmp_path_factory.mktemp("runs") / "go on"
    args = {"path": str(go_on)}
    with tfos.run(spark, nodes.count_steps_until, nodes=2, args=args) as trained:
        trained.train(spark.sparkContext.parallelize(range(ROWS), 4))
        # As soon as all rows are delivered, though none may have been read to the end.
        running = wait_for(lambda: shows(tab(), "worker:1", "running"), tab)
        go_on.touch()
    ended = shown(trained, "ended")
    with (
        pytest.raises(LookupError),
        tfos.run(spark, nodes.count_steps_until, nodes=2, args=args) as given_up,
    ):
        raise LookupError(f"no table '{HOSTILE}'")
    of_given_up = shown(given_up, "failed")
    with pytest.raises(NodeFailedError), tfos.run(spark, nodes.fail_in_tags, nodes=2) as failing:
        failing.train(spark.sparkContext.parallelize(range(10), 2))
    failed = shown(failing, "failed")
    wait_for(lambda: logged(log, failing, "failed"), log.read_text)
    return types.SimpleNamespace(
        trained=trained,
        failing=failing,
        running=running,
        ended=ended,
        given_up=given_up,
        of_given_up=of_given_up,
        failed=failed,
        of_first=tab(f"?id={trained.cluster_id}"),
        log=log.read_text(),
        application=spark.sparkContext.applicationId,
    )


@pytest.fixture(scope="module")
def finished(runs, tmp_path_factory):
    """Event logs of the application, of the same with broken events, and of one without clusters."""
    directory = tmp_path_factory.mktemp("finished")
    whole = runs.log.splitlines()
    others = [line for line in whole if EVENT not in line]
    broken = [json.dumps({"Event": EVENT, **fields}) for fields in BROKEN]
    unknown = json.dumps({"Event": "tfos.internal.ui.OfALaterVersion", "cluster": {"id": "x"}})
    for name, lines in {
        "app-whole": whole,
        "app-broken": [*others[:5], *broken, unknown, *others[5:]],
        "app-none": others,
    }.items():
        text = "\n".join(lines).replace(runs.application, name)
        (directory / name).write_text(text + "\n")
    return directory


@pytest.fixture(scope="module")
def history(finished, tmp_path_factory):
    """A History Server with the jar, which keeps what it has read on its disk."""
    directory = tmp_path_factory.mktemp("history")
    (directory / "store").mkdir()
    with history_server(
        directory,
        finished,
        tfos.jar_path(),
        spark_history_store_path=str(directory / "store"),
    ) as server:
        yield server


def logged(log, cluster, state):
    """Whether the event log says that the cluster is in this state."""
    words = (EVENT, cluster.cluster_id, f'"state":"{state}"')
    return any(all(word in line for word in words) for line in log.read_text().splitlines())


def shows(page, node, state):
    """The page, if a row of it has the node in this state."""
    return page if f"<td>{node}</td>" in page and f"<td>{state}" in page else None


def items(page):
    """What the list above the nodes says, by title."""
    return dict(re.findall(r"<li><strong>(.*?):</strong> (.*?)</li>", page))


def rows(page):
    """Those of the last table: the cells of each."""
    table = page.rpartition("<tbody>")[2].partition("</tbody>")[0]
    return [re.findall(r"<td>(.*?)</td>", row) for row in table.split("</tr>")[:-1]]


def test_a_session_shows_a_cluster_that_runs(runs):
    told = items(runs.running)
    assert told["State"] == "running"
    assert runs.trained.cluster_id in runs.running
    assert "<title>tfos-tests - TensorFlow</title>" in runs.running
    port = runs.trained.coordinator_address[1]
    assert re.search(rf'<a href="http://[^"#?]*:{port}/">', told["Live page"])
    assert all(host and executor in "01" for _, host, executor, *_ in rows(runs.running))


def test_a_session_shows_how_a_cluster_has_ended(runs):
    told = items(runs.ended)
    assert told["State"] == "ended" and "Live page" not in told
    assert re.fullmatch(r"epoch 1 of 1, .*loss 0\.2500", told["Training"])
    assert told["Ledger"].startswith(
        f"rows read from Spark: {ROWS:,}, delivered to nodes: {ROWS:,}"
    )
    assert "<h4>Nodes (2 done)</h4>" in runs.ended
    read = {cells[0]: cells for cells in rows(runs.ended)}
    assert set(read) == {"worker:0", "worker:1"}
    assert sum(int(cells[7].replace(",", "")) for cells in read.values()) == ROWS
    for cells in read.values():
        assert cells[3] == "done" and int(cells[4]) > 0 and cells[6] == "0.2500"


def test_nothing_is_said_twice(runs):
    told = items(runs.ended)
    assert set(told) == {"State", "Started", "Last update", "Training", "Ledger"}
    for title, text in told.items():
        assert not text.lower().startswith(title.lower())
    assert runs.ended.count("epoch 1 of 1") == 1 and runs.ended.count("2 done") == 1


def test_a_session_shows_a_failure_and_its_text_as_text(runs):
    assert items(runs.failed)["State"] == "failed"
    message = "ValueError: &lt;b&gt;no&lt;/b&gt; &amp; such column"
    assert f"<pre>{message}</pre>" in runs.failed
    assert runs.failed.count(message) == 1, "nodes do not repeat it"
    assert "<b>no</b>" not in runs.failed
    told = re.search(r"<h4>Failure</h4><p><strong>(.*?)</strong>", runs.failed)[1]
    assert re.fullmatch(r"worker:[01] on \S+ failed to run .+", told)
    assert {cells[3] for cells in rows(runs.failed)} <= {"failed", "stopped"}
    assert "Last update" in items(runs.failed)
    assert "Clusters (3)" in runs.failed
    assert f'href="?id={runs.trained.cluster_id}"' in runs.failed
    assert items(runs.of_first)["State"] == "ended"


def test_a_session_shows_the_failure_of_a_drivers_program(runs):
    """The cluster itself knows of none: its nodes are only stopped."""
    page = runs.of_given_up
    assert items(page)["State"] == "failed"
    assert "<h4>Failure</h4><p><strong>could not run the driver program</strong></p>" in page
    message = html.escape(f"LookupError: no table '{HOSTILE}'")
    assert f"<pre>{message}</pre>" in page and HOSTILE not in page
    assert {cells[3].partition(" ")[0] for cells in rows(page)} == {"stopped"}


def test_no_key_is_in_the_ui_nor_in_the_event_log(runs):
    for cluster in (runs.trained, runs.failing):
        for link in (cluster.page_url, cluster.operate_link):
            key = link.partition("#key=")[2]
            assert len(key) == 64
            assert not any(
                key in text for text in (runs.running, runs.ended, runs.failed, runs.log)
            )


def test_a_history_server_shows_them_from_the_event_log_alone(runs, history):
    failed = history.get("app-whole", "TensorFlow/")
    assert items(failed)["State"] == "failed" and "&lt;b&gt;no&lt;/b&gt;" in failed
    ended = history.get("app-whole", f"TensorFlow/?id={runs.trained.cluster_id}")
    assert items(ended) == items(runs.of_first)
    assert rows(ended) == rows(runs.ended)
    given_up = history.get("app-whole", f"TensorFlow/?id={runs.given_up.cluster_id}")
    assert items(given_up)["State"] == "failed" and "LookupError: no table" in given_up
    assert "/history/app-whole/TensorFlow" in history.get("app-whole", "jobs/")


def test_a_history_server_says_that_there_is_no_word_of_an_end(runs, finished, tmp_path):
    lines = runs.log.splitlines()
    first_end = next(
        number for number, line in enumerate(lines) if EVENT in line and '"state":"ended"' in line
    )
    text = "\n".join(lines[:first_end]).replace(runs.application, "app-cut")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "app-cut").write_text(text + "\n")
    with history_server(tmp_path, tmp_path / "logs", tfos.jar_path()) as server:
        told = items(server.get("app-cut", "TensorFlow/"))
    assert told["State"] == "running as of the last update" and "Live page" not in told


def test_broken_events_cost_only_themselves(history):
    page = history.get("app-broken", "TensorFlow/")
    assert "<script>alert" not in page and "javascript:alert" not in page
    assert html.escape(HOSTILE) in page
    assert rows(page)[0] == [""] * 9
    assert rows(page)[1][0] == html.escape(HOSTILE)
    assert "names no cluster" in history.log()
    for other in ("jobs/", "stages/", "executors/", "environment/"):
        assert "app-broken" in history.get("app-broken", other)


def test_an_application_without_clusters_has_no_tab(history):
    assert "TensorFlow" not in history.get("app-none", "jobs/")


def test_a_history_server_without_the_jar_shows_all_the_rest(finished, tmp_path):
    with history_server(tmp_path, finished) as server:
        for application in ("app-whole", "app-broken"):
            jobs = server.get(application, "jobs/")
            assert "Completed Jobs" in jobs and "TensorFlow" not in jobs
        assert EVENT in server.log()  # Spark says once that it does not know these.


def test_a_session_takes_broken_events_and_keeps_the_latest_clusters(spark, runs, tab):
    context, events = spark.sparkContext._jsc.sc(), spark._jvm.tfos.internal.ui.ClusterEvents
    for fields in BROKEN:
        events.post(context, json.dumps(fields.get("cluster", 7)))
    for number in range(120):
        cluster = {"id": f"cluster-{number}", "began_ms": 10**13 + number, "state": "running"}
        events.post(context, json.dumps(cluster))
    page = wait_for(lambda: tab() if "cluster-119" in tab() else None, "the last cluster")
    assert "Clusters (100)" in page
    assert "cluster-20" in page and "cluster-19<" not in page
    assert runs.trained.cluster_id not in page
