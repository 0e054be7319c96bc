"""Spark jobs in threads of their own."""

from __future__ import annotations

import threading

import pytest

from support.spark_errors import SPARK_ERRORS
from support.waiting import BOUND_SECONDS
from tfos.spark.jobs import SparkJob


def test_a_job_that_is_cancelled_before_spark_begins_it_never_runs(spark, tmp_path):
    """As while Spark still plans it, which may take long."""
    begun, planned = threading.Event(), threading.Event()
    ran = tmp_path / "ran"

    def action():
        begun.set()
        assert planned.wait(BOUND_SECONDS)
        spark.sparkContext.parallelize([0], 1).foreach(lambda _: ran.touch())

    job = SparkJob(spark.sparkContext, "tfos-test-cancelled", "a test", action, lambda _job: None)
    assert begun.wait(BOUND_SECONDS)
    job.cancel()
    planned.set()
    with pytest.raises(SPARK_ERRORS, match="cancelled"):
        job.result()
    assert not ran.exists()
