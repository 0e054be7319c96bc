"""Fixtures of the tests of TFRecords as a data source, on a real Spark.

What uses `source` runs twice: with the format of the jar, and with the one that sessions without it
have.
"""

from __future__ import annotations

import pytest

import tfos
from support.files.record_source import PYTHON_FORMAT, Source
from tfos.records.spark import sessions as tfrecord_sessions


@pytest.fixture(scope="module", params=["jvm", "python"])
def source(request, spark):
    tfos.register_tfrecords(spark)  # There is the jar, so it changes nothing.
    tfrecord_sessions.register_python(spark, PYTHON_FORMAT)
    return Source(spark, request.param)
