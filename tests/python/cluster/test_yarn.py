"""Programs on a real YARN, submitted with `tfos submit`: both modes, a packed Python, a kill,
and preemption of one container."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess

import psutil
import pytest

import tfos
from support.driver_process import DRIVE, PROGRAMS
from support.environments import tiny_environment
from support.files.webhdfs import WebHdfs
from support.page.browsers import browser, complaints
from support.page.history_server import fetch
from support.page.passed_on import said_link, status_of
from support.page.shown import charts, row
from support.places import ROOT, RUN_VARIABLE, SCRIPTS
from support.urgent_application import kill_application, urgent_application
from support.waiting import wait_for
from tfos.base import executable

PROGRAM = SCRIPTS / "submitted_program.py"
BOUND_SECONDS = 300
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(2 * BOUND_SECONDS)]
#: An application of two executors has more than half of the memory. This takes the room of one.
URGENT_MB = 3072
#: The first executor that fails would end the application; one that is preempted does not count.
ONE_FAILURE = ("--conf", "spark.executor.maxNumFailures=1")
_FINAL_STATES = ("FINISHED", "FAILED", "KILLED")


@pytest.fixture
def submit(yarn, tmp_path):
    """Starts `tfos submit`: a process whose standard error goes to `tmp_path/log`."""
    started = []

    def start(*arguments):
        # The executable finds its Python, and SparkSubmit nothing of the tests.
        environment = {
            name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"
        }
        environment |= {
            "HADOOP_CONF_DIR": str(yarn.configuration),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "SPARK_CONF_DIR": str(yarn.configuration),
        }
        small = [
            "--num-executors",
            "2",
            "--executor-memory",
            "512m",
            "--driver-memory",
            "512m",
            "--conf",
            "spark.ui.enabled=false",
            "--conf",
            "spark.executor.memoryOverhead=1g",
            "--conf",
            "spark.yarn.maxAppAttempts=1",
        ]
        # Containers don't inherit them.
        for name, of in itertools.product(
            (RUN_VARIABLE, "JDK_JAVA_OPTIONS"), ("yarn.appMasterEnv", "executorEnv")
        ):
            small += ["--conf", f"spark.{of}.{name}={os.environ[name]}"]
        with open(tmp_path / "log", "ab") as log:
            process = subprocess.Popen(
                [executable.path(), "submit", "--master", "yarn", *small, *map(str, arguments)],
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def output_of(process, tmp_path):
    output, _ = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0, output + (tmp_path / "log").read_text()[-6000:]
    return output


def newest(yarn):
    """The application that was submitted last, as the ResourceManager sees it; {} as long as there
    is none, or the ResourceManager does not answer."""
    found = (yarn.get("cluster/apps") or {}).get("apps") or {"app": []}
    return max(found["app"], key=lambda application: application["id"], default={})


def results(yarn, application):
    """The objects that its driver, in a container of YARN, has printed among other lines."""
    texts = [
        path.read_text()
        for path in (yarn.directory / "containers").glob(f"{application['id']}/*/stdout")
    ]
    return [
        json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")
    ]


def said(yarn, application):
    """All that the containers of the application have written."""
    files = (yarn.directory / "containers").glob(f"{application['id']}/*/std*")
    return "".join(path.read_text() for path in files)


def test_client_mode_trains_with_the_hosts_python(yarn, submit, tmp_path, leftovers):
    program = ROOT / "examples" / "quickstart.py"
    process = submit("--no-env", program, "--rows", "400")
    # Spark puts a driver's standard error, where tfos tells its progress, into the output, too.
    learned = [
        line.partition(": y = ")[0]
        for line in output_of(process, tmp_path).splitlines()
        if ": y = " in line
    ]
    assert learned == ["node 0", "node 1"]
    assert "spark-submit --master yarn" in (tmp_path / "log").read_text()
    wait_for(lambda: newest(yarn).get("finalStatus") == "SUCCEEDED", "YARN to know its end")


def test_cluster_mode_runs_in_the_packed_python(yarn, submit, tmp_path, hdfs, leftovers):
    directory = f"{hdfs.uri}/environments"
    WebHdfs(hdfs).make_directory("/submitted/found", owner="root")
    output_of(
        submit(
            "--deploy-mode",
            "cluster",
            "--python-env",
            tiny_environment(tmp_path),
            "--env-directory",
            directory,
            PROGRAM,
            "hdfs:///submitted",
        ),
        tmp_path,
    )
    application = wait_for(lambda: newest(yarn), "YARN to name it")
    assert application["finalStatus"] == "SUCCEEDED"
    (result,) = results(yarn, application)
    assert application["id"].removeprefix("application_") in result["container"]
    pythons = {result["driver"], *(node["python"] for node in result["nodes"])}
    assert len(pythons) == 3, "driver and executors have a container each"
    for python in pythons:
        assert python.startswith(str(yarn.directory)) and python.endswith("/environment/bin/python")
    assert [node["found"] for node in result["nodes"]] == ["found", "found"]
    assert sum(node["rows"] for node in result["nodes"]) == 20 * 100
    assert all(abs(node["weight"] - 3) < 0.1 for node in result["nodes"])


def test_a_killed_application_leaves_no_process(yarn, submit, leftovers):
    application = running_application(yarn, submit)
    assert results(yarn, application) == [{"nodes": 2}]
    assert processes_of(application), "nobody is there who could stay"
    kill(yarn, application)
    wait_for(lambda: not processes_of(application), "its processes to end")


def test_the_tab_and_the_page_in_sparks_ui_are_there_behind_yarns_proxy(yarn, submit, leftovers):
    options = ["spark.ui.enabled=true", "spark.ui.port=0", f"spark.jars={tfos.jar_path()}"]
    application = running_application(
        yarn, submit, *(word for option in options for word in ("--conf", option))
    )
    proxied = f"http://{yarn.http}/proxy/{application['id']}/TensorFlow/"
    try:
        page = fetch(proxied)
        assert all(f"<td>worker:{index}</td>" in page for index in range(2)), page
        assert f'href="/proxy/{application["id"]}/TensorFlow' in page, "the way back leads past it"
        (cluster,) = re.findall(r'href="page/([0-9a-f]+)/"', page)
        link = wait_for(lambda: said_link(said(yarn, application), cluster), "the driver's link")
        below, _, key = link.partition("#key=")
        # YARN calls this host by its name.
        address = f"{proxied}page/{cluster}/"
        assert re.sub("//.*?:", "//127.0.0.1:", below) == address
        assert status_of(f"{address}v1/status", key) == 200
        for wrong in ("", "0" * 64):
            assert status_of(f"{address}v1/status", wrong) == 401
        with browser() as driver:
            driver.get(f"{address}#key={key}")
            wait_for(lambda: row(driver, "worker:1"), "the nodes")
            wait_for(lambda: charts(driver), "curves")
            assert complaints(driver) == []
    finally:
        kill(yarn, application)
    wait_for(lambda: not processes_of(application), "its processes to end")


#: Of the error, where YARN has preempted the container of a node.
PREEMPTED = re.compile(
    r"NodeFailedError: worker:\d \(node \d, executor (\d+) on \S+\) failed to .*"
    r"Spark says of executor \1: Container \S+ on host: \S+ was preempted\. "
    r"YARN gave its room to another queue"
)


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("load", marks=pytest.mark.failure("YARN preemption", "starting")),
        pytest.param("feed", marks=pytest.mark.failure("YARN preemption", "feeding")),
        pytest.param("train", marks=pytest.mark.failure("YARN preemption", "training")),
        pytest.param("shutdown", marks=pytest.mark.failure("YARN preemption", "shutdown")),
    ],
)
def test_a_preempted_container_ends_the_cluster_and_the_error_says_so(
    yarn, submit, tmp_path, leftovers, phase
):
    process = submit(*ONE_FAILURE, "--no-env", DRIVE, tmp_path, PROGRAMS[phase], phase)
    wait_for_line(process, phase)
    with urgent_application(yarn, URGENT_MB):
        output, _ = process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 1
    assert PREEMPTED.search(output), output


@pytest.mark.failure("YARN preemption", "training")
def test_others_go_on_without_a_preempted_node_until_another_comes(
    yarn, submit, tmp_path, leftovers
):
    process = submit(*ONE_FAILURE, "--no-env", DRIVE, tmp_path, "sum_until_another_came", "lose")
    wait_for_line(process, "lose")
    with urgent_application(yarn, URGENT_MB):
        before = wait_for_line(process, "alone")
    # Now there is room for another container.
    output = before + output_of(process, tmp_path)
    assert "was preempted. YARN gave its room to another queue" in output
    ended = next(line for line in output.splitlines() if line.startswith("ended "))
    first, second = json.loads(ended.removeprefix("ended "))["results"]
    assert first == second and first[-3:] == [2, 1, 2]


def wait_for_line(process, event):
    """Reads the driver's output up to the line of an event, and returns what came before it."""
    lines = []
    for line in process.stdout:
        if line.split()[:1] == [event]:
            return "".join(lines)
        lines.append(line)
    pytest.fail(f"the driver ended before {event!r}: {''.join(lines)}")


def running_application(yarn, submit, *options):
    """One whose nodes stay until it is killed."""
    before = newest(yarn).get("id")
    submit("--deploy-mode", "cluster", "--no-env", *options, PROGRAM, "wait")

    def running():
        application = newest(yarn)
        is_new = application.get("id") not in (None, before)
        return application if is_new and results(yarn, application) else None

    return wait_for(running, "the nodes to run", BOUND_SECONDS)


def kill(yarn, application):
    kill_application(yarn, application["id"])
    wait_for(lambda: newest(yarn).get("state") in _FINAL_STATES, "YARN to kill it")
    wait_for(lambda: newest(yarn).get("finalStatus") == "KILLED", "YARN to say so")


def processes_of(application):
    """Whose environment says that they are of a container of it."""
    containers = "container_" + application["id"].removeprefix("application_")
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("CONTAINER_ID", "").startswith(containers):
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue  # Somebody else's, or it has just ended.
    return found
