"""Executors whose tfos is of another version than the driver's."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

import tfos
from support.waiting import BOUND_SECONDS
from tfos.errors import NodeFailedError

OLD = "0.0.9"
EXPECTED = (
    f"{sys.executable} on {socket.gethostname()} has tfos {OLD}, and the driver has tfos "
    f"{tfos.__version__}: install the same version on all hosts"
)
#: PATH: the modules of the executors.
INSTANCE = """
import sys
from pyspark.sql import SparkSession
from tfos import parallel

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.executorEnv.PYTHONPATH", sys.argv[1]).getOrCreate()
parallel.run(spark, print, instances=1)
"""


@pytest.fixture
def old_tfos(tmp_path):
    """A path for modules with a tfos that has little of what this one has."""
    package = tmp_path / "tfos"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_version.py").write_text(f'__version__ = "{OLD}"\n')
    (package / "errors.py").write_text("class TfosError(RuntimeError):\n    pass\n")
    return str(tmp_path)


def test_another_version_beside_a_node_is_named_with_its_host(spark_on, old_tfos):
    spark = spark_on("local[1]", **{"spark.executorEnv.PYTHONPATH": old_tfos})
    with pytest.raises(NodeFailedError) as raised:
        tfos.run(spark, print, nodes=1)
    assert raised.value.failure.step == "launch the nodes"
    assert raised.value.failure.message.startswith(EXPECTED)


@pytest.mark.spark
def test_another_version_is_named_where_instances_are_all_that_runs(old_tfos):
    """In a process of its own: what a cluster or the jar needs explains Spark's errors, too."""
    done = subprocess.run(
        [sys.executable, "-c", INSTANCE, old_tfos],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
    )
    assert f"tfos.errors.TfosError: an instance failed: {EXPECTED}" in done.stderr
