"""TFRecords that the jar reads and writes, and its hints of a schema, in a real Spark."""

from __future__ import annotations

import os
import re

import pyarrow as pa
import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame, functions

from support.jvm import values
from support.spark.errors import SPARK_ERRORS
from tfos import records
from tfos.errors import BadInputError
from tfos.records import files as record_files
from tfos.records.spark import types

#: Every type that a record can hold; nulls, empty lists and characters of several bytes among them.
ALL_TYPES = (
    "id % 2 = 0 AS b",
    "cast(id % 100 - 50 as tinyint) AS i8",
    "cast(id - 1000 as smallint) AS i16",
    "cast(-id as int) AS i",
    "id * 1099511627776 AS l",
    "cast(id as float) / 4f AS f",
    "id / 8d AS d",
    "nullif(concat('ä', id), 'ä7') AS s",
    "encode(concat(id, 'é'), 'ISO-8859-1') AS z",
    "array(true, false, id % 3 = 0) AS bs",
    "sequence(0, id % 5 + 1) AS ls",
    "array_repeat(cast(id as float) / 2f, 3) AS fs",
    "array(id / 2d, -1d) AS ds",
    "array(cast(id as string), 'é', '') AS ss",
    "array(encode(concat(id, 'é'), 'ISO-8859-1'), X'') AS zs",
    "if(id % 11 = 0, null, slice(array(id, id + 1), 1, cast(id % 3 as int))) AS some",
)


def all_types(spark, rows, partitions):
    # Casts of a float and a float are a double to Spark.
    return (
        spark.range(rows, numPartitions=partitions)
        .selectExpr(*ALL_TYPES)
        .withColumn("f", functions.col("f").cast("float"))
        .withColumn("fs", functions.col("fs").cast("array<float>"))
    )


class Idle:
    """A channel of Java that gives no bytes, and does not end."""

    def read(self, buffer):
        return 0

    def isOpen(self):
        return True

    def close(self):
        pass

    class Java:
        implements = ["java.nio.channels.ReadableByteChannel"]


def test_a_stream_that_gives_no_bytes_is_not_at_its_end(jvm, spark):
    ensure_callback_server_started(spark.sparkContext._gateway)
    native = jvm.tfos.internal.records.NativeRecords
    stream = jvm.java.nio.channels.Channels.newInputStream(Idle())
    inference = native.newInference("Example", True)
    try:
        with pytest.raises(SPARK_ERRORS, match="the file: a read gave no bytes"):
            native.infer(inference, stream, "the file", "", "full", 1, False)
    finally:
        native.deleteInference(inference)


def test_tfrecords_come_back_as_they_were_and_python_reads_the_same(old, spark, tmp_path):
    frame = all_types(spark, 2_500, 2)
    directory = tmp_path / "all"
    old.DFUtil.saveAsTFRecords(frame._jdf, str(directory))
    files = sorted(map(str, directory.glob("part-*.tfrecord")))
    assert len(files) == 2 and (directory / "_SUCCESS").exists()

    loaded = DataFrame(old.DFUtil.loadTFRecords(str(directory), frame._jdf.schema()), spark)
    assert loaded.schema.simpleString() == frame.schema.simpleString()
    assert sorted(values(loaded), key=str) == sorted(values(frame), key=str)

    # Without a hint: the columns that Python finds, and in them what Python reads.
    sample = record_files.SchemaSample("Example", strings=True)
    sample.add(files[0], 1_000)
    found = DataFrame(old.DFUtil.loadTFRecords(str(directory)), spark)
    assert found.schema.simpleString() == types.spark_schema(sample.schema()).simpleString()
    wanted = [
        list(row.values())
        for file in files
        for batch in records.read(file, sample.schema())
        for row in batch.to_pylist()
    ]
    assert sorted(values(found), key=str) == sorted(wanted, key=str)
    with pytest.raises(SPARK_ERRORS, match="already exists"):
        old.DFUtil.saveAsTFRecords(frame._jdf, str(directory))


def test_the_bytes_are_those_that_python_writes(new, spark, tmp_path):
    frame = all_types(spark, 300, 1)
    new.TFRecords.save(frame._jdf, str(tmp_path / "java"))
    records.write(str(tmp_path / "python.tfrecord"), [frame.toArrow()])
    (file,) = (tmp_path / "java").glob("part-*")
    assert file.read_bytes() == (tmp_path / "python.tfrecord").read_bytes()


