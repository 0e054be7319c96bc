"""TFRecords as a data source, on a real Spark: what is written is read back, all of it or nothing."""

from __future__ import annotations

import datetime
import decimal
import os
import random
import re
import subprocess

import pyarrow as pa
import pytest
from conftest import ROOT

pytest.importorskip("pyspark.sql.datasource")

from pyspark.errors import AnalysisException, PySparkException  # noqa: E402
from pyspark.ml.linalg import Vectors  # noqa: E402
from pyspark.sql import types as sql  # noqa: E402

import tfos  # noqa: E402
from tfos import executable, record_listing, record_types, records, tfrecord_writer  # noqa: E402
from tfos.errors import BadInputError  # noqa: E402
from tfos.file_access import access_for  # noqa: E402

SCALARS = {
    "boolean": sql.BooleanType(), "byte": sql.ByteType(), "short": sql.ShortType(),
    "int": sql.IntegerType(), "long": sql.LongType(), "float": sql.FloatType(),
    "double": sql.DoubleType(), "decimal": sql.DecimalType(8, 2), "string": sql.StringType(),
    "binary": sql.BinaryType(),
}


@pytest.fixture(scope="module")
def session(spark):
    tfos.register(spark)
    return spark


def read(session, path, schema=None, **options):
    reader = session.read.format("tfrecord").options(**options)
    return (reader.schema(schema) if schema else reader).load(path if isinstance(path, list) else str(path))


def write(frame, path, mode="append", **options):
    frame.write.format("tfrecord").mode(mode).options(**options).save(str(path))


def visible(path):
    return sorted(name for name in os.listdir(path) if not name.startswith(("_", ".")))


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


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
        (number, *(maybe(random_value(source, name)) for name in SCALARS),
         *(maybe([random_value(source, name) for _ in range(source.randrange(4))]) for name in SCALARS))
        for number in range(count)
    ]


ALL_TYPES = sql.StructType([
    sql.StructField("id", sql.LongType()),
    *(sql.StructField(f"{name}_one", kind) for name, kind in SCALARS.items()),
    *(sql.StructField(f"{name}_array", sql.ArrayType(kind)) for name, kind in SCALARS.items()),
])


@pytest.mark.parametrize("compression, suffix", [("none", ""), ("gzip", ".gz"), ("zlib", ".zlib")])
def test_every_type_comes_back(session, tmp_path, compression, suffix):
    rows = random_rows(compression, 200)
    frame = session.createDataFrame(rows, ALL_TYPES).repartition(3)
    write(frame, tmp_path / "out", compression=compression)
    assert all(name.endswith(".tfrecord" + suffix) for name in visible(tmp_path / "out"))
    assert os.path.exists(tmp_path / "out/_SUCCESS")
    assert not os.path.exists(tmp_path / "out/_temporary")
    again = read(session, tmp_path / "out", ALL_TYPES).orderBy("id")
    assert [tuple(row) for row in again.collect()] == rows
    assert again.schema == ALL_TYPES


def test_the_schema_is_inferred(session, tmp_path):
    frame = session.createDataFrame(
        [(1, 0.5, "a", bytearray(b"\xff"), [1, 2], True), (2, 1.5, None, bytearray(b"x"), [3], False)],
        "id int, d double, s string, b binary, a array<int>, flag boolean")
    write(frame, tmp_path / "out")
    inferred = read(session, tmp_path / "out")
    assert {field.name: field.dataType.simpleString() for field in inferred.schema} == {
        "id": "bigint", "d": "float", "s": "string", "b": "binary", "a": "array<bigint>",
        "flag": "bigint"}
    assert all(field.nullable for field in inferred.schema)
    assert inferred.where("id = 1").first().asDict() == {
        "id": 1, "d": 0.5, "s": "a", "b": bytearray(b"\xff"), "a": [1, 2], "flag": 1}
    plain = read(session, tmp_path / "out", inferStrings="false")
    assert plain.schema["s"].dataType == sql.BinaryType()
    assert read(session, tmp_path / "out", sampleRecords=1).count() == 2


