"""TFRecords as a data source, on a real Spark: what is written is read back, all of it or nothing.

The tests run twice: with the format of the jar, and with the one that sessions without it have.
"""

from __future__ import annotations

import datetime
import decimal
import os
import pathlib
import random
import re
import subprocess

import pyarrow as pa
import pyspark
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import types as sql

import tfos
from support.places import ROOT
from support.record_source import PYTHON_FORMAT, Source, ids
from support.remote_files import visible_in
from support.spark_errors import SPARK_ERRORS
from support.waiting import wait_for
from tfos import records
from tfos.base import executable
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.records import listing
from tfos.records.spark import sessions as tfrecord_sessions
from tfos.records.spark import types, writer

SCALARS = {
    "boolean": sql.BooleanType(),
    "byte": sql.ByteType(),
    "short": sql.ShortType(),
    "int": sql.IntegerType(),
    "long": sql.LongType(),
    "float": sql.FloatType(),
    "double": sql.DoubleType(),
    "decimal": sql.DecimalType(8, 2),
    "string": sql.StringType(),
    "binary": sql.BinaryType(),
}


@pytest.fixture(scope="module", params=["jvm", "python"])
def source(request, spark):
    tfos.register(spark)  # There is the jar, so it changes nothing.
    tfrecord_sessions.register_python(spark, PYTHON_FORMAT)
    return Source(spark, request.param)


def random_value(source, name):
    """A value of a type that survives being rounded to float32."""
    bits = {"byte": 7, "short": 15, "int": 31, "long": 63}
    if name in bits:
        return source.randrange(-(1 << bits[name]), 1 << bits[name])
    return {
        "boolean": lambda: source.random() < 0.5,
        "float": lambda: source.randrange(-1000, 1000) / 8,
        "double": lambda: source.randrange(-1000, 1000) / 8,
        "decimal": lambda: decimal.Decimal(source.randrange(-10_000, 10_000)) / 100,
        "string": lambda: "".join(source.choices("aä€😀", k=source.randrange(5))),
        "binary": lambda: bytearray(source.randbytes(source.randrange(5))),
    }[name]()


def random_rows(seed, count):
    source = random.Random(seed)

    def maybe(value):
        return None if source.random() < 0.2 else value

    return [
        (
            number,
            *(maybe(random_value(source, name)) for name in SCALARS),
            *(
                maybe([random_value(source, name) for _ in range(source.randrange(4))])
                for name in SCALARS
            ),
        )
        for number in range(count)
    ]


ALL_TYPES = sql.StructType(
    [
        sql.StructField("id", sql.LongType()),
        *(sql.StructField(f"{name}_one", kind) for name, kind in SCALARS.items()),
        *(sql.StructField(f"{name}_array", sql.ArrayType(kind)) for name, kind in SCALARS.items()),
    ]
)


@pytest.mark.parametrize("compression, suffix", [("none", ""), ("gzip", ".gz"), ("zlib", ".zlib")])
def test_every_type_comes_back(source, tmp_path, compression, suffix):
    rows = random_rows(compression, 200)
    frame = source.spark.createDataFrame(rows, ALL_TYPES).repartition(3)
    source.write(frame, tmp_path / "out", compression=compression)
    assert all(name.endswith(".tfrecord" + suffix) for name in visible_in(tmp_path / "out"))
    assert os.path.exists(tmp_path / "out/_SUCCESS")
    assert not os.path.exists(tmp_path / "out/_temporary")
    again = source.read(tmp_path / "out", ALL_TYPES).orderBy("id")
    assert [tuple(row) for row in again.collect()] == rows
    assert again.schema == ALL_TYPES


