"""Every example runs by itself and reaches what it promises, which its exit status tells."""

import re
import subprocess
import sys

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "examples"
#: Examples and the arguments that keep them short; more than one run where there are variants.
RUNS = [
    ("quickstart.py",),
    ("dataset.py",),
    # Three partitions for two nodes: one node gets more rows than the other.
    ("mnist_spark.py", "--epochs", "10", "--partitions", "3", "--min-accuracy", "0.8"),
    ("mnist_tensorflow.py", "--epochs", "5", "--min-accuracy", "0.8"),
    ("parameter_server.py",),
    ("streaming.py", "--source", "structured"),
    ("streaming.py", "--source", "dstream"),
    ("parameter_search.py", "--epochs", "2"),
]
PARTS = {"digits.py", "spark_session.py"}


def run_example(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout


@pytest.mark.parametrize("run", RUNS, ids=" ".join)
def test_example(run, leftovers):
    run_example(*run)


def test_every_example_is_run_here():
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    assert programs - PARTS == {run[0] for run in RUNS}


def test_the_demo_prints_dated_predictions(standalone_cluster, leftovers):
    printed = run_example(
        "mnist_spark.py", "--master", standalone_cluster.url, "--epochs", "6",
        "--min-accuracy", "0.5",
    )
    line = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} Label: \d, Prediction: \d"
    assert len(re.findall(rf"(?m)^{line}$", printed)) == 10
    assert re.search(r"(?m)^Accuracy: \d+\.\d\d%", printed)
