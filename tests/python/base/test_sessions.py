"""What may be passed as ``spark``, and what is said of anything else."""

from __future__ import annotations

import importlib
import sys

import pyspark.sql
import pytest

import tfos
from support.fake_spark import FakeSparkContext, fake_session
from tfos import parallel, util
from tfos.errors import BadInputError, TfosError
from tfos.inference import frames


class ConnectSession:
    """As Spark Connect's: it has no SparkContext, and its error for that is an AttributeError."""

    __module__ = "pyspark.sql.connect.session"

    @property
    def sparkContext(self):
        raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")


class ConnectFrame:
    sparkSession = ConnectSession()


ENTRIES = {
    "run": lambda spark: tfos.run(spark, print, nodes=1),
    "parallel.run": lambda spark: parallel.run(spark, print, instances=1),
    "register": tfos.register,
    "num_executors": util.num_executors,
    "num_param_servers": util.num_param_servers,
}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_session_of_spark_connect_is_refused_with_what_to_do(name):
    with pytest.raises(BadInputError, match="one of Spark Connect.*tfos submit.*SPARK_REMOTE"):
        ENTRIES[name](ConnectSession())


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_no_session_is_named(name):
    with pytest.raises(
        BadInputError, match="expected a SparkSession or a SparkContext, not a list"
    ):
        ENTRIES[name]([])


def test_frames_of_spark_connect_are_refused_too():
    with pytest.raises(BadInputError, match="one of Spark Connect"):
        frames.transform(ConnectFrame, model=None)
    with pytest.raises(BadInputError, match="one of Spark Connect"):
        tfos.save_tfrecords(ConnectFrame, "/somewhere")


@pytest.mark.parametrize("given", [FakeSparkContext, fake_session])
def test_parallel_takes_sessions_and_contexts(given):
    context = FakeSparkContext("local[2]")
    spark = fake_session(context) if given is fake_session else context
    with pytest.raises(BadInputError, match=r"3 instances were asked for .* at most 2 instances"):
        parallel.run(spark, print, instances=3)


@pytest.mark.parametrize("version", ["3.5.8", "4.0.1"])
def test_registering_with_an_older_spark_is_refused(version):
    with pytest.raises(BadInputError, match=f"needs Spark 4.1 or newer, and this is {version}"):
        tfos.register(fake_session(FakeSparkContext(version=version)))


def test_a_pyspark_without_python_data_sources_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.datasource", None)
    monkeypatch.delattr(pyspark.sql, "datasource", raising=False)
    for name in [name for name in sys.modules if name.startswith("tfos.records.spark.")]:
        package, _, module = name.rpartition(".")
        # So that the package has the same module again afterwards as `sys.modules` has.
        monkeypatch.setattr(sys.modules[package], module, sys.modules[name], raising=False)
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(TfosError, match="the format tfrecord needs Spark 4.1 or newer.*PySpark"):
        importlib.import_module("tfos.records.spark.sessions")