def test_record_types(session, tmp_path):
    nested = session.createDataFrame([(7, [[1.0, 2.0], [], [3.0]])], "id long, steps array<array<float>>")
    write(nested, tmp_path / "sequence", recordType="SequenceExample")
    assert read(session, tmp_path / "sequence", recordType="sequenceexample").collect() == nested.collect()
    with pytest.raises(AnalysisException, match="column steps is .* need recordType SequenceExample"):
        write(nested, tmp_path / "example")
    raw = session.createDataFrame([(bytearray(b"one"),), (bytearray(b""),)], "value binary")
    write(raw.coalesce(1), tmp_path / "raw", recordType="ByteArray")
    [name] = visible(tmp_path / "raw")
    assert list(records.read_records(tmp_path / "raw" / name)) == [b"one", b""]
    assert read(session, tmp_path / "raw", recordType="ByteArray").collect() == [
        (bytearray(b"one"),), (bytearray(b""),)]
    assert read(session, tmp_path / "raw", "text string", recordType="ByteArray").first().text == "one"


def test_vectors_are_written_dense(session, tmp_path):
    frame = session.createDataFrame([(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(3, [1], [5.0]))],
                                    ["id", "v"])
    write(frame, tmp_path / "out")
    assert [row.v for row in read(session, tmp_path / "out").orderBy("id").collect()] == [
        [1.0, 2.0], [0.0, 5.0, 0.0]]


@pytest.mark.parametrize("column, message", [
    ("current_date()", "column x is date: cast it"),
    ("current_timestamp()", "column x is timestamp: cast it"),
    ("map('a', 1)", "column x is map<string,int>: make an array"),
    ("array(array(array(1)))", "nested twice at most"),
    ("struct(1 AS a)", "select its fields"),
])
def test_what_records_cannot_hold_is_refused_before_anything_is_written(session, tmp_path, column, message):
    frame = session.range(3).selectExpr("id", f"{column} AS x")
    with pytest.raises(AnalysisException) as raised:
        write(frame, tmp_path / "out")
    assert message in str(raised.value)
    with pytest.raises(BadInputError) as raised:
        tfos.save_tfrecords(frame, str(tmp_path / "out"))
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_modes(session, tmp_path):
    path = tmp_path / "out"
    tfos.save_tfrecords(session.range(3), str(path))
    with pytest.raises(AnalysisException, match="is there already; choose"):
        tfos.save_tfrecords(session.range(3), str(path))
    tfos.save_tfrecords(session.range(10, 12), str(path), "ignore")
    assert ids(read(session, path)) == [0, 1, 2]
    write(session.range(3, 5), path, "append")
    assert ids(read(session, path)) == [0, 1, 2, 3, 4]
    # Also over what the same job reads.
    write(read(session, path).where("id > 2"), path, "overwrite")
    assert ids(read(session, path)) == [3, 4]
    for mode in ("error", "ignore"):  # Spark's own refusal, which says what it takes.
        with pytest.raises(AnalysisException, match="cannot be written in the"):
            write(session.range(1), path, mode)
    with pytest.raises(BadInputError, match="mode 'replace'"):
        tfos.save_tfrecords(session.range(1), str(path), "replace")


def test_a_failed_job_leaves_everything_as_it_was(session, tmp_path):
    path = tmp_path / "out"
    write(session.range(3), path)
    before = sorted(os.listdir(path))
    failing = session.range(0, 100, 1, 2).selectExpr(
        "id", "if(id = 99, raise_error('on purpose'), 1) AS x")
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="on purpose"):
            write(failing, path, mode)
        assert sorted(os.listdir(path)) == before
    assert ids(read(session, path)) == [0, 1, 2]


