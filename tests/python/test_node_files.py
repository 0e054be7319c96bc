"""What nodes read themselves: shares of files, and TFRecords as datasets."""

import pyarrow as pa
import pytest

from tfos import node_files, records
from tfos.context import NodeContext
from tfos.errors import BadInputError

tf = pytest.importorskip("tensorflow")

NODES = [{"node_id": 0, "job_name": "ps"}, {"node_id": 1, "job_name": "chief"},
         {"node_id": 2, "job_name": "evaluator"}, {"node_id": 3, "job_name": "worker"}]
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.list_(pa.float32(), 2)), ("words", pa.list_(pa.binary())),
                    ("s", pa.string()), ("flag", pa.bool_())])


def rows(numbers):
    return pa.RecordBatch.from_pylist(
        [{"id": n, "x": [n, n / 2], "words": [b"w"] * (n % 3), "s": f"ä{n}", "flag": n % 2 == 0}
         for n in numbers], schema=SCHEMA)


@pytest.fixture
def files(tmp_path):
    records.write(tmp_path / "a", [rows(range(25))])
    records.write(tmp_path / "b.gz", [rows(range(25, 32))], compression="GZIP")
    (tmp_path / "_SUCCESS").touch()
    return tmp_path


def test_every_file_goes_to_one_node_that_trains(files):
    shares = [node_files.share([str(files)], NODES, node["node_id"]) for node in NODES]
    assert shares == [[], [str(files / "a")], [], [str(files / "b.gz")]]
    assert node_files.share([str(files / "a"), str(files / "b*")], NODES, 1) == shares[1]
    with pytest.raises(FileNotFoundError, match="none"):
        node_files.share([str(files / "none")], NODES, 1)


def test_a_program_asks_its_context(files):
    bootstrap = {
        "node": {"default_fs": "file://", "working_dir": str(files), "log_dir": None}, "node_id": 1,
        "executor_id": "0", "job_name": "chief", "task_index": 0, "cluster_spec": {}, "num_workers": 2,
        "nodes": NODES, "host": "h", "address": "a", "port": 1, "gpus": [], "gpu_fraction": 0.0}
    context = NodeContext(bootstrap, None, None, None, None)
    assert context.files(["a", "b*"]) == context.files(str(files)) == [str(files / "a")]
    [batch] = context.tfrecords(f"file://{files}", SCHEMA, 100)
    assert len(batch["id"]) == 25


def test_batches_are_whole_and_cross_files(files):
    dataset = node_files.tfrecords([str(files / "a"), str(files / "b.gz")], SCHEMA, 10)
    for _ in range(2):  # A dataset can be read again.
        batches = list(dataset)
        assert [len(batch["id"]) for batch in batches] == [10, 10, 10, 2]
    assert [int(n) for batch in batches for n in batch["id"]] == list(range(32))
    assert batches[2]["x"].shape == (10, 2) and batches[2]["x"][1].numpy().tolist() == [21, 10.5]
    assert batches[0]["words"].to_list()[:4] == [[], [b"w"], [b"w", b"w"], []]
    assert batches[0]["s"][1].numpy().decode() == "ä1"
    assert batches[0]["flag"].dtype == tf.bool
    full = node_files.tfrecords([str(files / "a")], SCHEMA, 10, drop_remainder=True)
    assert full.element_spec["x"].shape == (10, 2) and len(list(full)) == 2


def test_what_tensors_do_not_have(files):
    missing = pa.schema([("other", pa.int64())])
    with pytest.raises(tf.errors.OpError, match="record 0 at offset 0"):
        list(node_files.tfrecords([str(files / "a")], missing, 10))
    with pytest.raises(BadInputError, match="'permissive' makes nulls"):
        node_files.tfrecords([str(files / "a")], SCHEMA, 10, mode="permissive")
    with pytest.raises(BadInputError, match="lists of lists"):
        node_files.tfrecords([], pa.schema([("x", pa.list_(pa.list_(pa.int64())))]), 10)
    lists = node_files.tfrecords([str(files / "a")], pa.schema([("none", pa.list_(pa.int64()))]), 25)
    assert next(iter(lists))["none"].to_list() == [[]] * 25
    assert not list(node_files.tfrecords([], SCHEMA, 10))
