"""TFRecords on a real HDFS: through Spark, dfutil, a node's context, and killed tasks."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import threading
import types
import uuid

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import tfos
from support.files.record_source import PYTHON_FORMAT, Source, ids
from support.files.remote_files import names_in, visible_in
from support.spark.errors import SPARK_ERRORS
from support.waiting import wait_for
from tfos import records
from tfos.base import executable
from tfos.errors import BadInputError
from tfos.files import paths
from tfos.files.access import access_for
from tfos.node import files as node_files
from tfos.node.context import NodeContext
from tfos.records.spark import sessions as tfrecord_sessions

BOUND_SECONDS = 120
SLOW_ROWS = 20_000


@pytest.fixture
def root(hdfs, empty_directory):
    return empty_directory("hdfs")


@pytest.fixture(scope="module")
def session(spark):
    tfos.register_tfrecords(spark)
    tfrecord_sessions.register_python(spark, PYTHON_FORMAT)
    return spark


@pytest.fixture(params=["jvm", "python"])
def source(request, session):
    return Source(session, request.param)


@pytest.fixture
def python_source(session):
    return Source(session, "python")


def test_every_mode_of_writing(source, session, root):
    path = f"{root}/out"
    source.save(session.range(3).coalesce(1), path, index="true")
    assert len(names_in(path)) == 3 and names_in(path)[0] == "_SUCCESS"
    expected = AnalysisException if source.is_jvm else BadInputError
    with pytest.raises(expected, match="already exists|is there already; choose"):
        source.save(session.range(3), path)
    source.save(session.range(10, 12), path, "ignore")
    source.save(session.range(3, 5), path, "append", compression="gzip")
    assert source.read(path).selectExpr("sum(id)").first()[0] == 10
    # What is read can be overwritten where that happens at the end.
    more = session.range(3, 5) if source.is_jvm else source.read(path).where("id > 2")
    source.save(more, path, "overwrite")
    assert ids(source.read(path, "id long")) == [3, 4]
    # Of a failed job Spark's own protocol, which the jar follows, may leave what is hidden.
    names = visible_in if source.is_jvm else names_in
    before = names(path)
    with pytest.raises(SPARK_ERRORS, match="on purpose"):
        source.save(
            session.range(4).selectExpr("id", "if(id = 3, raise_error('on purpose'), 1) AS x"),
            path,
            "append" if source.is_jvm else "overwrite",
        )
    assert names(path) == before


@pytest.mark.long
def test_directories_patterns_and_splitting(source, session, root):
    for day in (1, 2):
        records.write(f"{root}/day={day}/part", [pa.record_batch({"id": range(200_000)})])
        assert records.make_index(f"{root}/day={day}/part") == 200_000
    session.conf.set("spark.sql.files.maxPartitionBytes", 2 << 20)  # For the jar's.
    try:
        frame = source.read(root, "id long, day int", maxPartitionBytes=2 << 20)
        assert frame.rdd.getNumPartitions() > 2
    finally:
        session.conf.unset("spark.sql.files.maxPartitionBytes")
    assert sorted(map(tuple, frame.groupBy("day").agg({"id": "sum"}).collect())) == [
        (day, 199_999 * 100_000) for day in (1, 2)
    ]
    assert source.read(f"{root}/d*=2", "id long").where("id = 7").count() == 1
    with pytest.raises(
        AnalysisException, match="no such file or directory.*none|(?i:path does not exist).*none"
    ):
        source.read(f"{root}/none", "id long").count()


def test_paths_without_a_scheme_are_of_the_default_file_system(source, session, hadoop, root):
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    name = uuid.uuid4().hex
    configuration.set("fs.defaultFS", hadoop.hdfs)
    try:
        tfrecord_sessions.register_python(session, PYTHON_FORMAT)
        source.save(session.range(5), root.removeprefix(hadoop.hdfs) + "/out")
        source.save(session.range(3), name)
        assert ids(source.read(root.removeprefix(hadoop.hdfs) + "/out", "id long")) == list(
            range(5)
        )
    finally:
        configuration.set("fs.defaultFS", before)
        tfrecord_sessions.register_python(session, PYTHON_FORMAT)
    assert "_SUCCESS" in names_in(f"{root}/out")
    assert "_SUCCESS" in names_in(f"{hadoop.hdfs}/user/{paths.current_user()}/{name}")


@pytest.mark.long
def test_properties_of_the_session_reach_every_process(source, session, mounted_path, monkeypatch):
    path = f"{mounted_path}/out"
    source.save(session.range(3), path)
    assert ids(source.read(path)) == [0, 1, 2]
    # Java of this process has been started by other tests, maybe without them.
    monkeypatch.delenv("TFOS_HADOOP_PROPERTIES", raising=False)
    tfos.register_tfrecords(session)
    rows = subprocess.run(
        [executable.path(), "records", "cat", path],
        stdout=subprocess.PIPE,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    assert len(rows.stdout.splitlines()) == 3
    # What the process was given stays.
    monkeypatch.setenv("TFOS_HADOOP_PROPERTIES", "{}")
    tfos.register_tfrecords(session)
    assert os.environ["TFOS_HADOOP_PROPERTIES"] == "{}"


@pytest.fixture
def session_with_schemes(session, monkeypatch):
    """The session, as if it had been started with spark.tfos.hadoop.schemes."""
    key = "spark.tfos.hadoop.schemes"
    monkeypatch.setenv("TFOS_HADOOP_SCHEMES", "")  # So that it is as it was in the end.
    monkeypatch.delenv("TFOS_HADOOP_SCHEMES")
    session.sparkContext._conf.set(key, "webhdfs")
    yield session
    session.sparkContext._conf._jconf.remove(key)
    monkeypatch.undo()
    tfos.register_tfrecords(session)


def test_schemes_of_the_session_reach_every_process(session_with_schemes, hdfs, root):
    path = root.replace(hdfs.uri, f"webhdfs://{hdfs.http}") + "/out"
    with pytest.raises(BadInputError, match="no file system is configured for webhdfs://"):
        access_for(path)
    tfos.save_tfrecords(session_with_schemes.range(3), path)
    assert ids(session_with_schemes.read.format("tfrecord").load(path)) == [0, 1, 2]
    assert ids(session_with_schemes.read.format("tfrecord").load(f"{root}/out")) == [0, 1, 2]


@pytest.mark.long
def test_old_programs(session, root):
    from tensorflowonspark import dfutil

    frame = session.createDataFrame([(1, "ä", [0.5, 1.0])], "i int, s string, x array<float>")
    dfutil.saveAsTFRecords(frame, f"{root}/out")
    loaded = dfutil.loadTFRecords(session.sparkContext, f"{root}/out")
    assert loaded.first().asDict() == {"i": 1, "s": "ä", "x": [0.5, 1.0]}


def test_nodes_read_their_shares(hadoop, root):
    schema = pa.schema([("id", pa.int64())])
    for number, name in enumerate(("a", "b.gz", "c")):
        numbers = range(number * 10, number * 10 + 10)
        records.write(f"{root}/{name}", [pa.record_batch({"id": numbers})])
    nodes = [
        {"node_id": 0, "job_name": "chief", "rank": 0},
        {"node_id": 1, "job_name": "worker", "rank": 1},
    ]

    def context(node_id):
        bootstrap = {
            "node": {"default_fs": hadoop.hdfs, "working_dir": "/", "log_dir": None},
            "node_id": node_id,
            "executor_id": "0",
            "job_name": "worker",
            "task_index": 0,
            "cluster_spec": {},
            "num_workers": 2,
            "nodes": nodes,
            "host": "h",
            "address": "a",
            "port": 1,
            "gpus": [],
            "gpu_fraction": 0.0,
        }
        return NodeContext(bootstrap, None, None, None, None)

    pattern = root.removeprefix(hadoop.hdfs)
    shares = [context(node_id).files(pattern) for node_id in (0, 1)]
    assert sorted(sum(shares, [])) == [f"{root}/{name}" for name in ("a", "b.gz", "c")]
    assert all(shares)
    seen = [
        int(n)
        for node_id in (0, 1)
        for batch in context(node_id).tfrecords(f"{root}/*", schema, 4)
        for n in batch["id"]
    ]
    assert sorted(seen) == list(range(30))
    with pytest.raises(BadInputError, match="there is no file in it"):
        access_for(root)[0].mkdirs(f"{root}/empty")
        node_files.share([f"{root}/empty"], nodes, 0)


def reading_threads():
    """The threads of this process that read for a pass over a dataset."""
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append((task / "comm").read_text().strip())
    return [name for name in names if name == "tfos-records"]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_passes_over_a_dataset_leave_no_thread(root, compression):
    import tensorflow as tf

    # More than what is read ahead: two batches, and two windows of a file.
    batches = [
        pa.record_batch(
            {"id": range(n, n + 1_000), "pad": [os.urandom(1_000) for _ in range(1_000)]}
        )
        for n in range(0, 10_000, 1_000)
    ]
    records.write(f"{root}/f", batches, compression=compression)
    dataset = node_files.tfrecords(
        [f"{root}/f"], batches[0].schema, 500, compression=compression or "none"
    )
    for prefetched in (dataset, dataset.prefetch(2)):
        for _ in range(3):
            iterator = iter(prefetched)
            assert int(next(iterator)["id"][499]) == 499 and reading_threads()
            del iterator
    assert [int(batch["id"][0]) for batch in dataset] == list(range(0, 10_000, 500))
    wait_for(lambda: not reading_threads(), "the reading threads to end")
    access_for(root)[0].delete(f"{root}/f")
    with pytest.raises(tf.errors.OpError, match="f: No such file"):
        list(dataset)
    wait_for(lambda: not reading_threads(), "the reading threads to end")


# Killed tasks.


def waits_in_the_middle(stop):
    """For mapInArrow: waits after half of the batches, which is more than is buffered on the way to
    the writer, until the file `stop` is there."""

    def rows(batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == 10:
                wait_for(lambda: os.path.exists(stop), stop)

    return rows


def workers_with_java():
    """The Python workers of executors that have started Java."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            if "pyspark.daemon" in process.cmdline():
                with open(f"/proc/{process.pid}/maps") as maps:
                    if "libjvm.so" in maps.read():
                        found.append(process)
    return found


