"""The parts of the format in Python, without Spark: the commit, lists of files, types."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import uuid

import cloudpickle
import pyarrow as pa
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import types as sql

from support.files.remote_files import names_in, write_bytes
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.records import listing
from tfos.records.spark import types, writer
from tfos.records.spark.options import plan_reading
from tfos.records.spark.reader import TFRecordReader


def test_a_commit_counts_only_what_spark_counts(tmp_path):
    output = writer.Output(str(tmp_path), "job")
    os.makedirs(output.temporary)
    for name in ("a", "a-of-a-failed-attempt"):
        (tmp_path / "_temporary/job" / name).write_text("new")
    (tmp_path / "old").write_text("old")
    os.makedirs(tmp_path / "_temporary/other-job")
    output.commit([writer.Written([("a", "part-a")], 1)], overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["_SUCCESS", "_temporary", "part-a"]
    assert os.listdir(tmp_path / "_temporary") == ["other-job"]


def test_a_commit_that_fails_keeps_the_old_files(tmp_path):
    output = writer.Output(str(tmp_path), "job")
    os.makedirs(output.temporary)
    (tmp_path / "old").write_text("old")
    with pytest.raises(FileNotFoundError):
        output.commit([writer.Written([("gone", "part-a")], 1)], overwrite=True)
    output.abort()
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.parametrize("overwrites_all", [True, False])
def test_overwriting_deletes_a_link_and_not_what_it_leads_to(tmp_path, overwrites_all):
    directory, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    output = writer.Output(str(directory), "job")
    os.makedirs(output.temporary)
    (directory / "_temporary/job/a").write_text("new")
    for name in ("day=1", "day=2", "day=3"):
        elsewhere.joinpath(name).mkdir(parents=True)
        (elsewhere / name / "old").write_text("old")
        os.symlink(elsewhere / name, directory / name)
    os.symlink(elsewhere / "day=3/old", directory / "old")
    # The second file is missing, so all stays.
    written = [writer.Written([("a", "day=2/part-a"), ("gone", "part-b")], 1)]
    with pytest.raises(FileNotFoundError):
        output.commit(written, overwrite=True, overwrites_all=overwrites_all)
    assert os.readlink(directory / "day=2") == str(elsewhere / "day=2")
    (directory / "_temporary/job/a").write_text("new")
    written = [writer.Written([("a", "day=2/part-a")], 1)]
    output.commit(written, overwrite=True, overwrites_all=overwrites_all)
    others = [] if overwrites_all else ["day=1", "day=3", "old"]
    assert sorted(os.listdir(directory)) == sorted(["_SUCCESS", "day=2", *others])
    assert all(os.listdir(elsewhere / f"day={day}") == ["old"] for day in (1, 2, 3))
    assert not os.path.islink(directory / "day=2")
    assert os.listdir(directory / "day=2") == ["part-a"]


def test_leftovers_that_stay_fail_no_job_that_is_committed(monkeypatch, tmp_path, caplog):
    output = writer.Output(str(tmp_path), "job")
    os.makedirs(output.temporary)
    (tmp_path / "_temporary/job/a").write_text("new")
    rmdir = os.rmdir

    def meanwhile(path, **options):
        # A task that Spark has yet to stop.
        (tmp_path / "_temporary/job/late").write_text("late")
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", meanwhile)
    output.commit([writer.Written([("a", "part-a")], 1)], overwrite=False)
    assert sorted(os.listdir(tmp_path)) == ["_SUCCESS", "_temporary", "part-a"]
    assert f"{output.temporary} can't be deleted" in caplog.text


def test_a_commit_in_the_root_of_a_file_system(hadoop):
    access, root = access_for("hdfs:///")
    output = writer.Output(root, uuid.uuid4().hex)
    access.mkdirs(output.temporary)
    name = f"part-{output.job}"
    write_bytes(f"{output.temporary}/a", b"new")
    try:
        # The second file is missing, so the first one is taken back.
        with pytest.raises(FileNotFoundError):
            output.commit([writer.Written([("a", name), ("gone", "b")], 1)], overwrite=False)
    finally:
        output.abort()
    assert name not in names_in(root)


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("kind", ["local", "hdfs", "viewfs", "faulty", "s3a"])
def test_a_task_that_outlives_its_job_leaves_nothing(kind, index, empty_directory):
    # Spark lets the driver clean up while it still stops tasks.
    access, path = access_for(f"{empty_directory(kind)}/out")
    output = writer.Output(path, uuid.uuid4().hex)
    layout = writer.Layout(
        sql.StructType([sql.StructField("x", sql.LongType())]), "Example", "", None, index
    )
    batches = [pa.record_batch({"x": [1, 2]})]
    access.mkdirs(output.temporary)
    written = writer.write_task(output, iter(batches), layout, task=0, attempt=0)
    assert written.rows == 2 and len(written.files) == 1 + index
    assert names_in(output.temporary) == sorted(name for name, _ in written.files)
    output.abort()
    with pytest.raises(FileNotFoundError):
        writer.write_task(output, iter(batches), layout, task=1, attempt=1)
    assert access.status(output.temporary) is None


def test_parts_are_put_together_in_order():
    files = [listing.ListedFile(str(n), size) for n, size in enumerate([5, 50, 2, 2, 200, 3])]
    parts = [listing.FilePart(file, None, file.size << 20) for file in files]
    tasks = listing.pack_parts(parts, 64 << 20)
    assert [[part.file.path for part in task] for task in tasks] == [
        ["0", "1"],
        ["2", "3"],
        ["4"],
        ["5"],
    ]


def test_shares_are_balanced_and_complete():
    source = random.Random(5)
    for shares in (1, 3, 7):
        sizes = [(f"f{n}", source.randrange(1, 1000)) for n in range(40)]
        given = [
            listing.share_of(source.sample(sizes, 40), share, shares) for share in range(shares)
        ]
        assert sorted(sum(given, [])) == sorted(name for name, _ in sizes)
        loads = [sum(dict(sizes)[name] for name in names) for names in given]
        assert max(loads) - min(loads) <= 1000
    assert [len(listing.share_of([(f"f{n}", 0) for n in range(9)], n, 3)) for n in range(3)] == [
        3
    ] * 3


def test_values_of_directories():
    def kind(*values):
        files = [listing.ListedFile("f", 1, (("x", value),)) for value in values]
        return listing.directory_columns(files)["x"]

    assert kind("1", None) == "int"
    assert kind("8", "-007") == "int"
    assert kind("1", str(1 << 31)) == kind(str(-(1 << 63))) == "bigint"
    assert kind("1", "2.5") == kind("1.0E-4") == kind(".5", "-1.5e-3") == "double"
    assert kind("2024-02-29", None) == "date"
    assert kind(None) == "string"
    for values in (
        ["2026-01-02", "3"],
        ["2026-02-30"],
        ["2026-1-2"],
        ["20260102", "2026-01-02"],
        [str(1 << 63)],
        [str(1 << 31), "1.5"],
        ["1E5"],
        ["1e-99999999999999999999"],
        ["+5"],
        ["\u0661"],
    ):
        assert kind(*values) == "string"


def test_local_uris(tmp_path):
    (tmp_path / "a b").write_text("x")
    access, path = access_for(f"file://{tmp_path}/a b")
    assert access.status(path).size == 1
    assert access_for("file:/x/../y")[1] == "/y"
    with pytest.raises(BadInputError, match="host is taken for a host"):
        access_for("file://host/x")
    assert access.status(str(tmp_path / "none")) is None
    access.delete(str(tmp_path / "none"))


def test_a_decimal_is_rounded():
    schema = sql.StructType([sql.StructField("x", sql.DecimalType(5, 1))])
    batch = types.to_spark(schema)(pa.record_batch({"x": [1.26, None, 0.1]}), {})
    assert batch["x"].to_pylist() == [decimal.Decimal("1.3"), None, decimal.Decimal("0.1")]
    assert types.from_spark(batch, schema)["x"].type == pa.float64()


def test_decimals_of_lists_are_rounded():
    kind = sql.ArrayType(sql.DecimalType(5, 2))
    schema = sql.StructType([sql.StructField("x", kind), sql.StructField("y", kind)])
    lists = [[0.125, -0.125], None, [], [1.0]]
    floats = pa.array([[9.0], *lists], pa.list_(pa.float64()))
    batch = types.to_spark(schema)(pa.record_batch({"x": floats[1:], "y": floats[:-1]}), {})
    expected = [[decimal.Decimal("0.13"), decimal.Decimal("-0.13")], None, [], [decimal.Decimal(1)]]
    assert batch["x"].to_pylist() == expected
    assert batch["y"].to_pylist() == [[decimal.Decimal(9)], *expected[:-1]]


@pytest.mark.parametrize(
    "size, indices, values",
    [(3, [-1], [5.0]), (3, [3], [5.0]), (3, [1 << 30], [5.0]), (3, [1], [5.0, 6.0]), (-1, [], [])],
)
def test_vectors_that_are_none_are_refused(size, indices, values):
    schema = sql.StructType([sql.StructField("v", VectorUDT())])
    vector = {"type": 0, "size": size, "indices": indices, "values": values}
    column = pa.array([vector], types.arrow_type(VectorUDT.sqlType()))
    with pytest.raises(BadInputError, match=f"a sparse vector of size {size} has"):
        types.from_spark(pa.record_batch({"v": column}), schema)


def test_directory_values_have_the_type_of_the_schema():
    scalar = types.directory_scalar("d", "2026-01-02", sql.DateType())
    assert scalar.as_py() == datetime.date(2026, 1, 2)


def test_what_each_task_gets_does_not_grow_with_the_files():
    schema = sql.StructType([sql.StructField("x", sql.LongType())])
    sizes = []
    for count in (10, 10_000):
        tasks = [
            [listing.FilePart(listing.ListedFile(f"/data/part-{number:05}", 1), None, 1)]
            for number in range(count)
        ]
        reader = TFRecordReader(schema, ["x"], plan_reading({}), tasks, {})
        assert len(reader.partitions()) == count
        sizes.append(len(cloudpickle.dumps(reader)))
    assert sizes[0] == sizes[1]
