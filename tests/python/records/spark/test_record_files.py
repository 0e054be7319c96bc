"""Files and directories of TFRecords: what is written is read back, all of it or nothing."""

from __future__ import annotations

import os
import pathlib
import re

import pyarrow as pa
import pyspark
import pytest

from support.files.record_source import PYTHON_FORMAT, ids
from support.files.remote_files import visible_in
from support.spark.errors import SPARK_ERRORS
from support.waiting import wait_for
from tfos import records
from tfos.errors import BadInputError
from tfos.records.spark import sessions


def test_modes(source, tmp_path):
    path = tmp_path / "out"
    source.save(source.spark.range(3), str(path))
    with pytest.raises(
        SPARK_ERRORS, match="already exists" if source.is_jvm else "is there already; choose"
    ):
        source.save(source.spark.range(3), str(path))
    source.save(source.spark.range(10, 12), str(path), "ignore")
    assert ids(source.read(path)) == [0, 1, 2]
    source.write(source.spark.range(3, 5), path, "append")
    assert ids(source.read(path)) == [0, 1, 2, 3, 4]
    if source.is_jvm:
        with pytest.raises(SPARK_ERRORS, match="(?i)cannot overwrite|UNSUPPORTED_OVERWRITE"):
            source.write(source.read(path), path, "overwrite")
        with pytest.raises(SPARK_ERRORS, match="already exists"):
            source.write(source.spark.range(1), path, "error")
        source.write(source.spark.range(1), path, "ignore")
        assert ids(source.read(path)) == [0, 1, 2, 3, 4]
        source.write(source.spark.range(3, 5), path, "overwrite")
    else:
        # Also over what the same job reads.
        source.write(source.read(path).where("id > 2"), path, "overwrite")
        for mode in ("error", "ignore"):  # Spark's own refusal, which says what it takes.
            with pytest.raises(SPARK_ERRORS, match="cannot be written in the"):
                source.write(source.spark.range(1), path, mode)
    assert ids(source.read(path)) == [3, 4]
    with pytest.raises(BadInputError, match="mode must be .*, not 'replace'"):
        source.save(source.spark.range(1), str(path), "replace")


def test_a_failed_job_leaves_everything_as_it_was(source, tmp_path):
    path = tmp_path / "out"
    source.write(source.spark.range(3), path)
    before = sorted(os.listdir(path))
    failing = source.spark.range(0, 100, 1, 2).selectExpr(
        "id", "if(id = 99, raise_error('on purpose'), 1) AS x"
    )
    for mode in ("append",) if source.is_jvm else ("append", "overwrite"):
        with pytest.raises(SPARK_ERRORS, match="on purpose"):
            source.write(failing, path, mode)
        assert sorted(os.listdir(path)) == before
    assert ids(source.read(path)) == [0, 1, 2]
    if source.is_jvm:  # Spark deletes first what its own formats overwrite.
        with pytest.raises(SPARK_ERRORS, match="on purpose"):
            source.write(failing, path, "overwrite")
        assert not path.exists() or visible_in(path) == []


def test_columns_become_directories(source, tmp_path):
    path = tmp_path / "out"
    frame = source.spark.range(0, 60, 1, 3).selectExpr(
        "id",
        "id % 3 AS day",
        "element_at(array('a/b', NULL, 'ü=', ''), cast(id % 4 + 1 AS int)) AS land",
    )
    if not source.is_jvm:
        with pytest.raises(
            SPARK_ERRORS, match="partitioning"
        ):  # Spark itself has no way to say it.
            frame.write.format(PYTHON_FORMAT).mode("append").partitionBy("day").save(str(path))
    source.save(frame, str(path), partition_by=["day", "land"], index="true")
    assert visible_in(path) == ["day=0", "day=1", "day=2"]
    assert visible_in(path / "day=0") == [
        "land=__HIVE_DEFAULT_PARTITION__",
        "land=a%2Fb",
        "land=ü%3D",
    ]
    again = source.read(path)
    assert again.schema.simpleString() == "struct<id:bigint,day:int,land:string>"
    expected = {(row.id, row.day, row.land or None) for row in frame.collect()}
    assert {tuple(row) for row in again.collect()} == expected
    # A file of each task in each directory, with its index.
    names = visible_in(path / "day=0" / "land=a%2Fb")
    assert (
        2 <= len(names) <= 6 and sum(name.endswith(".tfindex") for name in names) == len(names) // 2
    )
    source.save(frame.where("day = 0 AND land = 'ü='"), str(path), "overwrite", partition_by="day")
    assert visible_in(path) == ["day=0"] and len(visible_in(path / "day=0")) <= 3
    assert {row.land for row in source.read(path).collect()} == {"ü="}
    for columns, message in (
        (["none"], "partition_by has none; the columns are id, day, land"),
        (["id", "day", "land"], "a schema without columns can't be written"),
    ):
        with pytest.raises(BadInputError, match=message):
            source.save(frame, str(path), "append", partition_by=columns)
    with pytest.raises(BadInputError, match="x, which is double"):
        source.save(frame.selectExpr("id", "id / 2 AS x"), str(path), partition_by="x")


