"""Spark jobs in threads of their own."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from support.spark.errors import SPARK_ERRORS
from support.waiting import BOUND_SECONDS
from tfos.spark.jobs import SparkJob, SparkJobs


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


class Result:
    pass


def test_jobs_that_have_ended_are_forgotten_and_their_names_are_not_used_again(spark):
    """A stream starts one for each of its intervals."""
    jobs = SparkJobs(spark.sparkContext, "test-many")
    let_go = threading.Event()

    def start(action):
        return jobs.start("feed", "rows", action, lambda _job: None)

    running = start(let_go.wait)
    names, results = {running.group}, []
    for _ in range(3):
        ended = start(Result)
        names.add(ended.group)
        results.append(weakref.ref(ended.result()))
        ended._thread.join(BOUND_SECONDS)
    last = start(let_go.wait)
    names.add(last.group)
    del ended
    gc.collect()
    assert [result() for result in results] == [None] * 3
    assert len(names) == len(jobs) == 5

    jobs.cancel()
    assert running._cancelled and last._cancelled, "those that still run"
    let_go.set()