def test_columns_become_directories(session, tmp_path):
    path = tmp_path / "out"
    frame = session.range(0, 60, 1, 3).selectExpr(
        "id", "id % 3 AS day", "element_at(array('a/b', NULL, 'ü=', ''), cast(id % 4 + 1 AS int)) AS land")
    with pytest.raises(PySparkException, match="partitioning"):  # Spark itself has no way to say it.
        frame.write.format("tfrecord").mode("append").partitionBy("day").save(str(path))
    tfos.save_tfrecords(frame, str(path), partition_by=["day", "land"], index="true")
    assert visible(path) == ["day=0", "day=1", "day=2"]
    assert visible(path / "day=0") == ["land=__HIVE_DEFAULT_PARTITION__", "land=a%2Fb", "land=ü%3D"]
    again = read(session, path)
    assert again.schema.simpleString() == "struct<id:bigint,day:bigint,land:string>"
    expected = {(row.id, row.day, row.land or None) for row in frame.collect()}
    assert {tuple(row) for row in again.collect()} == expected
    # A file of each task in each directory, with its index.
    names = visible(path / "day=0" / "land=a%2Fb")
    assert 2 <= len(names) <= 6 and sum(name.endswith(".tfindex") for name in names) == len(names) // 2
    tfos.save_tfrecords(frame.where("day = 0 AND land = 'ü='"), str(path), "overwrite", partition_by="day")
    assert visible(path) == ["day=0"] and len(visible(path / "day=0")) <= 3
    assert {row.land for row in read(session, path).collect()} == {"ü="}
    for columns, message in ((["none"], "partition_by has none; the columns are id, day, land"),
                             (["id", "day", "land"], "a schema without columns can't be written")):
        with pytest.raises(BadInputError, match=message):
            tfos.save_tfrecords(frame, str(path), "append", partition_by=columns)
    with pytest.raises(BadInputError, match="x, which is double"):
        tfos.save_tfrecords(frame.selectExpr("id", "id / 2 AS x"), str(path), partition_by="x")


def test_directories_patterns_and_hidden_files(session, tmp_path):
    for day, country in ((1, "at"), (2, "ch"), (2, "__HIVE_DEFAULT_PARTITION__")):
        directory = tmp_path / f"day={day}" / f"land={country}"
        directory.mkdir(parents=True)
        records.write(directory / "part", [pa.record_batch({"id": [day]})])
        (directory / "_hidden").write_text("no record")
        (directory / ".part.crc").write_text("no record")
    frame = read(session, tmp_path)
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        "id": "bigint", "day": "bigint", "land": "string"}
    assert sorted(map(tuple, frame.collect()), key=str) == [(1, 1, "at"), (2, 2, "ch"), (2, 2, None)]
    assert read(session, tmp_path, "day string, land string").where("day = '2'").count() == 2
    assert read(session, str(tmp_path / "day=*" / "land=a*")).columns == ["id", "day", "land"]
    assert ids(read(session, [str(tmp_path / "day=1"), str(tmp_path / "day=2/land=ch")],
                    recursiveFileLookup="true")) == [1, 2]
    assert read(session, f"file://{tmp_path}/day=1").columns == ["id", "land"]
    with pytest.raises(AnalysisException, match="do not lie below directories of the same columns"):
        read(session, [str(tmp_path / "day=1"), str(tmp_path / "day=2/land=ch")])
    with pytest.raises(AnalysisException, match="land=at has no value for column land"):
        read(session, tmp_path, "land int").collect()
    (tmp_path / "day=1/land=at/other.txt").write_text("no record")
    assert ids(read(session, tmp_path / "day=1", pathGlobFilter="pa*")) == [1]


