"""The jar for the JVM, in a real Spark: reached from here through Spark's own gateway."""

from __future__ import annotations

import pytest
from conftest import TWO_EXECUTORS

import tfos


@pytest.fixture(scope="module")
def spark(spark_on):
    """Two executors, JVMs of their own, with the jar."""
    return spark_on(TWO_EXECUTORS, jars=tfos.jar_path())


@pytest.fixture(scope="module")
def jvm(spark):
    """The driver's."""
    return spark.sparkContext._jvm


def test_the_native_library_is_that_of_the_jar(jvm):
    assert jvm.tfos.internal.NativeLibrary.version() == tfos.__version__
