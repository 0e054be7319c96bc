"""Everything that a cluster does with files, on s3a://: an S3 that is moto's."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import uuid

import pyarrow as pa
import pytest

import s3_server
from support.places import IMPORT_PATHS, SCRIPTS
from tfos import records
from tfos.spark import installation


@pytest.mark.long
@pytest.mark.spark
def test_a_cluster_reads_trains_saves_and_predicts_on_s3a(s3):
    paths = [*IMPORT_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, SCRIPTS / "s3_driver.py", f"{s3.uri}/{uuid.uuid4().hex}"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=280,
        env={**os.environ, **s3.environment, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0
    assert done.stdout.split() == ["records", "killed", "resumed", "predicted"]


def test_a_file_that_failed_takes_no_place_later(s3a):
    path = f"{s3a.uri}/{uuid.uuid4().hex}.tfrecord"

    def rows():
        yield pa.record_batch({"id": [1]})
        raise ValueError("a bad row")

    with pytest.raises(ValueError) as failed:
        records.write(path, rows())
    assert records.write(path, [pa.record_batch({"id": range(3)})]) == 3
    # The writer that failed goes with the last that remembers it.
    del failed
    gc.collect()
    assert records.verify(path)["records"] == 3


def test_the_connector_is_of_the_version_of_sparks_client():
    [client] = (installation.pyspark_home() / "jars").glob("hadoop-client-api-*.jar")
    assert client.stem == f"hadoop-client-api-{s3_server.CLIENT_VERSION}"
