"""A file system that fails: the error arrives, nothing is half there, and the next try works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid

import pyarrow as pa
import pytest

from tfos import records
from tfos.files import hadoop_client
from tfos.files.access import access_for
from tfos.records import conversion

BATCH = pa.record_batch({"id": range(1_000), "s": ["x" * 1_000] * 1_000})
BOUND_SECONDS = 600


def injected(operation, error=OSError):
    return pytest.raises(error, match=f"injected failure of {operation}")


# Without Spark and TensorFlow.


@pytest.mark.parametrize("operation", ["create", "write", "close"])
def test_a_file_that_could_not_be_written(faulty, operation):
    faulty.inject(operation)
    with injected(operation) as raised:
        records.write(f"{faulty.uri}/f", [BATCH])
    assert raised.value.errno and f"{faulty.uri}/f" in str(raised.value)
    assert records.write(f"{faulty.uri}/f", [BATCH]) == 1_000
    assert records.verify(f"{faulty.uri}/f")["records"] == 1_000


@pytest.mark.parametrize("mode", ["failfast", "dropmalformed", "permissive"])
def test_a_file_that_could_not_be_read_is_not_taken_for_a_short_one(faulty, mode):
    records.write(f"{faulty.uri}/f", [BATCH])
    for operation, number in (("open", 1), ("read", 1), ("read", 100)):
        faulty.inject(operation, number)
        with injected(operation):
            list(records.read(f"{faulty.uri}/f", BATCH.schema, mode=mode))
    faulty.inject("read", 100)
    with injected("read"):
        records.verify(f"{faulty.uri}/f")
    assert sum(batch.num_rows for batch in records.read(f"{faulty.uri}/f", mode=mode)) == 1_000


def test_a_read_that_failed_midway_begins_again_where_it_began(faulty):
    content = b"".join(number.to_bytes(4, "big") for number in range(10_000))
    (faulty.path / "f").write_bytes(content)
    access, path = access_for(f"{faulty.uri}/f")
    with access.open(path) as file:
        faulty.inject("midread")
        with injected("midread"):
            file.read()
        assert file.read() == content


@pytest.mark.parametrize(
    "operation", ["status", "open", "read", "create", "write", "close", "rename"]
)
def test_an_index_is_whole_or_not_there(faulty, operation):
    path = f"{faulty.uri}/f"
    records.write(path, [BATCH])
    faulty.inject(operation)
    with injected(operation):
        records.make_index(path)
    assert os.listdir(faulty.path) == ["f"]
    assert records.make_index(path, interval_bytes=1 << 18) == 1_000
    assert len(records.split(path, 1 << 18)) > 1


@pytest.mark.parametrize("target", ["t.parquet", "t.csv", "t.tfrecord"])
@pytest.mark.parametrize("operation", ["create", "write", "close", "rename"])
def test_a_conversion_is_whole_or_not_there(faulty, operation, target):
    records.write(faulty.path / "f", [BATCH])
    (faulty.path / target).write_text("as it was")
    faulty.inject(operation)
    with injected(operation):
        conversion.convert([f"{faulty.uri}/f"], f"{faulty.uri}/{target}", overwrite=True)
    assert sorted(os.listdir(faulty.path)) == ["f", target]
    assert (faulty.path / target).read_text() == "as it was"
    written = conversion.convert([f"{faulty.uri}/f"], f"{faulty.uri}/{target}", overwrite=True)
    assert written == 1_000


def test_what_fails_of_a_file_access(faulty):
    access, root = access_for(faulty.uri)
    access.mkdirs(f"{root}/d")
    for operation, action in (
        ("status", lambda: access.status(root)),
        ("list", lambda: access.list(root)),
        ("list", lambda: access.glob(f"{root}/*")),
        ("mkdirs", lambda: access.mkdirs(f"{root}/e")),
        ("delete", lambda: access.delete(f"{root}/d")),
        ("list", lambda: access.delete_if_empty(f"{root}/d")),
        ("delete", lambda: access.delete_if_empty(f"{root}/d")),
    ):
        faulty.inject(operation)
        with injected(operation):
            action()
    assert os.listdir(faulty.path) == ["d"]


def grow(path, content):
    with path.open("ab") as file:
        file.write(content)


def test_a_reader_that_waits_at_the_end_of_a_file_hears_why_it_cannot_go_on(faulty):
    grow(faulty.path / "f", b"one")
    access, path = access_for(f"{faulty.uri}/f")
    with access.open(path) as file:
        assert (file.read(), file.read()) == (b"one", b"")
        faulty.inject("open")
        with injected("open"):
            file.read()
        grow(faulty.path / "f", b" two")
        assert file.read() == b" two"
        # A file that is gone ends where it ended.
        (faulty.path / "f").unlink()
        assert (file.read(), file.read()) == (b"", b"")


def test_a_file_that_is_read_at_once_is_opened_once(faulty):
    records.write(f"{faulty.uri}/f", [BATCH])
    access, path = access_for(f"{faulty.uri}/f")
    faulty.inject("open", 3)
    batches = records.read(f"{faulty.uri}/f", BATCH.schema)
    assert sum(batch.num_rows for batch in batches) == 1_000
    with access.open(path) as file:
        assert file.read() == (faulty.path / "f").read_bytes()
    with injected("open"):
        access.open(path)


def threads():
    return len(os.listdir("/proc/self/task"))


def test_files_that_are_only_open_have_no_threads(faulty):
    (faulty.path / "f").write_bytes(bytes(3 << 20))
    access, path = access_for(f"{faulty.uri}/f")
    room = bytearray(100_000)

    def read_in_pieces():
        file, position = hadoop_client.client().open(path), 0
        while found := file.read_into(position, room):
            position += found
        assert position == 3 << 20
        return file

    read_in_pieces()
    before = threads()
    files = [read_in_pieces() for _ in range(50)]
    assert len(files) == 50 and threads() < before + 25


def test_a_directory_is_listed_without_a_look_at_each_file(faulty):
    for name in ("a", "b", "c"):
        (faulty.path / name).write_text(name)
    access, root = access_for(faulty.uri)
    faulty.inject("status")
    assert [status.size for status in access.list(root)] == [1, 1, 1]
    with injected("status"):
        access.status(root)


# What Spark's tasks and driver do.


def run_job(uri, overwrite=False):
    """As Spark runs it: three tasks, then the commit, or abort after a failure."""
    from pyspark.sql import types as sql

    from tfos.records.spark import writer

    schema = sql.StructType(
        [sql.StructField("id", sql.LongType()), sql.StructField("s", sql.StringType())]
    )
    layout = writer.Layout(schema, "Example", compression="", level=None, index=True)
    output = writer.Output(uri, uuid.uuid4().hex)
    access, _ = access_for(uri)
    access.mkdirs(output.temporary)
    try:
        written = [
            writer.write_task(output, iter([BATCH]), layout, task=task, attempt=task)
            for task in range(3)
        ]
        output.commit(written, overwrite)
    except OSError:
        output.abort()
        raise


# Steps of a task: its file, then its index and the renaming of that. Three of those come before
# the six of the commit.
@pytest.mark.parametrize(
    ("operation", "number"),
    [
        ("create", 1),
        ("write", 1),
        ("close", 5),
        ("read", 10),
        ("rename", 2),
        ("rename", 4),
        ("rename", 9),
    ],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_is_whole_or_not_there(faulty, operation, number, overwrite):
    run_job(faulty.uri)
    before = sorted(os.listdir(faulty.path))
    assert len(before) == 7 and before[0] == "_SUCCESS"
    faulty.inject(operation, number)
    with injected(operation):
        run_job(faulty.uri, overwrite)
    assert sorted(os.listdir(faulty.path)) == before
    run_job(faulty.uri, overwrite)
    after = set(os.listdir(faulty.path))
    assert "_SUCCESS" in after and "_temporary" not in after
    assert len(after) == (7 if overwrite else 13)


@pytest.mark.parametrize(
    ("operation", "number"), [("write", 1), ("rename", 1), ("rename", 3), ("mkdirs", 3)]
)
def test_a_job_that_makes_directories_leaves_none_after_a_failure(faulty, operation, number):
    from pyspark.sql import types as sql

    from tfos.records.spark import writer

    access, _ = access_for(faulty.uri)
    schema = sql.StructType(
        [sql.StructField("id", sql.LongType()), sql.StructField("day", sql.LongType())]
    )
    layout = writer.Layout(
        schema, "Example", compression="", level=None, index=False, partition_by=("day",)
    )

    def run(days):
        output = writer.Output(faulty.uri, uuid.uuid4().hex)
        access.mkdirs(output.temporary)
        try:
            rows = pa.record_batch({"id": range(len(days)), "day": days})
            output.commit(
                [writer.write_task(output, iter([rows]), layout, task=0, attempt=0)], True
            )
        except OSError:
            output.abort()
            raise

    def content():
        return sorted(str(path.relative_to(faulty.path)) for path in faulty.path.rglob("*"))

    run([1, 1, 2])
    before = content()
    assert len(before) == 5 and {"_SUCCESS", "day=1", "day=2"} <= set(before)
    faulty.inject(operation, number)
    with injected(operation):
        run([2, 3, 4])
    assert content() == before
    run([2, 3, 4])
    assert sorted(os.listdir(faulty.path)) == ["_SUCCESS", "day=2", "day=3", "day=4"]


SPARK = """
import json, os, sys
from pyspark.sql import SparkSession
import tfos
uri, plan = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.sql.shuffle.partitions", "1").getOrCreate())
frame = spark.range(0, 2000, 1, 2).selectExpr("id", "repeat('x', 500) AS s")
for planned in ("write 2", "rename 2", ""):
    with open(plan, "w") as file:
        file.write(planned)
    try:
        tfos.save_tfrecords(frame, uri, "append")
        error = ""
    except Exception as failure:
        error = str(failure)
    left = open(plan).read()
    listed = sorted(os.listdir(uri.removeprefix("faulty://")))
    print("RESULT " + json.dumps([planned, error, left, listed]), flush=True)