def test_the_schema_is_inferred(source, tmp_path):
    frame = source.spark.createDataFrame(
        [
            (1, 0.5, "a", bytearray(b"\xff"), [1, 2], True),
            (2, 1.5, None, bytearray(b"x"), [3], False),
        ],
        "id int, d double, s string, b binary, a array<int>, flag boolean",
    )
    source.write(frame, tmp_path / "out")
    inferred = source.read(tmp_path / "out")
    assert {field.name: field.dataType.simpleString() for field in inferred.schema} == {
        "id": "bigint",
        "d": "float",
        "s": "string",
        "b": "binary",
        "a": "array<bigint>",
        "flag": "bigint",
    }
    assert all(field.nullable for field in inferred.schema)
    assert inferred.where("id = 1").first().asDict() == {
        "id": 1,
        "d": 0.5,
        "s": "a",
        "b": bytearray(b"\xff"),
        "a": [1, 2],
        "flag": 1,
    }
    plain = source.read(tmp_path / "out", inferStrings="false")
    assert plain.schema["s"].dataType == sql.BinaryType()
    assert source.read(tmp_path / "out", sampleRecords=1).count() == 2


def test_record_types(source, tmp_path):
    nested = source.spark.createDataFrame(
        [(7, [[1.0, 2.0], [], [3.0]])], "id long, steps array<array<float>>"
    )
    source.write(nested, tmp_path / "sequence", recordType="SequenceExample")
    assert (
        source.read(tmp_path / "sequence", recordType="sequenceexample").collect()
        == nested.collect()
    )
    with pytest.raises(SPARK_ERRORS, match="column steps is .* need recordType SequenceExample"):
        source.write(nested, tmp_path / "example")
    raw = source.spark.createDataFrame([(bytearray(b"one"),), (bytearray(b""),)], "value binary")
    source.write(raw.coalesce(1), tmp_path / "raw", recordType="ByteArray")
    [name] = visible_in(tmp_path / "raw")
    assert list(records.read_records(tmp_path / "raw" / name)) == [b"one", b""]
    assert source.read(tmp_path / "raw", recordType="ByteArray").collect() == [
        (bytearray(b"one"),),
        (bytearray(b""),),
    ]
    assert (
        source.read(tmp_path / "raw", "text string", recordType="ByteArray").first().text == "one"
    )


def test_vectors_are_written_dense(source, tmp_path):
    frame = source.spark.createDataFrame(
        [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(3, [1], [5.0]))], ["id", "v"]
    )
    source.write(frame, tmp_path / "out")
    assert [row.v for row in source.read(tmp_path / "out").orderBy("id").collect()] == [
        [1.0, 2.0],
        [0.0, 5.0, 0.0],
    ]


@pytest.mark.parametrize(
    "column, message",
    [
        ("current_date()", "column x is date: cast it"),
        ("current_timestamp()", "column x is timestamp: cast it"),
        ("map('a', 1)", "column x is map<string,int>: make an array"),
        ("array(array(array(1)))", "nested twice at most"),
        ("struct(1 AS a)", "select its fields"),
    ],
)
def test_what_records_cannot_hold_is_refused_before_anything_is_written(
    source, tmp_path, column, message
):
    frame = source.spark.range(3).selectExpr("id", f"{column} AS x")
    with pytest.raises(SPARK_ERRORS) as raised:
        source.write(frame, tmp_path / "out")
    assert message in str(raised.value)
    with pytest.raises(BadInputError) as raised:
        source.save(frame, str(tmp_path / "out"))
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


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
    with pytest.raises(BadInputError, match="mode 'replace'"):
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
    assert (
        again.schema.simpleString()
        == f"struct<id:bigint,day:{'int' if source.is_jvm else 'bigint'},land:string>"
    )
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


def test_directories_patterns_and_hidden_files(source, tmp_path):
    for day, country in ((1, "at"), (2, "ch"), (2, "__HIVE_DEFAULT_PARTITION__")):
        directory = tmp_path / f"day={day}" / f"land={country}"
        directory.mkdir(parents=True)
        records.write(directory / "part", [pa.record_batch({"id": [day]})])
        (directory / "_hidden").write_text("no record")
        (directory / ".part.crc").write_text("no record")
    frame = source.read(tmp_path)
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "id": "bigint",
        "day": "int" if source.is_jvm else "bigint",
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
    assert ids(source.read(tmp_path / "day=1", pathGlobFilter="pa*")) == [1]


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


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mode": "fast"}, "mode 'fast'"),
        ({"recordType": "Other"}, "recordType 'Other'"),
        ({"compression": "lz4"}, "compression 'lz4'"),
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
        SPARK_ERRORS, match="No FileSystem" if source.is_jvm else "nobody is known who serves gs://"
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