def test_indexed_files_are_read_by_several_tasks(session, tmp_path):
    path = tmp_path / "out"
    frame = session.range(300_000).selectExpr("id", "repeat('x', 30) AS s").coalesce(1)
    write(frame, path, index="true")
    assert len(visible(path)) == 2 and visible(path)[1].endswith(".tfindex")
    schema = "id long, s string"
    parts = read(session, path, schema)
    assert parts.rdd.getNumPartitions() > 1
    assert parts.selectExpr("count(*)", "sum(id)", "count(distinct id)").first() == (
        300_000, 300_000 * 299_999 // 2, 300_000)
    os.unlink(path / visible(path)[1])
    assert read(session, path, schema).rdd.getNumPartitions() == 1


def test_bad_records(session, tmp_path):
    path = tmp_path / "f.tfrecord"
    records.write(path, [pa.record_batch({"id": range(10)})])
    content = bytearray(path.read_bytes())
    size = len(content) // 10
    content[3 * size + 14] ^= 1
    path.write_bytes(content)
    with pytest.raises(PySparkException, match=rf"f.tfrecord: record 3 at offset {3 * size}: the CRC"):
        read(session, path, "id long").collect()
    assert ids(read(session, path, "id long", mode="DROPMALFORMED")) == [0, 1, 2, *range(4, 10)]
    assert read(session, path, mode="dropmalformed").count() == 9  # The sample has it, too.
    rows = [row.id for row in read(session, path, "id long", mode="permissive").collect()]
    assert rows == [0, 1, 2, None, *range(4, 10)]
    kept = read(session, path, "id long, _corrupt_record binary", mode="permissive")
    record = bytes(content[3 * size + 12:4 * size - 4])
    assert [row._corrupt_record for row in kept.collect()] == [None] * 3 + [record] + [None] * 6
    assert kept.where("_corrupt_record is not null").count() == 1
    named = read(session, path, mode="permissive", columnNameOfCorruptRecord="bad")
    assert named.schema.names == ["id", "bad"] and named.where("bad is not null").first().bad == record
    only = read(session, path, "_corrupt_record binary", mode="permissive").collect()
    assert [row[0] is None for row in only] == [n != 3 for n in range(10)]
    misfits = read(session, path, "id string, _corrupt_record binary", mode="permissive").collect()
    assert all(row.id is None and row._corrupt_record for row in misfits)
    with pytest.raises(AnalysisException, match="has to be binary that may be null, and not string"):
        read(session, path, "id long, _corrupt_record string", mode="permissive").collect()
    raw = read(session, path, recordType="ByteArray", mode="permissive").collect()
    assert [row.byteArray is None for row in raw] == [n == 3 for n in range(10)]
    assert read(session, path, recordType="ByteArray", mode="dropmalformed").count() == 9
    path.write_bytes(content[:-1])
    assert read(session, path, recordType="ByteArray", mode="dropmalformed").count() == 8
    assert read(session, path, "id long", mode="dropmalformed").count() == 8


@pytest.mark.parametrize("options, message", [
    ({"mode": "fast"}, "mode 'fast'"), ({"recordType": "Other"}, "recordType 'Other'"),
    ({"compression": "lz4"}, "compression 'lz4'"), ({"sampleRecords": "none"}, "sampleRecords='none'"),
    ({"columnNameOfCorruptRecord": "x"}, "goes with mode permissive"),
    ({"mergeSchema": "true"}, "option mergeschema; there are columnnameofcorruptrecord"),
    ({"inferStrings": "1"}, "inferStrings='1' is neither"),
])
def test_options_that_are_refused(session, tmp_path, options, message):
    records.write(tmp_path / "f", [pa.record_batch({"id": [1]})])
    with pytest.raises(AnalysisException, match=message):
        read(session, tmp_path / "f", **options)


def test_paths_that_are_refused(session, tmp_path):
    with pytest.raises(AnalysisException, match="no such file or directory.*none"):
        read(session, tmp_path / "none")
    with pytest.raises(AnalysisException, match="nothing matches"):
        read(session, tmp_path / "n*")
    with pytest.raises(AnalysisException, match="there is no file to read"):
        read(session, tmp_path)
    with pytest.raises(AnalysisException, match="nobody is known who serves gs://"):
        read(session, "gs://bucket/data")
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(AnalysisException, match="no record in it has a value"):
        read(session, tmp_path / "f")
    with pytest.raises(AnalysisException, match="is a file; TFRecords are written into a directory"):
        write(session.range(1), tmp_path / "f")
    write(session.range(0), tmp_path / "empty")
    assert os.listdir(tmp_path / "empty") == ["_SUCCESS"]


def test_tensorflow_reads_what_spark_wrote(session, tmp_path):
    tf = pytest.importorskip("tensorflow")
    write(session.range(20).selectExpr("id", "concat('x', id) AS s"), tmp_path / "out", compression="gzip")
    files = [str(tmp_path / "out" / name) for name in visible(tmp_path / "out")]
    parsed = [tf.io.parse_single_example(record, {"id": tf.io.FixedLenFeature([], tf.int64),
                                                  "s": tf.io.FixedLenFeature([], tf.string)})
              for record in tf.data.TFRecordDataset(files, "GZIP")]
    assert sorted((int(row["id"]), row["s"].numpy()) for row in parsed) == [
        (n, b"x%d" % n) for n in range(20)]


def test_the_page_runs(session, tmp_path, monkeypatch):
    page = (ROOT / "docs/tfrecords.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"(?s)```python\n(.*?)```", page).group(1), {})
    commands = re.search(r"(?s)```sh\n(.*?)```", page).group(1).replace("tfos ", f"{executable.path()} ")
    subprocess.run(["bash", "-ec", commands], check=True, capture_output=True)
    assert (tmp_path / "digits.parquet").exists()


# Without Spark.


def test_a_commit_counts_only_what_spark_counts(tmp_path):
    output = tfrecord_writer.Output(str(tmp_path), "job")
    os.makedirs(output.temporary)
    for name in ("a", "a-of-a-failed-attempt"):
        (tmp_path / "_temporary/job" / name).write_text("new")
    (tmp_path / "old").write_text("old")
    os.makedirs(tmp_path / "_temporary/other-job")
    output.commit([tfrecord_writer.Written([("a", "part-a")], 1)], overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["_SUCCESS", "_temporary", "part-a"]
    assert os.listdir(tmp_path / "_temporary") == ["other-job"]


def test_a_commit_that_fails_keeps_the_old_files(tmp_path):
    output = tfrecord_writer.Output(str(tmp_path), "job")
    os.makedirs(output.temporary)
    (tmp_path / "old").write_text("old")
    with pytest.raises(FileNotFoundError):
        output.commit([tfrecord_writer.Written([("gone", "part-a")], 1)], overwrite=True)
    output.abort()
    assert os.listdir(tmp_path) == ["old"]


def test_parts_are_put_together_in_order():
    files = [record_listing.ListedFile(str(n), size) for n, size in enumerate([5, 50, 2, 2, 200, 3])]
    parts = [record_listing.FilePart(file, None, file.size << 20) for file in files]
    tasks = record_listing.pack_parts(parts, 64 << 20)
    assert [[part.file.path for part in task] for task in tasks] == [["0", "1"], ["2", "3"], ["4"], ["5"]]


def test_shares_are_balanced_and_complete():
    source = random.Random(5)
    for shares in (1, 3, 7):
        sizes = [(f"f{n}", source.randrange(1, 1000)) for n in range(40)]
        given = [record_listing.share_of(source.sample(sizes, 40), share, shares)
                 for share in range(shares)]
        assert sorted(sum(given, [])) == sorted(name for name, _ in sizes)
        loads = [sum(dict(sizes)[name] for name in names) for names in given]
        assert max(loads) - min(loads) <= 1000
    assert [len(record_listing.share_of([(f"f{n}", 0) for n in range(9)], n, 3)) for n in range(3)] == [3] * 3


def test_values_of_directories():
    file = record_listing.ListedFile
    assert record_listing.directory_columns([
        file("a", 1, (("n", "1"), ("s", "007"))), file("b", 1, (("n", None), ("s", "8")))]) == {
            "n": int, "s": str}


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
    batch = record_types.to_spark(schema)(pa.record_batch({"x": [1.26, None, 0.1]}), {})
    assert batch["x"].to_pylist() == [decimal.Decimal("1.3"), None, decimal.Decimal("0.1")]
    assert record_types.from_spark(batch, schema)["x"].type == pa.float64()


def test_directory_values_have_the_type_of_the_schema():
    scalar = record_types.directory_scalar("d", "2026-01-02", sql.DateType())
    assert scalar.as_py() == datetime.date(2026, 1, 2)