def test_hints_come_first_and_types_that_do_not_fit_are_said(
    new, old, spark, tmp_path, mounted_path
):
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "f": [0.5, 1.5], "z": ["x", "y"]})
    os.mkdir(tmp_path / "data")
    records.write(str(tmp_path / "data" / "one.tfrecord.gz"), [table])
    records.write(str(tmp_path / "data" / "two.tfrecord"), [table])
    (tmp_path / "data" / "two.tfrecord.tfindex").write_text("not a record")
    hint = old.SimpleTypeParser.parse("struct<z:binary,missing:array<long>,f:double>")
    loaded = DataFrame(
        new.TFRecords.load(spark._jsparkSession, f"{mounted_path}/data", hint), spark
    )
    assert (
        loaded.schema.simpleString() == "struct<z:binary,missing:array<bigint>,f:double,a:bigint>"
    )
    assert sorted(values(loaded), key=str) == sorted(
        2 * [[b"x", None, 0.5, 1], [b"y", None, 1.5, 2]], key=str
    )

    wrong = old.SimpleTypeParser.parse("struct<f:long>")
    with pytest.raises(SPARK_ERRORS, match=r"\.tfrecord(\.gz)?: record 0 at offset 0: .*f"):
        DataFrame(
            new.TFRecords.load(spark._jsparkSession, str(tmp_path / "data"), wrong), spark
        ).collect()
    with pytest.raises(BadInputError, match="column m is map<int,int>: make an array"):
        new.TFRecords.save(spark.sql("SELECT map(1, 2) AS m")._jdf, str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_a_hint_is_enough_where_there_are_no_records(new, old, spark, tmp_path):
    empty = spark.range(0).selectExpr("id", "array(id) AS ids")
    new.TFRecords.save(empty._jdf, str(tmp_path / "empty"))
    os.mkdir(tmp_path / "no values")
    records.write_records(tmp_path / "no values" / "one.tfrecord", [b""])
    hint = old.SimpleTypeParser.parse("struct<id:long,ids:array<long>>")
    for name, rows in (("empty", []), ("no values", [[None, None]])):
        path = str(tmp_path / name)
        loaded = DataFrame(old.DFUtil.loadTFRecords(path, hint), spark)
        assert loaded.schema.simpleString() == "struct<id:bigint,ids:array<bigint>>"
        assert values(loaded) == rows
        with pytest.raises(BadInputError, match="no file to read|no record in it has a value"):
            old.DFUtil.loadTFRecords(path)


def test_vectors_and_decimals_are_written_as_python_writes_them(new, spark, tmp_path):
    frame = (
        spark.range(3, numPartitions=1)
        .selectExpr("array(cast(id as double), 0.5d) AS v", "cast(id as decimal(8, 2)) / 4 AS d")
        .withColumn("v", array_to_vector("v"))
    )
    new.TFRecords.save(frame._jdf, str(tmp_path / "v"))
    back = DataFrame(new.TFRecords.load(spark._jsparkSession, str(tmp_path / "v")), spark)
    assert values(back.select("v", "d")) == [[[float(n), 0.5], n / 4] for n in range(3)]


def test_a_damaged_file_is_named_and_a_failed_write_leaves_nothing(new, spark, tmp_path):
    records.write(str(tmp_path / "bad.tfrecord"), [pa.table({"a": list(range(2_000))})])
    content = bytearray((tmp_path / "bad.tfrecord").read_bytes())
    content[-6] ^= 1
    (tmp_path / "bad.tfrecord").write_bytes(content)
    loaded = new.TFRecords.load(spark._jsparkSession, str(tmp_path / "bad.tfrecord"))
    with pytest.raises(SPARK_ERRORS, match=r"bad\.tfrecord.*record 1999"):
        DataFrame(loaded, spark).collect()
    with pytest.raises(SPARK_ERRORS, match=r"bad\.tfrecord.*record 1999"):
        new.TFRecords.save(loaded, str(tmp_path / "out"))
    # This one is refused when the file is closed, and Spark closes it again.
    hole = spark.sql("SELECT array(1, null) AS a")._jdf
    with pytest.raises(SPARK_ERRORS, match="null"):
        new.TFRecords.save(hole, str(tmp_path / "hole"))
    left = (
        [file.name for file in (tmp_path / "out").rglob("*") if file.is_file()]
        if (tmp_path / "out").exists()
        else []
    )
    assert not [name for name in left if name.startswith("part") or name == "_SUCCESS"]


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("struct<a:int,b:array<float>>", "struct<a:int,b:array<float>>"),
        (
            " struct<image/encoded:binary, image-size:long> ",
            "struct<image/encoded:binary,image-size:bigint>",
        ),
        (
            "struct<s:struct<x:int,y:decimal(3,1)>,t:string>",
            "struct<s:struct<x:int,y:decimal(3,1)>,t:string>",
        ),
        ("struct<>", "struct<>"),
    ],
)
def test_schema_hints(old, text, wanted):
    assert old.SimpleTypeParser.parse(text).simpleString() == wanted


@pytest.mark.parametrize(
    "text, message",
    [
        ("int", "does not begin with struct<"),
        ("struct<a>", "'a' is not name:type"),
        ("struct<a:array<int>", "brackets don't match"),
        ("struct<a:wood>", "field a has the type 'wood'"),
        ("struct<:int>", "has no name"),
    ],
)
def test_text_that_is_no_schema_hint(old, text, message):
    with pytest.raises(BadInputError, match=re.escape(message)):
        old.SimpleTypeParser.parse(text)