def test_days_in_names_of_directories_are_dates(source, tmp_path):
    frame = source.spark.range(3).selectExpr(
        "id", "if(id = 0, null, date_add(date'2026-01-30', int(id))) AS day"
    )
    source.save(frame, tmp_path / "out", partition_by="day")
    again = source.read(tmp_path / "out")
    assert again.schema.simpleString() == "struct<id:bigint,day:date>"
    assert sorted(again.collect()) == sorted(frame.collect())


@pytest.mark.parametrize(
    "said", ["in the session", pytest.param("as an option", marks=pytest.mark.long)]
)
def test_overwriting_may_replace_only_the_directories_that_it_writes_to(source, tmp_path, said):
    path, key = tmp_path / "out", "spark.sql.sources.partitionOverwriteMode"
    days = source.spark.range(6).selectExpr("id", "id % 3 AS day")
    today = source.spark.range(10, 12).selectExpr("id", "1 AS day")
    source.save(days, path, partition_by=["day"])
    options = {"partitionoverwritemode": "Dynamic"} if said == "as an option" else {}
    if not options:
        source.spark.conf.set(key, "dynamic")
    try:
        source.save(today, path, "overwrite", partition_by=["day"], **options)
        assert ids(source.read(path)) == [0, 2, 3, 5, 10, 11]
        source.save(days, path, "append", partition_by=["day"])
        # What an option says counts.
        source.save(today, path, "overwrite", ["day"], partitionOverwriteMode="static")
        assert ids(source.read(path)) == [10, 11]
        # Without such directories there is nothing else to replace.
        source.save(source.spark.range(2), path, "overwrite", **options)
        assert ids(source.read(path)) == [0, 1]
    finally:
        source.spark.conf.unset(key)


def test_directories_patterns_and_hidden_files(source, tmp_path):
    for day, country in ((1, "at"), (2, "ch"), (2, "__HIVE_DEFAULT_PARTITION__")):
        directory = tmp_path / f"day={day}" / f"land={country}"
        directory.mkdir(parents=True)
        records.write(directory / "part", [pa.record_batch({"id": [day]})])
        (directory / "_hidden").write_text("no record")
        (directory / ".part.crc").write_text("no record")
        (directory / "more._COPYING_").write_text("no record yet")
    frame = source.read(tmp_path)
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "id": "bigint",
        "day": "int",
        "land": "string",
    }
    assert sorted(map(tuple, frame.collect()), key=str) == [
        (1, 1, "at"),
        (2, 2, "ch"),
        (2, 2, None),
    ]
    assert source.read(tmp_path, "day string, land string").where("day = '2'").count() == 2
    # To Spark a path has directories of columns only below it, or below basePath.
    base = {"basePath": str(tmp_path)} if source.is_jvm else {}
    assert source.read(str(tmp_path / "day=*" / "land=a*"), **base).columns == ["id", "day", "land"]
    assert ids(
        source.read(
            [str(tmp_path / "day=1"), str(tmp_path / "day=2/land=ch")], recursiveFileLookup="true"
        )
    ) == [1, 2]
    assert source.read(f"file://{tmp_path}/day=1").columns == ["id", "land"]
    differ = (
        "(?i)conflicting" if source.is_jvm else "do not lie below directories of the same columns"
    )
    with pytest.raises(SPARK_ERRORS, match=differ):
        source.read([str(tmp_path / "day=1"), str(tmp_path / "day=2/land=ch")])
    with pytest.raises(
        SPARK_ERRORS, match="at" if source.is_jvm else "land=at has no value for column land"
    ):
        source.read(tmp_path, "land int").collect()
    (tmp_path / "day=1/land=at/other.txt").write_text("no record")
    for pattern in ("pa*", "[^o]*", "[!o]*"):
        assert ids(source.read(tmp_path / "day=1", pathGlobFilter=pattern)) == [1]