def test_tensorflow_reads_what_spark_wrote(source, tmp_path):
    import tensorflow as tf

    source.write(
        source.spark.range(20).selectExpr("id", "concat('x', id) AS s"),
        tmp_path / "out",
        compression="gzip",
    )
    files = [str(tmp_path / "out" / name) for name in visible_in(tmp_path / "out")]
    parsed = [
        tf.io.parse_single_example(
            record,
            {"id": tf.io.FixedLenFeature([], tf.int64), "s": tf.io.FixedLenFeature([], tf.string)},
        )
        for record in tf.data.TFRecordDataset(files, "GZIP")
    ]
    assert sorted((int(row["id"]), row["s"].numpy()) for row in parsed) == [
        (n, b"x%d" % n) for n in range(20)
    ]


# What only the format of the jar has.


@pytest.fixture(scope="module")
def jvm_source(spark):
    return Source(spark, "jvm")


def test_tables_and_sql(jvm_source, spark, tmp_path):
    spark.sql(
        f"CREATE TABLE days USING tfrecord LOCATION '{tmp_path}/days' PARTITIONED BY (day) "
        "AS SELECT id, id % 2 AS day FROM range(10)"
    )
    try:
        spark.sql("INSERT INTO days SELECT 100, 1")
        assert visible_in(tmp_path / "days") == ["day=0", "day=1"]
        assert spark.sql("SELECT sum(id), count(*) FROM days WHERE day = 1").first() == (125, 6)
        [file] = [
            name for name in spark.sql("SELECT input_file_name() FROM days WHERE id = 100").first()
        ]
        assert "/day=1/part-" in file
    finally:
        spark.sql("DROP TABLE days")
    spark.range(5).write.format("tfrecord").option("index", "true").option(
        "mode", "dropmalformed"
    ).saveAsTable("indexed")
    try:
        spark.sql("INSERT INTO indexed SELECT 7L")
        assert spark.table("indexed").selectExpr("sum(id)").first() == (17,)
    finally:
        spark.sql("DROP TABLE indexed")
    assert spark.sql(f"SELECT count(*) FROM tfrecord.`{tmp_path}/days`").first() == (11,)


def test_what_records_cannot_hold_is_refused_before_spark_deletes(jvm_source, spark, tmp_path):
    jvm_source.write(spark.range(3), tmp_path / "out")
    for frame, options in (
        (spark.sql("SELECT current_date() AS x"), {}),
        (spark.range(1), {"ifExists": "error"}),
        (spark.range(1), {"compression": "lz4"}),
        (spark.range(1), {"index": "true", "compression": "gzip"}),
    ):
        with pytest.raises(SPARK_ERRORS, match="cast it|mode\\(|lz4|uncompressed files only"):
            jvm_source.write(frame, tmp_path / "out", "overwrite", **options)
    assert ids(jvm_source.read(tmp_path / "out")) == [0, 1, 2]


def test_rows_that_spark_keeps_outlive_their_batch(jvm_source, spark, tmp_path):
    """Their values lie in native memory, which each batch has of its own."""
    frame = spark.range(0, 50_000, 1, 1).selectExpr(
        "id",
        "concat('row ', id) AS s",
        "array(concat('a', id), concat('b', id)) AS ss",
        "array(id, -id) AS n",
    )
    jvm_source.write(frame, tmp_path / "out")
    again = jvm_source.read(tmp_path / "out", frame.schema)
    assert again.selectExpr(
        "max(s)", "min(s)", "first(ss)", "max_by(ss, id)", "max(n[0])"
    ).first() == ("row 9999", "row 0", ["a0", "b0"], ["a49999", "b49999"], 49_999)
    assert (
        again.sortWithinPartitions("s").limit(2).collect() == frame.orderBy("s").limit(2).collect()
    )
    kept = again.cache()
    assert kept.count() == 50_000 and kept.exceptAll(frame).isEmpty()
    kept.unpersist()
    assert again.mapInArrow(lambda batches: batches, again.schema).where(
        "s = 'row 777'"
    ).first() == (777, "row 777", ["a777", "b777"], [777, -777])


