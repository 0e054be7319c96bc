"""A standalone cluster whose Workers have GPUs of a discovery script's making."""

from __future__ import annotations

import pathlib

from spark_cluster import SparkCluster


def workers_with_gpus(count: int, directory: pathlib.Path) -> SparkCluster:
    """`count` Workers of two cores and a GPU each, which take part in decommissioning."""
    script = directory / "discover"
    # Each Worker's GPU has a name of its own, as those of hosts would have.
    script.write_text('#!/bin/sh\necho "{\\"name\\":\\"gpu\\",\\"addresses\\":[\\"$PPID\\"]}"\n')
    script.chmod(0o755)
    options = {
        "spark.worker.resource.gpu.amount": 1,
        "spark.worker.resource.gpu.discoveryScript": script,
        "spark.decommission.enabled": "true",
    }
    return SparkCluster(count, cores=2, memory="1g", directory=directory, worker_options=options)