def test_names_of_directories_have_any_case_unless_the_session_tells_cases_apart(source, tmp_path):
    (tmp_path / "day=1").mkdir()
    records.write(tmp_path / "day=1" / "part", [pa.record_batch({"id": [7], "Day": [70]})])
    key = "spark.sql.caseSensitive"

    def read(schema=None):
        if not source.is_jvm:
            sessions.register_python(source.spark, PYTHON_FORMAT)
        return source.read(tmp_path, schema)

    assert read("id long, Day int").select("id", "DAY").collect() == [(7, 1)]
    assert read("id long").columns == (["id", "day"] if source.is_jvm else ["id"])
    inferred = read()
    assert sorted(map(str.lower, inferred.columns)) == ["day", "id"]
    assert inferred.select("id", "day").collect() == [(7, 1)]
    source.spark.conf.set(key, "true")
    try:
        assert read("id long, Day int").select("id", "Day").collect() == [(7, 70)]
        assert sorted(read().columns) == ["Day", "day", "id"]
        assert read().select("Day", "day").collect() == [(70, 1)]
    finally:
        source.spark.conf.unset(key)
        read()


def test_directories_that_are_ignored_leave_the_records_their_columns(source, tmp_path):
    """Also where both have a column of one name."""
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        records.write(tmp_path / f"day={day}" / "part", [pa.record_batch({"day": [10 * day]})])
    for schema in (None, "day long"):
        frame = source.read(tmp_path, schema, recursiveFileLookup="true")
        assert sorted(row.day for row in frame.collect()) == [10, 20]


def test_indexed_files_are_read_by_several_tasks(source, tmp_path):
    path = tmp_path / "out"
    frame = source.spark.range(300_000).selectExpr("id", "repeat('x', 30) AS s").coalesce(1)
    source.write(frame, path, index="true")
    assert len(visible_in(path)) == 2 and visible_in(path)[1].endswith(".tfindex")
    schema = "id long, s string"
    parts = source.read(path, schema)
    assert parts.rdd.getNumPartitions() > 1
    assert parts.selectExpr("count(*)", "sum(id)", "count(distinct id)").first() == (
        300_000,
        300_000 * 299_999 // 2,
        300_000,
    )
    os.unlink(path / visible_in(path)[1])
    assert source.read(path, schema).rdd.getNumPartitions() == 1


def line_of_an_executor(session, begin):
    """What follows `begin` in a line of the executors' logs, which comes in the course of time."""
    application = session.sparkContext.applicationId
    logs = pathlib.Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0]) / "work" / application

    def said():
        texts = (log.read_text(errors="replace") for log in logs.glob("*/stderr"))
        found = (re.search(f"{re.escape(begin)}(.*)", text) for text in texts)
        return next(filter(None, found), None)

    return wait_for(said, f"{begin!r} in {logs}").group(1)


