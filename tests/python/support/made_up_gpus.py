"""A standalone cluster whose Workers have GPUs of a discovery script's making."""

from __future__ import annotations

import pathlib

from spark_cluster import SparkCluster


def workers_with_gpus(count: int, directory: pathlib.Path, gpus: int = 1) -> SparkCluster:
    """`count` Workers of two cores and `gpus` GPUs each, which take part in decommissioning."""
    script = directory / "discover"
    # Each Worker's GPUs have names of their own, as those of hosts would have.
    addresses = ",".join(f'\\"$PPID-{number}\\"' for number in range(gpus))
    script.write_text(f'#!/bin/sh\necho "{{\\"name\\":\\"gpu\\",\\"addresses\\":[{addresses}]}}"\n')
    script.chmod(0o755)
    options = {
        "spark.worker.resource.gpu.amount": gpus,
        "spark.worker.resource.gpu.discoveryScript": script,
        "spark.decommission.enabled": "true",
    }
    return SparkCluster(count, cores=2, memory="1g", directory=directory, worker_options=options)