def files_being_written(path):
    access, path = access_for(path)
    return access.glob(f"{path}/_temporary/*/*part-*")


@pytest.fixture
def slow(session, tmp_path):
    """A DataFrame of 20 batches, whose task waits in the middle until `go_on` is called."""
    stop = tmp_path / "stop"
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    rows = session.range(0, SLOW_ROWS, 1, 1).selectExpr("id", "repeat('x', 200) AS pad")
    yield types.SimpleNamespace(
        frame=rows.mapInArrow(waits_in_the_middle(str(stop)), rows.schema), go_on=stop.touch
    )
    session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    stop.touch()


def start_writing(source, frame, path, group):
    """Writes in a thread, until something is there on HDFS; the thread, and what it raises."""
    raised = []

    def run():
        source.spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        try:
            source.save(frame, path, "append")
        except SPARK_ERRORS as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: raised or files_being_written(path), f"something in {path}")
    assert not raised, str(raised[0])
    return thread, raised


@pytest.mark.long
def test_what_a_killed_task_wrote_is_not_counted(python_source, slow, root):
    path = f"{root}/out"
    thread, raised = start_writing(python_source, slow.frame, path, "killed")
    assert visible_in(path) == []
    # A daemon, from which later workers are forked, never has Java.
    writers = workers_with_java()
    assert writers and all(
        worker.ppid() not in [other.pid for other in writers] for worker in writers
    )
    for worker in writers:
        worker.kill()
    slow.go_on()
    thread.join(BOUND_SECONDS)
    assert not thread.is_alive() and not raised
    assert len(visible_in(path)) == 1 and "_temporary" not in names_in(path)
    assert ids(python_source.read(path, "id long")) == list(range(SLOW_ROWS))


@pytest.mark.long
def test_a_cancelled_job_leaves_nothing(python_source, session, slow, root):
    path = f"{root}/out"
    thread, raised = start_writing(python_source, slow.frame, path, "cancelled")
    assert visible_in(path) == []
    session.sparkContext.cancelJobGroup("cancelled")
    thread.join(BOUND_SECONDS)
    assert not thread.is_alive() and raised
    assert names_in(path) == []
