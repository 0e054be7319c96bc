"""Fixtures of the tests of old programs: TensorFlowOnSpark's clusters, and what their nodes saw."""

import argparse
import json

import pytest

from tensorflowonspark import TFCluster


@pytest.fixture
def args(tmp_path):
    return argparse.Namespace(notes=str(tmp_path))


@pytest.fixture
def notes(tmp_path):
    def read():
        return {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}

    return read


@pytest.fixture
def run(spark, leftovers):
    """TFCluster.run on the shared SparkContext; what a failed test leaves running is ended."""
    clusters = []

    def start(*arguments, **keywords):
        clusters.append(TFCluster.run(spark.sparkContext, *arguments, **keywords))
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.cluster.__exit__(RuntimeError, RuntimeError("the test failed"), None)
