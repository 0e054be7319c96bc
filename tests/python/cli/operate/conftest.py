"""What tests of the commands that operate clusters start from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the clusters of a test leave their files."""
    path = tmp_path / "clusters"
    monkeypatch.setenv("TFOS_RUNTIME_DIR", str(path))
    return path


@pytest.fixture(scope="module")
def standalone_spark(spark_on, standalone_cluster):
    """A SparkSession on the standalone cluster of Spark."""
    return spark_on(standalone_cluster.url, **{"spark.executor.memory": "512m"})
