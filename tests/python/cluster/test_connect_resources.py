"""Nodes of a client of Spark Connect with other resources than the server's other tasks, with and
without dynamic allocation.

The Workers have two cores and a GPU each, of a discovery script's making.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from connect_server import ConnectServer
from support.made_up_gpus import workers_with_gpus
from support.places import IMPORT_PATHS, SCRIPTS, TESTS
from support.scripts.connect_driver import EXECUTORS as WORKERS_TO_HOLD

#: For all that one client does.
BOUND_SECONDS = 600
# Server and client, processes of their own, start Spark.
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS + 60)]
_SCENARIOS = ("resources_given", "gpu_each", "resources_refused")
EXECUTORS = {
    "spark.executor.cores": "2",
    "spark.executor.memory": "512m",
    "spark.executor.resource.gpu.amount": "1",
    "spark.task.resource.gpu.amount": "0.5",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "30s",
    # The next cluster waits for what the last one held, and this server has little garbage.
    "spark.cleaner.periodicGC.interval": "1s",
}


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    with workers_with_gpus(2, tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["two executors", "dynamic allocation"])
def said(workers, tmp_path_factory, request):
    """What became of each scenario: a function of its name."""
    conf = EXECUTORS | (DYNAMIC if request.param == "dynamic allocation" else {})
    return _run(workers.url, tmp_path_factory.mktemp("client"), conf, *_SCENARIOS)


def _run(master, directory, conf, *scenarios):
    """Runs them with a server of their own, and returns what became of each: a function of its
    name."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    with ConnectServer(master, directory / "server", conf, IMPORT_PATHS) as server:
        script = SCRIPTS / "connect_driver.py"
        done = subprocess.run(
            [sys.executable, str(script), server.url, str(directory), *scenarios],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=BOUND_SECONDS,
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return lambda name: json.loads((directory / f"{name}.json").read_text())


@pytest.mark.parametrize("scenario", ["resources_given", "gpu_each"])
def test_each_node_has_a_gpu_and_an_executor_of_its_own(said, scenario):
    found = said(scenario)
    assert "result" in found, found
    gpus = found["result"]["gpus"]
    assert [len(each) for each in gpus] == [1, 1] and gpus[0] != gpus[1]
    assert len(set(found["result"]["executors"])) == 2
    assert found["result"]["coordinator"] in found["result"]["executors"]


@pytest.mark.failure("executor removed", "feeding", "shutdown")
def test_nodes_hold_their_executors_and_give_them_back(tmp_path):
    conf = EXECUTORS | DYNAMIC
    conf["spark.dynamicAllocation.maxExecutors"] = str(WORKERS_TO_HOLD)
    conf["spark.dynamicAllocation.executorIdleTimeout"] = "2s"
    with workers_with_gpus(WORKERS_TO_HOLD, tmp_path) as workers:
        said = _run(workers.url, tmp_path, conf, "hold_executors")
    assert said("hold_executors") == {"result": None}


def test_a_profile_that_spark_refuses_is_said(said):
    assert "Spark refuses the resources of nodes" in said("resources_refused")["result"]
