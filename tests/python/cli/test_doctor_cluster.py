"""`tfos doctor --cluster`: the checks of every host as one table."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import spark_cluster
import tfos
from support.spark.fake import FakeSparkContext
from tfos.base import executable
from tfos.cli import doctor_cluster
from tfos.cli.checks import FAIL, OK, WARN, Check

#: Hides TensorFlow from the Pythons of one host: they look into its packages' metadata.
LACKS_TENSORFLOW = """
import importlib.metadata
plain = importlib.metadata.version

def version(name):
    if name.startswith(("tensorflow", "jax", "torch")):  # With one of those it is a warning.
        raise importlib.metadata.PackageNotFoundError(name)
    return plain(name)

importlib.metadata.version = version
"""


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [executable.path(), "doctor", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_equal_results_of_hosts_are_one_line() -> None:
    python = Check(OK, "Python", "3.11.7")
    reports = {
        "b": [python, Check(FAIL, "numpy", "not installed", "pip install numpy")],
        "a": [python, Check(OK, "numpy", "2.4.6")],
        "c": [python, Check(WARN, "numpy", "1.0", "upgrade"), Check(OK, "more", "there")],
    }
    lines = doctor_cluster.lines_of(reports)
    assert [(line.check.what, line.hosts) for line in lines] == [
        ("Python", ["a", "b", "c"]),
        ("numpy", ["a"]),
        ("numpy", ["b"]),
        ("numpy", ["c"]),
        ("more", ["c"]),
    ]
    assert doctor_cluster.table_of(lines, 3).splitlines() == [
        "      check   hosts  found",
        "ok    Python  all 3  3.11.7",
        "ok    numpy   a      2.4.6",
        "FAIL  numpy   b      not installed; pip install numpy",
        "WARN  numpy   c      1.0; upgrade",
        "ok    more    c      there",
    ]


def test_what_hosts_would_do_by_default_gives_way_to_what_the_application_does() -> None:
    rpc = Check(WARN, "Spark's RPC", "not authenticated", "set it")
    reports = {"a": [Check(OK, "Python", "3.11"), Check(OK, "Spark's RPC", "no file")], "b": []}
    assert doctor_cluster.with_application(reports, rpc) == {
        "a": [Check(OK, "Python", "3.11"), rpc],
        "b": [],
    }


def test_hosts_with_another_version_of_tfos_are_named() -> None:
    here = [Check(OK, "Python", "3.11"), Check(OK, "tfos", "0.1.0")]
    there = [Check(OK, "Python", "3.11"), Check(OK, "tfos", "0.2.0")]
    lacks_it = [Check(FAIL, "Python packages", "python3 has no tfos", "install it")]
    reports = doctor_cluster.with_one_version({"a": here, "b": there, "c": lacks_it}, "0.1.0")
    assert (reports["a"], reports["c"]) == (here, lacks_it)
    assert reports["b"] == [
        there[0],
        Check(
            FAIL,
            "tfos",
            "0.2.0",
            "the Python that runs this has 0.1.0: install the same version of tfos everywhere",
        ),
    ]


@pytest.mark.parametrize("master", ["yarn", "k8s://https://h"])
@pytest.mark.parametrize(("conf", "asked"), [({}, 2), ({"spark.executor.instances": "40"}, 40)])
def test_hosts_without_an_executor_are_not_said_to_be_checked(
    master: str, conf: dict[str, str], asked: int
) -> None:
    said = doctor_cluster.coverage(FakeSparkContext(master, conf=conf), 2)
    assert f"asked for {asked} executor(s), and tasks ran on 2 host(s)" in said
    assert "--conf spark.executor.instances=N checks more" in said


@pytest.mark.parametrize("as_json", [False, True])
def test_how_many_executors_were_asked_for_is_said_beside_the_table(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = FakeSparkContext("yarn")
    context.setLogLevel = lambda level: None
    session = SimpleNamespace(sparkContext=context, stop=lambda: None)
    monkeypatch.setattr(doctor_cluster, "_session", lambda master, settings: session)
    reports = {"a": [Check(OK, "Python", "3.11.7")]}
    monkeypatch.setattr(doctor_cluster, "check_cluster", lambda context: reports)
    assert doctor_cluster.main(["yarn", *["--json"] * as_json]) == 0
    printed = capsys.readouterr()
    assert "ran on 1 host(s)" in printed.err and "1 host(s)" not in printed.out
    if as_json:
        assert [check["hosts"] for check in json.loads(printed.out)] == [["a"]]


def test_each_host_of_a_standalone_cluster_has_an_executor() -> None:
    assert doctor_cluster.coverage(FakeSparkContext("spark://h:7077"), 3) == ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The master of two Workers, each a host of its own to Spark; the second lacks TensorFlow."""
    directory = tmp_path_factory.mktemp("hosts")
    lacking = directory / "lacking"
    lacking.mkdir()
    (lacking / "sitecustomize.py").write_text(LACKS_TENSORFLOW)
    path = os.pathsep.join(filter(None, [str(lacking), os.environ.get("PYTHONPATH")]))
    hosts = (
        spark_cluster.Host("127.0.0.1"),
        spark_cluster.Host("127.0.0.2", ("env", f"PYTHONPATH={path}")),
    )
    with spark_cluster.SparkCluster(directory=directory, hosts=hosts) as started:
        yield started.url


@pytest.mark.spark
@pytest.mark.long
def test_a_host_that_lacks_something_is_named(cluster: str, leftovers: None) -> None:
    done = run("--cluster", cluster)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    (python,) = [line for line in lines if line.split()[1:3] == ["Python", "all"]]
    assert python.startswith("ok") and "  all 2  " in python
    (version,) = [line for line in lines if line.split()[1:3] == ["tfos", "all"]]
    assert version.startswith("ok") and tfos.__version__ in version
    (lacks,) = [line for line in lines if line.startswith("FAIL")]
    assert "TensorFlow" in lacks and "127.0.0.2" in lacks and "127.0.0.1" not in lacks
    assert 'not installed; pip install "tensorflow' in lacks
    (rpc,) = [line for line in lines if "Spark's RPC" in line]
    assert rpc.startswith("WARN") and "  all 2  " in rpc
    assert "not authenticated, not encrypted" in rpc
    (has,) = [line for line in lines if "TensorFlow" in line and line.startswith("ok")]
    assert "127.0.0.1" in has and "2." in has


@pytest.mark.long
@pytest.mark.spark
def test_the_table_is_json_too_and_spark_takes_settings(cluster: str) -> None:
    # With one core there is one executor, so the other host is not asked.
    done = run("--cluster", cluster, "--json", "--conf", "spark.cores.max=1")
    (hosts,) = {tuple(check["hosts"]) for check in json.loads(done.stdout)}
    assert hosts in (("127.0.0.1",), ("127.0.0.2",))
    assert done.returncode == (hosts == ("127.0.0.2",)), done.stderr


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("place", ["option", "file"])
def test_a_python_that_is_nowhere_is_named(cluster: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.pyspark.python /nowhere/python\n" if place == "file" else ""
    )
    option = ["--conf", "spark.pyspark.python=/nowhere/python"] if place == "option" else []
    done = run("--cluster", cluster, *option, SPARK_CONF_DIR=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tfos doctor: the job that checks the hosts failed: ")
    assert "/nowhere/python" in last


def test_a_setting_needs_a_value() -> None:
    done = run("--cluster", "spark://127.0.0.1:1", "--conf", "spark.cores.max")
    assert done.returncode == 2
    assert "'spark.cores.max' is not KEY=VALUE" in done.stderr