with open(plan, "w") as file:
    file.write("read 5")
try:
    spark.read.format("tfrecord").load(uri).count()
except Exception as failure:
    print("RESULT " + json.dumps(str(failure)))
print("RESULT", spark.read.format("tfrecord").load(uri).selectExpr("count(*)").first()[0])
"""


@pytest.mark.spark  # In a process of its own.
@pytest.mark.timeout(BOUND_SECONDS + 60)
@pytest.mark.long
def test_spark_says_what_failed_and_shows_nothing_of_it(hadoop, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/_SUCCESS").touch()
    environment = {**os.environ, **hadoop.faults.environment}
    done = subprocess.run(
        [sys.executable, "-c", SPARK, f"faulty://{tmp_path}/out", environment["TFOS_TEST_FAULTS"]],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    results = [
        json.loads(line.removeprefix("RESULT "))
        for line in done.stdout.splitlines()
        if line.startswith("RESULT ")
    ]
    *writes, reading, count = results
    assert [left for _, _, left, _ in writes] == ["", "", ""]
    for planned, error, _, listed in writes[:2]:
        assert f"injected failure of {planned.split()[0]}" in error
        assert listed == ["_SUCCESS"]
    _, error, _, listed = writes[2]
    assert not error and len(listed) == 3
    assert "injected failure of read" in reading
    assert count == 2000


# What TensorFlow sees.


@pytest.fixture
def gfile(faulty):
    import tensorflow as tf

    import tfos.tensorflow

    tfos.tensorflow.register_schemes()
    return tf.io.gfile


def failing(operation):
    import tensorflow as tf

    return injected(operation, tf.errors.UnknownError)


@pytest.mark.parametrize("operation", ["create", "write", "flush", "close"])
def test_tensorflow_hears_of_writes_that_failed(faulty, gfile, operation):
    faulty.inject(operation)
    with failing(operation):
        with gfile.GFile(f"{faulty.uri}/f", "wb") as file:
            file.write(b"x" * 3_000_000)
            file.flush()
    with gfile.GFile(f"{faulty.uri}/f", "wb") as file:
        file.write(b"whole")
    assert (faulty.path / "f").read_bytes() == b"whole"


def test_tensorflow_hears_of_reads_that_failed(faulty, gfile):
    import tensorflow as tf

    records.write_records(f"{faulty.uri}/f", [b"x" * 1_000] * 1_000)
    for operation, number in (("open", 1), ("read", 1), ("read", 50)):
        faulty.inject(operation, number)
        with failing(operation):
            list(tf.data.TFRecordDataset(f"{faulty.uri}/f"))
    assert len(list(tf.data.TFRecordDataset(f"{faulty.uri}/f"))) == 1_000


def test_a_dataset_hears_of_reads_that_failed(faulty):
    import tensorflow as tf

    from tfos.node import files as node_files

    records.write(f"{faulty.uri}/f", [BATCH])
    schema = pa.schema([("id", pa.int64())])
    for mode in ("failfast", "dropmalformed"):
        dataset = node_files.tfrecords([f"{faulty.uri}/f"], schema, 100, mode=mode)
        for operation, number in (("open", 1), ("read", 1), ("read", 3)):
            faulty.inject(operation, number)
            with injected(operation, tf.errors.OpError):
                list(dataset)
        assert len(list(dataset)) == 10


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("rename", lambda gfile, uri: gfile.rename(f"{uri}/a", f"{uri}/b", overwrite=True)),
        ("delete", lambda gfile, uri: gfile.remove(f"{uri}/a")),
        ("delete", lambda gfile, uri: gfile.rmtree(f"{uri}/d")),
        ("mkdirs", lambda gfile, uri: gfile.makedirs(f"{uri}/e")),
        ("list", lambda gfile, uri: gfile.listdir(uri)),
        ("status", lambda gfile, uri: gfile.stat(uri)),
    ],
)
def test_tensorflow_hears_of_what_was_not_done(faulty, gfile, operation, action):
    for name in ("a", "b"):
        (faulty.path / name).write_text(name)
    (faulty.path / "d").mkdir()
    faulty.inject(operation)
    with failing(operation):
        action(gfile, faulty.uri)
    assert sorted(os.listdir(faulty.path)) == ["a", "b", "d"]
    assert (faulty.path / "b").read_text() == "b"
    action(gfile, faulty.uri)


@pytest.mark.parametrize("operation", ["create", "write", "close", "rename"])
def test_a_checkpoint_that_failed_leaves_the_last_one(faulty, gfile, operation):
    import tensorflow as tf

    variable = tf.Variable(tf.zeros([100_000]))
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(v=variable), f"{faulty.uri}/c", max_to_keep=3
    )
    saved = manager.save()
    variable.assign(tf.ones([100_000]))
    faulty.inject(operation)
    with failing(operation):
        manager.save()
    assert tf.train.latest_checkpoint(f"{faulty.uri}/c") == saved
    tf.train.Checkpoint(v=variable).restore(saved).assert_consumed()
    assert float(tf.reduce_sum(variable)) == 0
    assert tf.train.latest_checkpoint(f"{faulty.uri}/c") != manager.save()


def test_nobody_there_is_unavailable(hadoop, gfile):
    import tensorflow as tf

    with pytest.raises(tf.errors.UnavailableError, match="ConnectException"):
        gfile.exists("hdfs://127.0.0.1:1/x")
