"""tensorflowonspark.dfutil: what old programs call, with the types that they expect."""

import pytest
import tensorflow as tf
from pyspark.errors import AnalysisException
from pyspark.sql import Row

from tensorflowonspark import dfutil
from tfos.errors import BadInputError


def example(**features):
    kinds = {
        int: ("int64_list", tf.train.Int64List),
        float: ("float_list", tf.train.FloatList),
        bytes: ("bytes_list", tf.train.BytesList),
    }
    made = {}
    for name, values in features.items():
        field, kind = kinds[type(values[0])]
        made[name] = tf.train.Feature(**{field: kind(value=values)})
    return tf.train.Example(features=tf.train.Features(feature=made))


def test_a_dataframe_comes_back(spark, tmp_path):
    frame = spark.createDataFrame(
        [
            (
                1,
                2,
                True,
                0.5,
                1.5,
                "ä",
                bytearray(b"\xff"),
                [1, 2],
                [0.5, 1.0],
                ["a", "b"],
                [bytearray(b"\xfe")] * 2,
            )
        ],
        "i int, l long, flag boolean, f float, d double, s string, b binary, li array<int>, "
        "ld array<double>, ls array<string>, lb array<binary>",
    )
    path = str(tmp_path / "out")
    dfutil.saveAsTFRecords(frame, path)
    loaded = dfutil.loadTFRecords(spark.sparkContext, path, binary_features=["b", "lb"])
    assert dict(loaded.dtypes) == {
        "i": "bigint",
        "l": "bigint",
        "flag": "bigint",
        "f": "double",
        "d": "double",
        "s": "string",
        "b": "binary",
        "li": "array<bigint>",
        "ld": "array<double>",
        "ls": "array<string>",
        "lb": "array<binary>",
    }
    assert loaded.first().asDict() == frame.first().asDict()
    assert dfutil.isLoadedDF(loaded) and dfutil.loadedDF[loaded] == path
    assert not dfutil.isLoadedDF(frame) and not dfutil.isLoadedDF(loaded.select("i"))
    with pytest.raises(AnalysisException, match="already exists|is there already"):
        dfutil.saveAsTFRecords(frame, path)


def test_rdds_of_examples(spark):
    frame = spark.createDataFrame([(n, str(n), [n / 2, 1.0]) for n in range(5)], ["n", "s", "x"])
    pairs = frame.rdd.mapPartitions(dfutil.toTFExample(frame.dtypes))
    assert all(
        isinstance(record, bytearray) and nothing is None for record, nothing in pairs.collect()
    )
    assert (
        pairs.mapPartitions(dfutil.fromTFExample).toDF().orderBy("n").collect() == frame.collect()
    )


def test_examples_are_those_of_tensorflow(spark):
    rows = [Row(n=7, x=[0.5, 1.5], s="a", missing=None)]
    [(record, _)] = dfutil.toTFExample(
        [("n", "int"), ("x", "array<decimal(3,1)>"), ("s", "string"), ("missing", "binary")]
    )(rows)
    assert tf.train.Example.FromString(bytes(record)) == example(n=[7], x=[0.5, 1.5], s=[b"a"])
    assert dfutil.fromTFExample([(record, None)]) == [Row(n=7, s="a", x=[0.5, 1.5])]
    assert dfutil.fromTFExample([(record, None)], ["s"]) == [Row(n=7, s=b"a", x=[0.5, 1.5])]
    assert dfutil.fromTFExample(iter([])) == []
    with pytest.raises(BadInputError, match="column t is timestamp"):
        dfutil.toTFExample([("t", "timestamp")])


def test_infer_schema():
    one = example(b=[b"\xff"], f=[0.5], n=[1], ln=[1, 2], s=[b"a"])
    assert dfutil.infer_schema(one, ["b"]).simpleString() == (
        "struct<b:binary,f:double,ln:array<bigint>,n:bigint,s:string>"
    )
    assert dfutil.infer_schema(one)["b"].dataType.simpleString() == "string"


def test_reads_what_others_wrote(spark, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "part-r-00000")) as writer:
        for n in range(3):
            writer.write(example(n=[n], image=[b"\xff\x00"]).SerializeToString())
    (tmp_path / "_SUCCESS").touch()
    loaded = dfutil.loadTFRecords(spark.sparkContext, str(tmp_path), ["image"])
    assert sorted(map(tuple, loaded.collect())) == [(bytearray(b"\xff\x00"), n) for n in range(3)]
