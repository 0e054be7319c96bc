"""A name service of two NameNodes: files stay open while one is killed and the other takes over."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import hadoop_cluster

BOUND_SECONDS = 180
pytestmark = pytest.mark.hdfs

PROGRAM = """
import pyarrow as pa
from tfos import records
from tfos.files.access import access_for
access, root = access_for("hdfs://tfos/data")
batch = pa.record_batch({"id": range(300_000)})
records.write(f"{root}/read", [batch])
writing = access.create(f"{root}/written")
writing.write(b"x" * 1_000_000)
writing.flush()
reading = iter(records.read(f"{root}/read"))
rows = next(reading).num_rows
print("halfway", flush=True)
input()
writing.write(b"y" * 1_000_000)
writing.close()
rows += sum(batch.num_rows for batch in reading)
access.rename(f"{root}/written", f"{root}/renamed")
print(rows, [(status.path, status.size) for status in access.list(root)][-1])
"""


@pytest.mark.long
def test_files_survive_the_loss_of_the_active_name_node(tmp_path):
    with hadoop_cluster.HadoopCluster(directory=tmp_path, ha=True) as cluster:
        assert cluster.uri == "hdfs://tfos"
        environment = {**os.environ, "HADOOP_CONF_DIR": str(cluster.configuration)}
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            try:
                assert process.stdout.readline() == "halfway\n"
                cluster.fail_over()
                found, _ = process.communicate("\n", timeout=BOUND_SECONDS)
            finally:
                process.kill()
    assert process.returncode == 0
    assert found == "300000 ('hdfs://tfos/data/renamed', 2000000)\n"
