"""The format of the jar and the one in Python: the same files, and the same words for what is wrong.

Tests in the folder spark run with both, too. What differs is in docs/tfrecords.md.
"""

from __future__ import annotations

import contextlib
import re

import pyarrow as pa
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions

from support.files.record_source import PYTHON_FORMAT, Source
from tfos import records
from tfos.errors import BadInputError
from tfos.records.spark import sessions as tfrecord_sessions


@pytest.fixture(scope="module")
def both(spark):
    tfrecord_sessions.register_python(spark, PYTHON_FORMAT)
    return [Source(spark, "jvm"), Source(spark, "python")]


@pytest.fixture(scope="module")
def path(both, tmp_path_factory):
    """A directory with one file of ids."""
    directory = tmp_path_factory.mktemp("records") / "ids"
    both[0].write(both[0].spark.range(10).coalesce(1), directory)
    return directory


@contextlib.contextmanager
def setting(both, name, value):
    """Both formats in a session with that setting, which the one in Python takes over when it is
    registered."""
    spark = both[0].spark
    spark.conf.set(name, value)
    try:
        tfrecord_sessions.register_python(spark, PYTHON_FORMAT)
        yield
    finally:
        spark.conf.unset(name)
        tfrecord_sessions.register_python(spark, PYTHON_FORMAT)


def said(action):
    """What tfos says as it refuses something, in an error of its own."""
    with pytest.raises(BadInputError) as raised:
        action()
    assert "\n" not in str(raised.value), "nothing of Spark's report"
    return str(raised.value)


def content_of(directory):
    """The files by their names, of which each format makes the first part up."""
    return {
        re.sub(r"^part-[^.]*", "part", file.name): file.read_bytes()
        for file in directory.iterdir()
        if not file.name.endswith(".crc")
    }


VALUES = {
    "Example": ["id", "cast(id as string) s", "array(id, id) a", "cast(id as decimal(8,2)) d"],
    "SequenceExample": ["id", "array(array(id), array(id, id)) a"],
    "ByteArray": ["cast(id as string) s"],
}


@pytest.mark.parametrize("record_type", VALUES)
@pytest.mark.parametrize(
    "options", [{"index": "true"}, {"compression": "gzip"}, {"compression": "ZLIB"}]
)
def test_both_write_the_same_bytes(both, tmp_path, record_type, options):
    written = []
    for source in both:
        frame = source.spark.range(3000).coalesce(1).selectExpr(*VALUES[record_type])
        directory = tmp_path / ("jvm" if source.is_jvm else "python")
        source.write(frame, directory, recordType=record_type, **options)
        written.append(content_of(directory))
    assert written[0] == written[1]
    assert len(written[0]) == 2 + ("index" in options)  # With _SUCCESS.


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "Fast"},
        {"recordType": "Other"},
        {"compression": "lz4"},
        {"validation": "half"},
        {"sampleRecords": "0"},
        {"sampleRecords": "+5"},
        {"sampleRecords": "9" * 20},
        {"inferStrings": "Yes"},
        {"maxPartitionBytes": "x"},
        {"columnNameOfCorruptRecord": "x"},
        {"nonsense": "1", "other": "2"},
    ],
)
def test_both_refuse_options_for_reading_alike(both, path, options):
    jvm, python = (said(lambda: source.read(path, **options).collect()) for source in both)
    assert jvm == python


@pytest.mark.parametrize(
    "options",
    [{"mode": "PERMISSIVE"}, {"recordType": "bytearray"}, {"validation": "NONE"}]
    + [{"compression": name} for name in ("", "None", "uncompressed")],
)
def test_both_take_options_in_any_case(both, path, options):
    jvm, python = (source.read(path, **options).collect() for source in both)
    assert jvm == python and len(jvm) == 10


def test_both_pass_over_options_of_the_other_direction(both, path, tmp_path):
    """A table has one set of options."""
    options = {"index": "true", "compressionLevel": "1", "sampleRecords": "5", "validation": "none"}
    for source in both:
        assert source.read(path, **options).count() == 10
        directory = tmp_path / ("jvm" if source.is_jvm else "python")
        source.write(source.read(path), directory, **options)
        assert source.read(directory).count() == 10


def test_the_session_names_the_column_of_bad_records_for_both(both, path):
    with setting(both, "spark.sql.columnNameOfCorruptRecord", "Bad"):
        jvm, python = (
            source.read(path, "id string, Bad binary", mode="permissive").collect()
            for source in both
        )
    assert jvm == python and len(jvm) == 10
    assert all(row.id is None and row.Bad for row in python)