def test_bad_records(source, tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"id": range(10)})])
    content = bytearray(path.read_bytes())
    size = len(content) // 10
    content[3 * size + 14] ^= 1
    path.write_bytes(content)
    with pytest.raises(SPARK_ERRORS, match=rf"f.tfrecord: record 3 at offset {3 * size}: the CRC"):
        source.read(path, "id long").collect()
    assert ids(source.read(path, "id long", mode="DROPMALFORMED")) == [0, 1, 2, *range(4, 10)]
    if not source.is_jvm:
        said = f"{path}: 9 records read, 1 bad ones left out; the first: "
        assert f"record 3 at offset {3 * size}: the CRC" in line_of_an_executor(source.spark, said)
    assert source.read(path, mode="dropmalformed").count() == 9  # The sample has it, too.
    rows = [row.id for row in source.read(path, "id long", mode="permissive").collect()]
    assert rows == [0, 1, 2, None, *range(4, 10)]
    kept = source.read(path, "id long, _corrupt_record binary", mode="permissive")
    record = bytes(content[3 * size + 12 : 4 * size - 4])
    assert [row._corrupt_record for row in kept.collect()] == [None] * 3 + [record] + [None] * 6
    assert kept.where("_corrupt_record is not null").count() == 1
    named = source.read(path, mode="permissive", columnNameOfCorruptRecord="bad")
    assert (
        named.schema.names == ["id", "bad"] and named.where("bad is not null").first().bad == record
    )
    only = source.read(path, "_corrupt_record binary", mode="permissive").collect()
    assert [row[0] is None for row in only] == [n != 3 for n in range(10)]
    misfits = source.read(path, "id string, _corrupt_record binary", mode="permissive").collect()
    assert all(row.id is None and row._corrupt_record for row in misfits)
    with pytest.raises(SPARK_ERRORS, match="must be binary that may be null, and not string"):
        source.read(path, "id long, _corrupt_record string", mode="permissive").collect()
    raw = source.read(path, recordType="ByteArray", mode="permissive").collect()
    assert [row.byteArray is None for row in raw] == [n == 3 for n in range(10)]
    assert source.read(path, recordType="ByteArray", mode="dropmalformed").count() == 9
    path.write_bytes(content[:-1])
    assert source.read(path, recordType="ByteArray", mode="dropmalformed").count() == 8
    assert source.read(path, "id long", mode="dropmalformed").count() == 8


def test_a_schema_is_inferred_with_the_validation_that_is_asked_for(source, tmp_path):
    """A wrong CRC ends neither that nor the reading where none is compared."""
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"id": [1]})])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(SPARK_ERRORS, match="record 0 at offset 0: the CRC"):
        source.read(path)
    for mode in ("failfast", "dropmalformed"):
        for validation in ("lengths", "none"):
            assert ids(source.read(path, validation=validation, mode=mode)) == [1]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mode": "fast"}, "mode must be failfast, dropmalformed or permissive, not 'fast'"),
        (
            {"recordType": "Other"},
            "recordType must be Example, SequenceExample or ByteArray, not 'Other'",
        ),
        ({"compression": "lz4"}, "compression must be none, gzip or zlib, not 'lz4'"),
        ({"sampleRecords": "none"}, "sampleRecords='none'"),
        ({"columnNameOfCorruptRecord": "x"}, "goes with mode permissive"),
        ({"mergeSchema": "true"}, "option mergeschema; there are columnnameofcorruptrecord"),
        ({"inferStrings": "1"}, "inferStrings='1' is neither"),
    ],
)
def test_options_that_are_refused(source, tmp_path, options, message):
    records.write(tmp_path / "f", [pa.record_batch({"id": [1]})])
    with pytest.raises(SPARK_ERRORS, match=message):
        source.read(tmp_path / "f", **options)


def test_paths_that_are_refused(source, tmp_path):
    missing = (
        "(?i)path does not exist"
        if source.is_jvm
        else "no such file or directory.*none|nothing matches"
    )
    with pytest.raises(SPARK_ERRORS, match=missing):
        source.read(tmp_path / "none")
    with pytest.raises(SPARK_ERRORS, match=missing):
        source.read(tmp_path / "n*")
    for path in (str(tmp_path), f"file://{tmp_path}", [str(tmp_path), f"{tmp_path}/"]):
        with pytest.raises(SPARK_ERRORS, match=f"{tmp_path}.*: there is no file to read in it"):
            source.read(path)
    with pytest.raises(
        SPARK_ERRORS,
        match="No FileSystem" if source.is_jvm else "no file system is configured for gs://",
    ):
        source.read("gs://bucket/data")
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(SPARK_ERRORS, match="no record in it has a value"):
        source.read(tmp_path / "f")
    with pytest.raises(
        SPARK_ERRORS,
        match="f is a file|f exists and is not a directory|Mkdirs failed|ot a directory",
    ):
        source.write(source.spark.range(1), tmp_path / "f")
    source.write(source.spark.range(0), tmp_path / "empty")
    assert visible_in(tmp_path / "empty") == [] and (tmp_path / "empty/_SUCCESS").exists()
