"""A program on a real standalone cluster, submitted with `tfos submit` and a packed Python."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from support.environments import tiny_environment
from support.places import RUN_VARIABLE, SCRIPTS
from tfos.base import executable

BOUND_SECONDS = 300
pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * BOUND_SECONDS)]


@pytest.mark.parametrize("stored", [False, True], ids=["from the driver", "stored for all"])
def test_a_packed_environment_reaches_the_executors(
    standalone_cluster, tmp_path, stored, leftovers
):
    seen, archives = tmp_path / "seen", tmp_path / "archives"
    seen.mkdir()
    (seen / "found").touch()
    words = ["submit", "--master", standalone_cluster.url]
    words += ["--python-env", tiny_environment(tmp_path), "--executor-memory", "512m"]
    if stored:
        words += ["--env-directory", archives.as_uri()]
    for name in (RUN_VARIABLE, "JDK_JAVA_OPTIONS"):
        words += ["--conf", f"spark.executorEnv.{name}={os.environ[name]}"]
    words += ["--conf", "spark.ui.enabled=false", SCRIPTS / "submitted_program.py", seen.as_uri()]
    # SparkSubmit sees nothing of the tests, as a user's would not.
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [executable.path(), *map(str, words)],
        env={**environment, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    assert len(list(archives.glob("tiny-*.tar.gz"))) == stored
    (result,) = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert pathlib.Path(result["driver"]).parent == pathlib.Path(sys.executable).parent
    pythons = {pathlib.Path(node["python"]) for node in result["nodes"]}
    assert len(pythons) == 2, "each executor has unpacked it into a folder of its own"
    for python in pythons:
        assert python.is_relative_to(standalone_cluster.directory / "work")
        assert python.parts[-3:] == ("environment", "bin", "python")
    assert [node["found"] for node in result["nodes"]] == ["found", "found"]
    assert sum(node["rows"] for node in result["nodes"]) == 20 * 100
