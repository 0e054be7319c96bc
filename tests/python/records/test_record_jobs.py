"""TFRecords by jobs, as sessions of Spark 3.5 without the jar read and write them."""

from __future__ import annotations

import datetime
import os

import pyarrow as pa
import pytest

import tfos
from support.files.remote_files import visible_in
from support.spark.errors import SPARK_ERRORS
from tfos.errors import BadInputError
from tfos.records.spark import jobs, sessions, writer


def frame_of(spark, count=100):
    return spark.range(count, numPartitions=3).selectExpr(
        "id", "id / 4 AS half", "array(cast(id AS string), 'b') AS words", "id % 2 AS parity"
    )


def rows_of(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_what_is_written_is_read_back(spark, tmp_path):
    frame = frame_of(spark)
    path = str(tmp_path / "out")
    sessions.save_by_job(frame, path, "error", {"compression": "gzip"})
    names = visible_in(tmp_path / "out")
    assert len(names) == 3
    assert all(name.endswith(".tfrecord.gz") for name in names)
    assert (tmp_path / "out/_SUCCESS").exists()
    assert rows_of(sessions.load_by_job(spark, path, frame.schema)) == rows_of(frame)
    tfos.register_tfrecords(spark)
    by_format = spark.read.format("tfrecord").schema(frame.schema).load(path)
    assert rows_of(by_format) == rows_of(frame)


def test_each_task_gets_its_own_partition_alone(spark, tmp_path):
    class Partition:
        def __init__(self, number):
            self.number = number

        def __setstate__(self, state):
            vars(self).update(state)
            with open(tmp_path / "arrived", "a") as file:
                file.write(f"{self.number}\n")

    class Reader:
        def partitions(self):
            return [Partition(number) for number in range(5)]

        def read(self, partition):
            yield pa.record_batch({"number": pa.array([partition.number], pa.int64())})

    frame = jobs.load(spark, Reader(), "number long")
    assert [row.number for row in frame.collect()] == [0, 1, 2, 3, 4]
    assert sorted((tmp_path / "arrived").read_text().split()) == ["0", "1", "2", "3", "4"]


def test_save_modes_are_those_of_spark(spark, tmp_path):
    frame = frame_of(spark, 4)
    path = str(tmp_path / "out")
    counts = []
    for mode in ("error", "append", "ignore", "overwrite"):
        sessions.save_by_job(frame, path, mode, {})
        counts.append(sessions.load_by_job(spark, path, frame.schema).count())
    assert counts == [4, 8, 8, 4]
    with pytest.raises(BadInputError, match="is there already"):
        sessions.save_by_job(frame, path, "errorifexists", {})


def test_save_tfrecords_makes_directories_on_an_older_spark(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(sessions.versions, "has_python_data_sources", lambda version: False)
    monkeypatch.setattr(sessions, "_is_in_jvm", lambda spark: False)
    frame = frame_of(spark)
    path = str(tmp_path / "out")
    tfos.save_tfrecords(frame, path, partition_by="parity")
    assert sorted(name for name in os.listdir(path) if "=" in name) == ["parity=0", "parity=1"]
    columns = sessions.load(spark, path, frame.schema)
    assert rows_of(columns) == rows_of(frame)
    assert sessions.load(spark, f"{path}/parity=1", frame.drop("parity").schema).count() == 50


def test_options_have_any_case(spark, tmp_path):
    frame = spark.createDataFrame([(7, [[1.0], []])], "id long, steps array<array<float>>")
    options = {"RECORDTYPE": "SequenceExample", "Compression": "gzip", "compressionlevel": 1}
    sessions.check_writable(frame, "error", [], options)
    sessions.save_by_job(frame, str(tmp_path / "out"), "error", options)
    assert all(name.endswith(".tfrecord.gz") for name in visible_in(tmp_path / "out"))
    tfos.register_tfrecords(spark)
    reader = spark.read.format("tfrecord").option("recordType", "SequenceExample")
    assert reader.schema(frame.schema).load(str(tmp_path / "out")).collect() == frame.collect()
    with pytest.raises(BadInputError, match="the option levels; there are compression"):
        sessions.save_by_job(frame, str(tmp_path / "out"), "append", {"levels": 1})


def test_names_may_have_dots_and_backticks(spark, tmp_path):
    frame = spark.range(3).selectExpr("id AS `a.b`", "id * 2 AS `c``d`", "id % 2 AS `e.f`")
    sessions.save_by_python(frame, str(tmp_path / "format"), "error", ["e.f"], "tfrecord_dots", {})
    sessions.save_by_job(frame, str(tmp_path / "job"), "error", {})
    for path in (tmp_path / "format", tmp_path / "job"):
        again = sessions.load_by_job(spark, str(path), frame.schema)
        assert again.schema.names == ["a.b", "c`d", "e.f"]
        assert rows_of(again) == [(0, 0, 0), (1, 2, 1), (2, 4, 0)]


def test_nothing_is_visible_of_a_job_that_fails(spark, tmp_path):
    path = str(tmp_path / "out")
    bad = spark.range(10, numPartitions=2).selectExpr(
        "id", "CASE WHEN id = 9 THEN raise_error('no row') ELSE 'a' END AS word"
    )
    with pytest.raises(SPARK_ERRORS, match="no row"):
        sessions.save_by_job(bad, path, "error", {})
    assert visible_in(tmp_path / "out") == []
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert not (tmp_path / "out/_temporary").exists()


def test_a_commit_that_fails_leaves_the_old_files_and_nothing_else(spark, tmp_path, monkeypatch):
    path = tmp_path / "out"
    sessions.save_by_job(spark.range(3), str(path), "error", {})
    before = sorted(os.listdir(path))

    def commit(output, written, *arguments, **options):
        os.unlink(os.path.join(output.temporary, written[-1].files[-1][0]))
        committing(output, written, *arguments, **options)

    committing = writer.Output.commit
    monkeypatch.setattr(writer.Output, "commit", commit)
    for mode in ("append", "overwrite"):
        with pytest.raises(FileNotFoundError):
            sessions.save_by_job(spark.range(10, numPartitions=2), str(path), mode, {})
        assert sorted(os.listdir(path)) == before


def test_columns_that_records_cannot_hold_are_refused_before_anything_runs(spark, tmp_path):
    dates = spark.createDataFrame([(datetime.date(2020, 1, 1),)], "day date")
    with pytest.raises(BadInputError, match="day"):
        sessions.save_by_job(dates, str(tmp_path / "out"), "error", {})
    assert not (tmp_path / "out").exists()