def test_both_infer_alike_what_names_of_directories_hold(both, tmp_path):
    values = {
        "a": ["1", "-007", "__HIVE_DEFAULT_PARTITION__"],
        "b": [str(1 << 31), "0", "5"],
        "c": ["2.50", "1", "1.0E-4"],
        "f": [str((1 << 53) + 1), "0.5", "1"],
        "d": ["2026-01-31", "2024-02-29", "2026-12-01"],
        "e": ["2026-01-31", "7", "x"],
    }
    for number in range(3):
        below = "/".join(f"{name}={texts[number]}" for name, texts in values.items())
        (tmp_path / below).mkdir(parents=True)
        records.write(tmp_path / below / "part", [pa.record_batch({"id": [number]})])
    jvm, python = (source.read(tmp_path) for source in both)
    assert jvm.schema.simpleString() == python.schema.simpleString()
    assert sorted(jvm.collect(), key=str) == sorted(python.collect(), key=str)
    assert sorted(row.a for row in python.where("a is not null").collect()) == [-7, 1]
    with setting(both, "spark.sql.sources.partitionColumnTypeInference.enabled", "false"):
        jvm, python = (source.read(tmp_path) for source in both)
        assert jvm.schema.simpleString() == python.schema.simpleString()
        assert {row.a for row in python.collect()} == {"1", "-007", None}


@pytest.mark.parametrize(
    "options",
    [
        {"recordType": "Other"},
        {"compression": "lz4"},
        {"index": "1"},
        {"index": "true", "compression": "gzip"},
        {"compressionLevel": "10"},
        {"compressionLevel": "-1"},
        {"compressionLevel": "+5"},
        {"compressionLevel": "9" * 20},
    ],
)
def test_both_refuse_options_for_writing_alike(both, tmp_path, options):
    frame = both[0].spark.range(3)
    jvm, python = (said(lambda: source.write(frame, tmp_path / "x", **options)) for source in both)
    assert jvm == python
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", ["date", "map<string,int>", "array<array<int>>", "interval day"])
def test_both_refuse_types_alike(both, path, tmp_path, kind):
    frame = both[0].spark.range(1).select(functions.lit(None).cast(kind).alias("c"))
    jvm, python = (said(lambda: source.write(frame, tmp_path / "x")) for source in both)
    assert jvm == python and "this can't be written as TFRecords: column c is" in jvm
    jvm, python = (said(lambda: source.read(path, f"c {kind}").collect()) for source in both)
    assert jvm == python and "this can't be read as TFRecords: column c is" in jvm


def test_both_say_alike_in_which_record_and_column_a_value_does_not_fit(both, path):
    jvm, python = (said(lambda: source.read(path, "id string").collect()) for source in both)
    assert jvm.removeprefix("file:") == python
    assert ": record 0 at offset 0: column 'id': the record has an int64_list" in python


def test_both_refuse_a_null_alike(both, tmp_path):
    hole = "IF(id = 1500, array(1, null), array(1)) AS a"
    frame = both[0].spark.range(0, 2_000, 1, 1).selectExpr(hole)
    jvm, python = (
        said(lambda: source.write(frame, tmp_path / f"hole{number}"))
        for number, source in enumerate(both)
    )
    assert jvm == python and jvm.startswith("column 'a': row 1500 has a null inside a list")


def test_both_refuse_vectors_alike(both, path, tmp_path):
    frame = both[0].spark.createDataFrame([([Vectors.dense([1.0])],)], ["v"])
    jvm, python = (said(lambda: source.write(frame, tmp_path / "x")) for source in both)
    assert jvm == python and "column v is array<vector>" in jvm
    vector = both[0].spark.createDataFrame([(Vectors.dense([1.0]),)], ["v"]).schema
    jvm, python = (said(lambda: source.read(path, vector).collect()) for source in both)
    assert jvm == python and "array_to_vector" in jvm


def test_both_refuse_columns_of_byte_arrays_alike(both, path, tmp_path):
    frame = both[0].spark.range(1)
    write = {"recordType": "ByteArray"}
    jvm, python = (said(lambda: source.write(frame, tmp_path / "x", **write)) for source in both)
    assert jvm == python and "and not struct<id:bigint>" in jvm
    schema = "a int, b string"
    jvm, python = (said(lambda: source.read(path, schema, **write).collect()) for source in both)
    assert jvm == python and "and not struct<a:int,b:string>" in jvm
