"""The programs and commands of the tutorials for clusters, as their pages have them, on a Spark Master
with two Workers, and on a YARN and HDFS of this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from support import pages
from support.places import ROOT
from tfos.base import executable

BOUND_SECONDS = 600
pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(BOUND_SECONDS + 60)]

STANDALONE, YARN = (
    next(page for page in pages.PAGES if pages.name(page) == name)
    for name in ("docs/tutorial/standalone.md", "docs/tutorial/yarn.md")
)


def commands(page, beginning):
    """The page's commands that begin so, each in one line."""
    code = "".join(block.code for block in pages.blocks(page) if block.language == "sh")
    lines = re.sub(r"\\\n\s*", " ", code).splitlines()
    return [line for line in lines if line.startswith(beginning)]


def program(directory):
    """Writes train.py as the first of the pages has it."""
    (block,) = (block for block in pages.blocks(STANDALONE) if block.language == "python")
    (directory / "train.py").write_text(block.code)


def run_on(harness, lines, directory):
    """Runs lines of a shell, one after the other, with a cluster that is started for them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment["PATH"] = f"{os.path.dirname(executable.path())}:{environment['PATH']}"
    script = "\n".join(["set -ex", *lines])
    done = subprocess.run(
        [sys.executable, *harness, "--", "sh", "-c", script],
        cwd=directory,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BOUND_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-20000:]
    return done.stdout


def test_the_standalone_tutorial(tmp_path, leftovers):
    program(tmp_path)
    (doctor,) = commands(STANDALONE, "tfos doctor")
    (submit,) = commands(STANDALONE, "tfos submit")
    (whole,) = commands(STANDALONE, ".venv/bin/python tools/spark_cluster.py")
    _, harness, *rest = shlex.split(whole)
    there = [
        line.replace("spark://host:7077", "{master}").replace("/nfs/", f"{tmp_path}/")
        for line in (doctor, submit)
    ]
    last = shlex.join(rest[1:]).replace(".venv/bin/", "").replace("/tmp/", f"{tmp_path}/")
    # The shell is to see no braces.
    output = run_on([ROOT / harness], [*there, last.replace("'{master}'", "{master}")], tmp_path)
    for model in ("models/digits", "digits"):
        assert (tmp_path / model / "saved_model.pb").exists(), output[-8000:]


def test_the_tutorial_of_yarn_and_hdfs(tmp_path, leftovers):
    program(tmp_path)
    write = next(block for block in pages.blocks(YARN) if block.language == "python")
    (tmp_path / "write_digits.py").write_text(write.code)
    submits = commands(YARN, "tfos submit")
    (infer,) = commands(YARN, "tfos infer")
    (whole,) = commands(YARN, ".venv/bin/python tools/hadoop_cluster.py")
    _, harness, *options = shlex.split(whole)
    # A test of its own has a packed Python; here it would be packed for minutes. Spark attaches its
    # pages without the lock under which YARN's filter is added to them: where both happen at once,
    # a driver ends at its start.
    for shown, here in {
        r"--env-directory \S+": "--no-env",
        "--executor-memory 2g": "--executor-memory 512m",
        "--master yarn": "--master yarn --conf spark.ui.enabled=false",
    }.items():
        assert all(re.search(shown, submit) for submit in submits)
        submits = [re.sub(shown, here, submit) for submit in submits]
    place = ["--directory", tmp_path / "hdfs"]
    options = options[: options.index("--")]
    output = run_on([ROOT / harness, *place, *options], [*submits, infer], tmp_path)
    assert '"hdfs:///user/me/scores.parquet", "rows": 1797' in output
