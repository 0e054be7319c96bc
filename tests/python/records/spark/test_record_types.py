"""What records of Spark hold: types of columns, the schema that is inferred, kinds of records."""

from __future__ import annotations

import decimal
import os
import random

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import types as sql

from support.files.remote_files import visible_in
from support.spark.errors import SPARK_ERRORS
from tfos import records
from tfos.errors import BadInputError

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


def test_a_decimal_at_a_tie_is_rounded_as_spark_does_it(source, tmp_path):
    values = [0.125, -0.125, 0.375, 0.1249, 0.335, 2.675, -7.0, None]
    column = pa.array(values, pa.float32())
    records.write(tmp_path / "f", [pa.record_batch({"x": column, "n": range(len(values))})])
    frame = source.read(tmp_path / "f", "n long, x decimal(10,2)").orderBy("n")
    floats = source.read(tmp_path / "f", "n long, x double").orderBy("n")
    expected = floats.selectExpr("cast(x as decimal(10,2)) AS x")
    found = [row.x for row in frame.collect()]
    assert found == [row.x for row in expected.collect()]
    assert found[:3] == [decimal.Decimal(text) for text in ("0.13", "-0.13", "0.38")]


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


def test_records_that_are_passed_over_make_no_columns(source, tmp_path):
    path = tmp_path / "f.tfrecord"
    encoded = [
        records.encode(pa.record_batch(columns))[0].as_py()
        for columns in ({"n": [1]}, {"more": [1], "n": ["x"]})
    ]
    breaks_off = encoded[1] + b"\x0a\x7f"
    records.write_records(path, [encoded[0], breaks_off, encoded[0]])
    for mode, rows in (("dropmalformed", [1, 1]), ("permissive", [1, None, 1])):
        frame = source.read(path, mode=mode)
        assert frame.schema.simpleString() == "struct<n:bigint>"
        assert [row.n for row in frame.collect()] == rows


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


def test_records_that_are_no_text_are_bad_ones_in_a_column_of_strings(source, tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write_records(path, [b"one", b"\xff", b"three"])

    def read(**options):
        frame = source.read(path, "text string", recordType="ByteArray", **options)
        return [row.text for row in frame.collect()]

    assert read(mode="dropmalformed") == ["one", "three"]
    assert read(mode="permissive") == ["one", None, "three"]
    with pytest.raises(SPARK_ERRORS, match=r"record 1 at offset 19: .*UTF-8"):
        read()


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
    "source, size, indices, values",
    [
        ("jvm", 3, [-1], [5.0]),
        ("jvm", 3, [3], [5.0]),
        ("jvm", 3, [1 << 30], [5.0]),
        ("jvm", 3, [1], [5.0, 6.0]),
        ("jvm", -1, [], []),
        # Each takes long; test_parts_of_the_source.py has the others.
        ("python", 3, [3], [5.0]),
    ],
    indirect=["source"],
)
def test_vectors_that_are_none_are_refused(source, tmp_path, size, indices, values):
    """Spark takes from Python what no vector of its own would be."""
    vector = Vectors.sparse(3, [1], [5.0])
    vector.size, vector.indices, vector.values = size, np.array(indices, np.int32), values
    frame = source.spark.createDataFrame([(vector,)], ["v"])
    with pytest.raises(SPARK_ERRORS, match=f"a sparse vector of size {size} has"):
        source.write(frame, tmp_path / "out")


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
