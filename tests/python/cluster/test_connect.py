"""Clusters of a client of Spark Connect, on a real server with two executors.

Clients are processes of their own: pyspark works with Spark Connect or without, not both. One runs
all that ends well, or with an error that it sees; those that something is killed of have their own.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import psutil
import pyspark
import pytest

from connect_server import ConnectServer
from support import pages
from support.namespaces import joined_host
from support.places import IMPORT_PATHS, SCRIPTS, TESTS
from support.scripts.connect_driver import ROWS
from support.waiting import wait_for

#: For all that one client does.
BOUND_SECONDS = 900
# Servers and clients, processes of their own, start Spark.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS + 60)]
_SCENARIOS = (
    "train",
    "shuffled_with_validation",
    "infer",
    "fail",
    "fail_after_all",
    "stop_early",
    "wait_for_results",
    "too_many_nodes",
    "no_slot_for_the_coordinator",
    "interrupted",
    "learn",
    "records",
    "refuse",
    "follow_the_page",
)


def client_environment():
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


def client_command(url, directory, *scenarios):
    return [sys.executable, str(SCRIPTS / "connect_driver.py"), url, str(directory), *scenarios]


@pytest.fixture(scope="module")
def server(standalone_cluster, tmp_path_factory):
    """A server of Spark Connect whose executors are those of the standalone cluster."""
    directory = tmp_path_factory.mktemp("connect")
    with ConnectServer(standalone_cluster.url, directory, paths=IMPORT_PATHS) as running:
        yield running


@pytest.fixture(scope="module")
def said(server, tmp_path_factory):
    """What became of each scenario: a function of its name."""
    directory = tmp_path_factory.mktemp("client")
    done = subprocess.run(
        client_command(server.url, directory, *_SCENARIOS),
        env=client_environment(),
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return lambda name: json.loads((directory / f"{name}.json").read_text())


def test_frames_train_nodes_over_epochs(said):
    result = said("train")["result"]
    assert set(result["states"]) <= {"registered", "running"}
    assert result["ended"] == ["done", "done"]
    assert result["ids"] == sorted([*range(ROWS), *range(ROWS)])
    assert result["read"] == 2 * ROWS and result["complaint"] is None


def test_shuffled_epochs_validation_and_caches(said):
    assert said("shuffled_with_validation") == {"result": None}


def test_inference_has_a_result_for_each_row(said):
    assert said("infer")["result"] == sorted([f"k{n}", 2.0 * n] for n in range(ROWS))


@pytest.mark.parametrize(
    ("scenario", "message"),
    [("fail", "ValueError: broken while reading"), ("fail_after_all", "broken while exporting")],
)
def test_failures_come_with_node_and_traceback(said, scenario, message):
    failure = said(scenario)
    assert failure["raised"] == "NodeFailedError"
    assert "worker:" in failure["text"] and message in failure["text"]
    assert "Traceback (most recent call last)" in failure["text"]
    assert "programs/nodes.py" in failure["text"]


def test_feeding_ends_when_no_node_wants_more(said):
    assert said("stop_early")["result"] == ["done", "done"]


def test_results_of_programs_reach_the_client(said):
    assert said("wait_for_results")["result"] == [0, 1]


def test_a_lack_of_slots_is_said(said):
    failure = said("too_many_nodes")
    assert failure["raised"] == "NodeFailedError"
    assert "no executor slot (Spark runs 2 of 3 launch tasks" in failure["text"]


def test_a_coordinator_without_a_slot_is_said_and_its_job_cancelled(said):
    failure = said("no_slot_for_the_coordinator")["result"]
    assert failure["raised"] == "NodeFailedError"
    assert "did not start within 5 s (registration_timeout): no executor slot" in failure["text"]
    assert "Free cores, or give the server more executors" in failure["text"]


@pytest.mark.failure("Ctrl-C", "feeding")
def test_interrupting_the_client_ends_the_cluster(said):
    assert set(said("interrupted")["result"]) <= {"stopped", "failed", "lost"}


def test_estimators_fit_and_models_transform(said):
    result = said("learn")["result"]
    assert result["worst"] < 0.3 and result["same"] and result["epochs"] == 30
    assert "delete it first" in result["overwriting"]


def test_tfrecords_go_both_ways(said):
    result = said("records")["result"]
    assert result["ids"] == list(range(ROWS))
    assert sorted(result["columns"]) == ["half", "id"] and result["by_format"] == 10


def test_the_format_says_what_is_missing_before_it_is_registered(said):
    messages = said("records")["result"]["before_registering"]
    if pyspark.__version__.startswith("4.0."):  # As python/pyspark_tfos says.
        assert all("[DATA_SOURCE_NOT_FOUND]" in message for message in messages), messages
        return
    for message in messages:
        first, rest = message.split("this session does not know")
        assert rest.startswith(' format("tfrecord"): call tfos.register_tfrecords(spark) first')
        assert len(message.split("JVM stacktrace")[0]) < 1000


def test_the_program_of_the_page_runs(said):
    assert "docs/connect.md" in {pages.name(page) for page in pages.PAGES}
    assert said("follow_the_page")["result"] == ["done", "done"]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("train a list", "takes a DataFrame.*createDataFrame makes"),
        ("infer a list", "takes a DataFrame.*createDataFrame makes"),
        ("infer without schema", "pass schema="),
        ("map column", "make columns of its values"),
        ("foreachBatch", "works in the driver program only.*cluster.train with a DataFrame"),
        ("stream", "Spark Connect has no DStreams.*DataFrame"),
        ("jar", "feed.jvm is on, and a session of Spark Connect"),
        ("parallel", "no SparkContext.*tfos submit"),
        ("executors", "no SparkContext.*tfos submit"),
        ("on driver", "runs no nodes"),
    ],
)
def test_what_connect_cannot_do_is_refused(said, what, message):
    assert re.search(message, said("refuse")["result"][what], re.DOTALL)


_OURS, _THEIRS = "10.213.78.1", "10.213.78.2"


@pytest.fixture
def other_host():
    """A network namespace that sees nothing of this host but one address, at which the server listens."""
    with joined_host(_OURS, _THEIRS) as host:
        yield host


def test_a_client_that_reaches_the_server_only_trains(server, other_host, tmp_path):
    command = client_command(f"sc://{_OURS}:{server.port}", tmp_path, "train_apart")
    done = subprocess.run(
        [*other_host.prefix, *command],
        env=client_environment(),
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads((tmp_path / "train_apart.json").read_text())["result"]
    assert not result["reached"], "the client has another way to the coordinator"
    assert result["ids"] == list(range(ROWS))


class Client:
    """A client that feeds nodes until something is killed."""

    def __init__(self, server, directory):
        self.said = directory / "feed_for_ever.json"
        with open(directory / "client.err", "w") as errors:
            self.process = subprocess.Popen(
                client_command(server.url, directory, "feed_for_ever"),
                env=client_environment(),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        line = self.process.stdout.readline()
        assert line.startswith("cluster "), (directory / "client.err").read_text()[-4000:]
        self.place = json.loads(line.removeprefix("cluster "))["place"]
        fed = directory / "feed_for_ever"
        wait_for(lambda: len(list(fed.glob("pids-*"))) == 2, "the programs of both nodes")
        # Before that the client asks the server for the schema. Spark repeats a question to a server
        # that is gone for minutes.
        said = directory / "client.err"
        wait_for(lambda: " s  feeding | " in said.read_text(), said.read_text)

    def error(self):
        wait_for(self.said.exists, "the client's error")
        failure = json.loads(self.said.read_text())
        assert failure["raised"] == "NodeFailedError", failure
        return failure["text"]


@pytest.fixture
def client(server, tmp_path, leftovers):
    started = Client(server, tmp_path)
    yield started
    started.process.kill()
    started.process.wait()
    started.process.stdout.close()


@pytest.mark.failure("driver killed", "feeding")
def test_a_killed_client_leaves_nothing_once_its_lease_is_over(client):
    client.process.kill()


@pytest.mark.failure("executor killed", "feeding")
def test_the_end_of_the_coordinators_executor_is_named(client):
    place = re.match(r"process (\d+) beside (executor \d+) on ", client.place)
    keeper = psutil.Process(int(place[1])).ppid()
    os.kill(watched_by(keeper), signal.SIGKILL)
    assert place[2] in client.error()


def watched_by(pid):
    """The process that another one holds a descriptor of."""
    infos = [file.read_text() for file in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir()]
    (watched,) = {found[1] for info in infos if (found := re.search(r"Pid:\s+(\d+)", info))}
    return int(watched)


@pytest.mark.failure("coordinator killed", "feeding")
def test_a_killed_coordinator_is_named(client):
    coordinator = re.match(r"process (\d+) ", client.place)
    os.kill(int(coordinator[1]), signal.SIGKILL)
    assert f"the coordinator ({client.place}) was killed by SIGKILL" in client.error()


def test_a_killed_server_leaves_nothing(server, client):
    """The last test, as others need the server."""
    os.kill(server.daemon.pid, signal.SIGKILL)
    error = client.error()
    assert "was not reached for 15 s" in error and "server" in error
