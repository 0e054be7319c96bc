"""Paths of programs as full URIs."""

import pytest

from support.spark.fake import FakeSparkContext
from tfos.files import paths


@pytest.mark.parametrize(
    "uri",
    [
        "hdfs://nn:8020/a",
        "viewfs://cluster/a",
        "file:///a",
        "file:/a",
        "s3://b/k",
        "s3a://b/k",
        "s3n://b/k",
        "gs://b/k",
        "gcs://b/k",
        "abfs://c@a.dfs.core.windows.net/k",
        "abfss://c@a/k",
        "wasb://c@a/k",
        "wasbs://c@a/k",
        "oss://b/k",
        "cosn://b/k",
        "maprfs:///k",
        "har:///a.har",
        "svn+x-1.0://h/p",
    ],
)
@pytest.mark.parametrize("default_fs", ["hdfs://nn", "file://", "s3a://bucket"])
def test_a_full_uri_passes_through(default_fs, uri):
    assert paths.resolve(default_fs, "/wd", uri) == uri


@pytest.mark.parametrize(
    ("default_fs", "path", "expected"),
    [
        ("hdfs://", "/a/b", "hdfs:///a/b"),
        ("hdfs://", "a/b", "hdfs:///user/ann/a/b"),
        ("hdfs://nn:9000", "/a/b", "hdfs://nn:9000/a/b"),
        ("hdfs://nn:9000/", "a/b", "hdfs://nn:9000/user/ann/a/b"),
        ("viewfs://", "/a/b", "viewfs:///a/b"),
        ("viewfs://c", "a/b", "viewfs://c/user/ann/a/b"),
        ("file://", "/a/b", "file:///a/b"),
        ("file://", "a/b", "file:///wd/sub/a/b"),
        ("file:///", "/a/b", "file:///a/b"),
        ("file:///", "a/b", "file:///wd/sub/a/b"),
        ("file:/", "a/b", "file:///wd/sub/a/b"),
        ("s3a://bucket", "a/b", "s3a://bucket/a/b"),
        ("gs://bucket/", "/a/b", "gs://bucket/a/b"),
        ("maprfs://", "a/b", "maprfs:///a/b"),
    ],
)
def test_other_paths_are_completed(default_fs, path, expected):
    assert paths.resolve(default_fs, "/wd/sub", path, user="ann") == expected


def test_a_colon_in_a_name_is_no_scheme():
    assert paths.resolve("hdfs://nn", "/wd", "12:30/x", user="ann") == "hdfs://nn/user/ann/12:30/x"


def test_the_user_is_the_one_hadoop_acts_as(monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    assert paths.resolve("hdfs://nn", "/wd", "x") == "hdfs://nn/user/etl/x"
    monkeypatch.delenv("HADOOP_USER_NAME")
    monkeypatch.setenv("SPARK_USER", "ann")
    assert paths.resolve("hdfs://nn", "/wd", "x") == "hdfs://nn/user/ann/x"
    monkeypatch.delenv("SPARK_USER")
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    assert paths.resolve("hdfs://nn", "/wd", "x") == "hdfs://nn/user/bob/x"


def test_a_session_has_the_home_of_its_own_user(monkeypatch):
    monkeypatch.setenv("SPARK_USER", "bob")
    context = FakeSparkContext(hadoop_conf={"fs.defaultFS": "hdfs://nn"})
    context.sparkUser = lambda: "ann"
    assert paths.in_session(context, "run") == "hdfs://nn/user/ann/run"
    del context.sparkUser  # Nobody asks for it where no home is meant.
    assert paths.in_session(context, "/run") == "hdfs://nn/run"
    assert paths.in_session(context, "s3a://bucket/run") == "s3a://bucket/run"


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("file:///", "file://"),
        ("hdfs://nn:8020", "hdfs://nn:8020"),
        ("hdfs://nn/", "hdfs://nn"),
        (None, "file://"),
    ],
)
def test_default_fs_has_no_trailing_slash(configured, expected):
    assert paths.default_fs(FakeSparkContext(hadoop_conf={"fs.defaultFS": configured})) == expected


def test_a_user_without_a_name_is_its_number(monkeypatch):
    for variable in ("HADOOP_USER_NAME", "SPARK_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(paths.os, "getuid", lambda: 1000650000)
    assert paths.current_user() == "1000650000"
