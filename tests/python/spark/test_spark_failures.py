"""Failed Spark jobs in the words of tfos, without Spark."""

from __future__ import annotations

import pytest

from tfos import errors
from tfos.spark import failures

WORKER = """Traceback (most recent call last):
  File "/opt/pyspark/worker.py", line 1, in main
    process()
  File "/opt/tfos/inference/frames.py", line 100, in __call__
    raise BadInputError(f"{path}: {error}")
tfos.errors.BadInputError: /models/m, partition 1: column x has a null in row 7
"""
JOB = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 "
    "times, most recent failure: Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.9 executor 3): "
)


class Frame:
    def __init__(self, name):
        self.name = name

    def getClassName(self):
        return self.name


class Thrown:
    """As py4j has an exception of Java's."""

    def __init__(self, name, message, cause=None, thrower="org.apache.spark.X", error=None):
        self.name, self.message, self.cause = name, message, cause
        self.frames = [Frame(thrower)]
        self.error = lambda: error

    def getClass(self):
        return self

    def getName(self):
        return self.name

    def getMessage(self):
        return self.message

    def getCause(self):
        return self.cause

    def getStackTrace(self):
        return self.frames

    def toString(self):
        return f"{self.name}: {self.message}"


def job_that_failed(cause):
    return Thrown("org.apache.spark.SparkException", JOB.partition(": ")[2] + "...", cause)


SENTENCE = "/models/m, partition 1: column x has a null in row 7"
ILLEGAL = "java.lang.IllegalArgumentException"


@pytest.mark.parametrize(
    "cause",
    [
        Thrown(ILLEGAL, SENTENCE, thrower="tfos.internal.inference.ModelTask$Results"),
        Thrown(failures._PYTHON_EXCEPTION, WORKER),
        Thrown(failures._FEED_EXCEPTION, SENTENCE, error="BadInputError"),
        Thrown("x.Wrapped", "...", Thrown(failures._PYTHON_EXCEPTION, WORKER)),
    ],
    ids=["jar", "Python worker", "feed of the jar", "deep"],
)
def test_the_same_mistake_is_the_same_error_whoever_did_the_work(cause):
    found = failures.of_java(job_that_failed(cause))
    assert type(found) is errors.BadInputError
    assert str(found) == SENTENCE
    assert found.__notes__ == ["Raised in Spark's task 7 on 10.0.0.9, executor 3."]


def test_what_is_not_of_tfos_stays_as_it_is():
    assert failures.of_java(job_that_failed(Thrown(ILLEGAL, "not ours"))) is None
    user = WORKER.replace("tfos.errors.BadInputError", "ValueError")
    assert failures.of_java(job_that_failed(Thrown(failures._PYTHON_EXCEPTION, user))) is None
    error = ValueError(user)
    assert failures.explained(error) is error
    assert failures.of_text("tfos.errors.NoSuchError: x") is None
    known = errors.FeedError("x")
    assert failures.explained(known) is known


def test_what_is_appended_to_a_message_is_left_out():
    for appended in (
        "\n\tat tfos.internal.feed.NativeFeeder.write(Native Method)\n\tat x.Y.z(Y.java:1)",
        "\n\nJVM stacktrace:\norg.apache.spark.api.python.PythonException: ...",
        "\n\nDriver stacktrace:",
        "\n SQLSTATE: 38000",
    ):
        found = failures.of_text(f"{JOB}tfos.errors.FeedTimeoutError: nothing moved{appended}")
        assert type(found) is errors.FeedTimeoutError and str(found) == "nothing moved"


def test_the_last_error_of_a_chain_says_most():
    chain = (
        "Traceback (most recent call last):\n  File ...\ntfos.errors.BadInputError: a null\n\n"
        "The above exception was the direct cause of the following exception:\n\n" + WORKER
    )
    assert str(failures.of_text(chain)) == SENTENCE


@pytest.mark.parametrize(
    "between",
    [
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ],
)
def test_an_error_that_another_one_came_of_is_not_the_failure(between):
    chain = (
        f"{WORKER}\n{between}\n\nTraceback (most recent call last):\n  File ...\nValueError: mine\n"
    )
    assert failures.of_text(chain) is None
    assert failures.of_java(job_that_failed(Thrown(failures._PYTHON_EXCEPTION, chain))) is None
    thrown = f"{JOB}tfos.errors.BadInputError: a null\n\n{between}\n\nValueError: mine"
    assert failures.of_text(thrown) is None


def test_a_message_that_holds_a_traceback_is_whole():
    message = (
        "worker:0 (node 0, executor 1 on h) failed to run the program: BadInputError: x\n"
        "Remote traceback:\nTraceback (most recent call last):\n  File ...\n"
        "tfos.errors.BadInputError: x"
    )
    found = failures.of_text(f"Traceback ...\ntfos.errors.NodeFailedError: {message}\n")
    assert type(found) is errors.NodeFailedError and str(found) == message
    marked = f"instance 0 on h:\n{failures.MARK}\ntfos.errors.BadInputError: x\n{failures.MARK}"
    found = failures.of_text(f"Traceback ...\ntfos.errors.TfosError: {marked}")
    assert type(found) is errors.TfosError and str(found) == marked.rstrip()
