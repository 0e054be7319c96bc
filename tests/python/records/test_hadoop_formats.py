"""The formats of tensorflow-hadoop in the jar, as programs for TensorFlowOnSpark 2.2.5 name them."""

from __future__ import annotations

import gzip

import pytest
import tensorflow as tf

INPUT = "org.tensorflow.hadoop.io.TFRecordFileInputFormat"
OUTPUT = "org.tensorflow.hadoop.io.TFRecordFileOutputFormat"
KEY = "org.apache.hadoop.io.BytesWritable"
VALUE = "org.apache.hadoop.io.NullWritable"


def example(number):
    values = tf.train.Int64List(value=[number, 2 * number])
    feature = {"image": tf.train.Feature(int64_list=values)}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def save(rdd, path, conf=None):
    pairs = rdd.map(lambda record: (bytearray(record), None))
    pairs.saveAsNewAPIHadoopFile(str(path), OUTPUT, keyClass=KEY, valueClass=VALUE, conf=conf)


def load(spark, path):
    pairs = spark.sparkContext.newAPIHadoopFile(str(path), INPUT, keyClass=KEY, valueClass=VALUE)
    return sorted(bytes(record) for record, nothing in pairs.collect() if nothing is None)


@pytest.fixture
def written():
    return [example(number) for number in range(5000)]


def test_tensorflow_reads_what_a_program_saves(spark, tmp_path, written):
    save(spark.sparkContext.parallelize(written, 3), tmp_path / "out")
    files = sorted(tmp_path.glob("out/part-r-*"))
    assert len(files) == 3 and (tmp_path / "out" / "_SUCCESS").exists()
    found = [record.numpy() for record in tf.data.TFRecordDataset([str(file) for file in files])]
    assert found == written, "in order"
    assert load(spark, tmp_path / "out") == sorted(written)


def test_a_program_loads_what_tensorflow_and_tfos_write(spark, tmp_path, written):
    with tf.io.TFRecordWriter(str(tmp_path / "one.tfrecord")) as writer:
        for record in written:
            writer.write(record)
    assert load(spark, tmp_path / "one.tfrecord") == sorted(written)
    frame = spark.createDataFrame([(n, [float(n)]) for n in range(100)], "id long, x array<float>")
    frame.repartition(2).write.format("tfrecord").save(str(tmp_path / "frame"))
    assert len(load(spark, tmp_path / "frame")) == 100


def test_indexes_are_passed_over(spark, tmp_path):
    frame = spark.range(100).repartition(2)
    frame.write.format("tfrecord").option("index", "true").save(str(tmp_path / "frame"))
    assert len(list((tmp_path / "frame").glob("part-*.tfindex"))) == 2
    assert len(load(spark, tmp_path / "frame")) == 100


def test_a_file_that_is_not_copied_to_its_end_is_passed_over(spark, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "one")) as writer:
        writer.write(b"record")
    (tmp_path / "two._COPYING_").write_bytes(b"part of a record")
    assert load(spark, tmp_path) == [b"record"]


@pytest.mark.parametrize("name", ["_one", ".one", "one._COPYING_", "one.tfindex"])
def test_a_file_that_is_named_itself_is_read(spark, tmp_path, name):
    for path, record in ((tmp_path / name, b"named"), (tmp_path / "folder" / "two", b"listed")):
        path.parent.mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(record)
    assert load(spark, tmp_path / name) == [b"named"]
    assert load(spark, f"{tmp_path / 'folder'},{tmp_path / name}") == [b"listed", b"named"]


def test_an_empty_partition_is_an_empty_file(spark, tmp_path):
    save(spark.sparkContext.parallelize([b"alone"], 2), tmp_path / "out")
    assert sorted(file.stat().st_size for file in tmp_path.glob("out/part-r-*")) == [
        0,
        16 + len(b"alone"),
    ]
    assert load(spark, tmp_path / "out") == [b"alone"]


@pytest.mark.parametrize(
    "codec, ending", [(None, ""), ("Gzip", ".gz"), ("Default", ".deflate"), ("BZip2", ".bz2")]
)
def test_codecs_of_hadoop(spark, tmp_path, written, codec, ending):
    conf = (
        {}
        if codec is None
        else {
            "mapreduce.output.fileoutputformat.compress": "true",
            "mapreduce.output.fileoutputformat.compress.codec": f"org.apache.hadoop.io.compress.{codec}Codec",
        }
    )
    save(spark.sparkContext.parallelize(written, 2), tmp_path / "out", conf)
    files = sorted(tmp_path.glob("out/part-r-*"))
    assert [file.name for file in files] == [f"part-r-0000{n}{ending}" for n in range(2)]
    assert load(spark, tmp_path / "out") == sorted(written)
    if codec == "Gzip":
        with gzip.open(files[0]) as unpacked:
            (tmp_path / "plain").write_bytes(unpacked.read())
        found = [record.numpy() for record in tf.data.TFRecordDataset(str(tmp_path / "plain"))]
        assert len(found) > 1000 and found == written[: len(found)]


def test_a_damaged_file_is_named(spark, tmp_path, written):
    save(spark.sparkContext.parallelize(written[:3], 1), tmp_path / "out")
    (file,) = tmp_path.glob("out/part-r-*")
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    (tmp_path / "out" / f".{file.name}.crc").unlink()  # Hadoop's own sums would tell first.
    with pytest.raises(Exception, match=rf"{file.name}: record 0 at offset 0: the CRC"):
        load(spark, tmp_path / "out")


@pytest.mark.parametrize("path", ["big.tfrecord", "*.tfrecord", "{big,small}.tfrecord"])
def test_the_index_of_a_file_counts_where_columns_are_inferred(spark, tmp_path, path):
    for name, rows in (("big", 300_000), ("small", 10)):
        frame = spark.range(rows).selectExpr("id", "repeat('x', 30) AS s").coalesce(1)
        frame.write.format("tfrecord").option("index", name == "big").save(
            str(tmp_path / "written" / name)
        )
        for file in (tmp_path / "written" / name).glob("part-*"):
            ending = ".tfrecord.tfindex" if file.name.endswith(".tfindex") else ".tfrecord"
            file.rename(tmp_path / f"{name}{ending}")
    assert (tmp_path / "big.tfrecord.tfindex").exists()
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(4 << 20))
    try:
        frame = spark.read.format("tfrecord").load(str(tmp_path / path))
        assert frame.rdd.getNumPartitions() > 2
        rows = 300_000 + (0 if path == "big.tfrecord" else 10)
        assert frame.count() == rows and frame.selectExpr("max(id)").first()[0] == 299_999
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