def executors(spark):
    found = spark._jsc.sc().statusStore().executorList(False)
    return {found.apply(number).id() for number in range(found.size())}


def test_a_task_may_end_while_a_thread_of_it_reads(jvm_source, spark, tmp_path):
    """The one that writes to a script: the task has its row before all rows are written.

    A script that ended early would not do: Spark fails the task if it sees the broken pipe first.
    """
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"text": ["x" * 1_000] * 1_000})] * 50)
    jvm_source.read(path, "text string").createOrReplaceTempView("texts")
    before = executors(spark)
    for _ in range(3):
        found = spark.sql(
            "SELECT TRANSFORM(text) USING 'cat' AS (first string) FROM texts LIMIT 1"
        ).collect()
        assert [row.first for row in found] == ["x" * 1_000]
    assert spark.table("texts").count() == 50_000 and executors(spark) == before


def test_files_that_are_passed_over(jvm_source, spark, tmp_path):
    for name in ("a", "b", "c"):
        records.write(tmp_path / name, [pa.record_batch({"id": range(3)})])
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-1])
    frames = {
        option: jvm_source.read(tmp_path, "id long", **{option: "true"})
        for option in ("ignoreMissingFiles", "ignoreCorruptFiles")
    }
    assert frames["ignoreCorruptFiles"].count() == 6
    (tmp_path / "b").unlink()
    with pytest.raises(SPARK_ERRORS, match="/b"):  # Missing is not corrupt.
        frames["ignoreCorruptFiles"].count()
    (tmp_path / "a").unlink()
    assert frames["ignoreMissingFiles"].count() == 3


def test_bad_records_are_counted_on_the_driver(jvm_source, spark, tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"id": range(10)})])
    content = bytearray(path.read_bytes())
    content[14] ^= 1
    path.write_bytes(content)
    context = spark.sparkContext
    context.setJobGroup("bad records", "")
    assert len(ids(jvm_source.read(path, "id long", mode="dropmalformed"))) == 9
    context._jsc.sc().listenerBus().waitUntilEmpty()
    [job] = context.statusTracker().getJobIdsForGroup("bad records")
    [stage] = context.statusTracker().getJobInfo(job).stageIds
    updates = context._jsc.sc().statusStore().lastStageAttempt(stage).accumulatorUpdates()
    values = [
        updates.apply(n).value()
        for n in range(updates.size())
        if updates.apply(n).name() == "tfrecord"
    ]
    assert len(values) == 1
    assert re.match(
        r"1 bad records in 1 files; the first: .*f.tfrecord: record 0 at offset 0: the CRC",
        values[0],
    )


def test_the_page_runs(spark, tmp_path):
    page = (ROOT / "docs/tfrecords.md").read_text()
    # Not of the test's working directory, but of the one that the driver's JVM was started in.
    program = re.sub(
        r'"(\w+\.tfrecords)"',
        rf'"{tmp_path}/\1"',
        re.search(r"(?s)```python\n(.*?)```", page).group(1),
    )
    exec(program, {})
    commands = (
        re.search(r"(?s)```sh\n(.*?)```", page).group(1).replace("tfos ", f"{executable.path()} ")
    )
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "digits.parquet").exists()


# Without Spark.


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
    file = listing.ListedFile
    assert listing.directory_columns(
        [file("a", 1, (("n", "1"), ("s", "007"))), file("b", 1, (("n", None), ("s", "8")))]
    ) == {"n": int, "s": str}


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


def test_directory_values_have_the_type_of_the_schema():
    scalar = types.directory_scalar("d", "2026-01-02", sql.DateType())
    assert scalar.as_py() == datetime.date(2026, 1, 2)
