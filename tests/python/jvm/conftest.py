"""Fixtures of the tests of the jar for the JVM: one executor, and the jar's classes in its driver."""

from __future__ import annotations

import numpy as np
import pytest

ONE_EXECUTOR = "local-cluster[1,4,1024]"


@pytest.fixture(scope="module")
def spark(spark_on):
    """An executor, a JVM of its own."""
    return spark_on(ONE_EXECUTOR)


@pytest.fixture(scope="module")
def jvm(spark):
    """The driver's."""
    return spark.sparkContext._jvm


@pytest.fixture(scope="module")
def old(jvm):
    return jvm.com.yahoo.tensorflowonspark


@pytest.fixture(scope="module")
def new(jvm):
    return jvm.tfos


@pytest.fixture(scope="module")
def numbers(models):
    return np.load(models / "keras.npz")


@pytest.fixture(scope="module")
def digits(spark, numbers):
    """The numbers of the Keras model, in two partitions."""
    rows = [(n, x.tolist()) for n, x in enumerate(numbers["x"])]
    return spark.createDataFrame(rows, "id long, x array<float>")
