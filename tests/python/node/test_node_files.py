"""What nodes read themselves: shares of files, and TFRecords as datasets."""

import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
import tensorflow as tf

from tfos import records
from tfos.errors import BadInputError
from tfos.node import files as node_files
from tfos.node.context import NodeContext

BOUND_SECONDS = 120

NODES = [
    {"node_id": 0, "job_name": "ps", "rank": -1},
    {"node_id": 1, "job_name": "chief", "rank": 0},
    {"node_id": 2, "job_name": "evaluator", "rank": -1},
    {"node_id": 3, "job_name": "worker", "rank": 1},
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.list_(pa.float32(), 2)),
        ("words", pa.list_(pa.binary())),
        ("s", pa.string()),
        ("flag", pa.bool_()),
    ]
)


def rows(numbers):
    return pa.RecordBatch.from_pylist(
        [
            {"id": n, "x": [n, n / 2], "words": [b"w"] * (n % 3), "s": f"ä{n}", "flag": n % 2 == 0}
            for n in numbers
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def files(tmp_path):
    records.write(tmp_path / "a", [rows(range(25))])
    records.write(tmp_path / "b.gz", [rows(range(25, 32))])
    (tmp_path / "_SUCCESS").touch()
    return tmp_path


def test_every_file_goes_to_one_node_that_trains(files):
    shares = [node_files.share([str(files)], NODES, node["node_id"]) for node in NODES]
    assert shares == [[], [str(files / "a")], [], [str(files / "b.gz")]]
    assert node_files.share([str(files / "a"), str(files / "b*")], NODES, 1) == shares[1]
    with pytest.raises(FileNotFoundError, match="none"):
        node_files.share([str(files / "none")], NODES, 1)


def test_whoever_has_a_rank_has_a_share_whatever_its_job_is_called(files):
    nodes = [node | {"job_name": "ranker"} if node["rank"] == 1 else node for node in NODES]
    shares = [node_files.share([str(files)], nodes, node["node_id"]) for node in nodes]
    assert shares == [[], [str(files / "a")], [], [str(files / "b.gz")]]


def test_a_program_asks_its_context(files):
    bootstrap = {
        "node": {"default_fs": "file://", "working_dir": str(files), "log_dir": None},
        "node_id": 1,
        "executor_id": "0",
        "job_name": "chief",
        "task_index": 0,
        "cluster_spec": {},
        "num_workers": 2,
        "nodes": NODES,
        "host": "h",
        "address": "a",
        "port": 1,
        "gpus": [],
        "gpu_fraction": 0.0,
    }
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


def test_each_pass_reads_on_its_own(files):
    dataset = node_files.tfrecords([str(files / "a"), str(files / "b.gz")], SCHEMA, 8)
    pairs = [
        (int(a["id"][0]), int(b["id"][0])) for a, b in tf.data.Dataset.zip(dataset, dataset.skip(1))
    ]
    assert pairs == [(0, 8), (8, 16), (16, 24)]
    for _ in range(3):  # Dropped in the midst of it, with batches that were read ahead.
        assert int(next(iter(dataset.prefetch(2)))["id"][0]) == 0
    assert [int(batch["id"][0]) for batch in dataset.repeat(2)] == 2 * [0, 8, 16, 24]


@pytest.fixture
def stuck(files):
    """A file whose readers get nothing, not even its end, as long as the test runs."""
    path = files / "stuck"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    yield str(path)
    os.close(writer)


@pytest.mark.parametrize("prefetched", [0, 2])
def test_dropping_does_not_wait_for_what_is_being_read(files, stuck, prefetched):
    dataset = node_files.tfrecords([str(files / "a"), stuck], SCHEMA, 10)
    iterators = [iter(dataset.prefetch(prefetched) if prefetched else dataset)]
    assert len(next(iterators[0])["id"]) == 10
    dropping = threading.Thread(target=iterators.clear, daemon=True)
    dropping.start()
    dropping.join(BOUND_SECONDS)
    assert not dropping.is_alive()


AT_EXIT = """
import sys
import pyarrow as pa
from tfos.node import files as node_files
dataset = node_files.tfrecords(sys.argv[1:], pa.schema([("id", pa.int64())]), 10).prefetch(2)
iterator = iter(dataset)
print(len(next(iterator)["id"]))
"""


def test_a_program_ends_while_something_is_being_read(files, stuck):
    command = [sys.executable, "-c", AT_EXIT, str(files / "a"), stuck]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS)
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr


def test_every_type_becomes_a_tensor(tmp_path):
    values = {
        pa.bool_(): [True, False, True],
        pa.int8(): [-1, 0, 127],
        pa.int16(): [1, 2, 3],
        pa.int32(): [-1, 2, 3],
        pa.int64(): [1, 2, 1 << 40],
        pa.float32(): [0.5, 1, 2],
        pa.float64(): [0.5, 1, 2],
        pa.string(): ["ä", "", "c"],
        pa.binary(): [b"", b"\xff", b"c"],
    }
    forms = {
        "one": lambda kind: kind,
        "two": lambda kind: pa.list_(kind, 2),
        "many": lambda kind: pa.list_(kind),
    }
    rows = {
        "one": lambda v: v,
        "two": lambda v: [v[:2], v[1:], v[::2]],
        "many": lambda v: [v, [], v[:1]],
    }
    schema = pa.schema(
        [(f"{kind} {form}", make(kind)) for kind in values for form, make in forms.items()]
    )
    table = {f"{kind} {form}": make(v) for kind, v in values.items() for form, make in rows.items()}
    records.write(tmp_path / "a", [pa.RecordBatch.from_pydict(table, schema=schema)])
    dataset = node_files.tfrecords([str(tmp_path / "a")], schema, 3)
    [batch] = dataset
    for name, tensor in batch.items():
        assert dataset.element_spec[name].is_compatible_with(tensor)
        found = tensor.to_list() if name.endswith("many") else tensor.numpy().tolist()
        assert found == table[name] or name.startswith("string")
    assert batch["string many"].to_list() == [["ä".encode(), b"", b"c"], [], ["ä".encode()]]
    assert batch["string two"].numpy().tolist() == [
        ["ä".encode(), b""],
        [b"", b"c"],
        ["ä".encode(), b"c"],
    ]


def test_feature_lists_are_ragged_in_two_dimensions(tmp_path):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("numbers", pa.list_(pa.list_(pa.int64()))),
            ("words", pa.list_(pa.list_(pa.string()))),
            ("flags", pa.list_(pa.list_(pa.bool_()))),
        ]
    )
    rows = {
        "id": [1, 2, 3, 4],
        "numbers": [[[1], [], [2, 3]], [], [[]], [[4]]],
        "words": [[["a", "bc"]], [[], [""]], [], [["d"]]],
        "flags": [[], [[True, False]], [[False], []], []],
    }
    path = str(tmp_path / "sequences")
    records.write(
        path, [pa.RecordBatch.from_pydict(rows, schema=schema)], record_type="SequenceExample"
    )
    dataset = node_files.tfrecords([path], schema, 3, record_type="SequenceExample")
    first, second = dataset
    for column in ("numbers", "words", "flags"):
        assert dataset.element_spec[column].is_compatible_with(first[column])
        assert first[column].ragged_rank == 2
        found = [*first[column].to_list(), *second[column].to_list()]
        if column == "words":
            found = [[[word.decode() for word in words] for words in row] for row in found]
        assert found == rows[column]
    for batch in node_files.tfrecords(
        [path], schema, 2, record_type="SequenceExample", drop_remainder=True
    ):
        assert batch["numbers"].bounding_shape().numpy().shape == (3,)


def test_bad_records_are_left_out(files):
    content = bytearray((files / "a").read_bytes())
    content[20] ^= 1  # The data of the first record.
    (files / "a").write_bytes(content)
    paths = [str(files / "a"), str(files / "b.gz")]
    [batch] = node_files.tfrecords(paths, SCHEMA, 100, mode="dropmalformed")
    assert batch["id"].numpy().tolist() == list(range(1, 32))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="a: record 0 at offset 0: the CRC of its data"
    ):
        list(node_files.tfrecords(paths, SCHEMA, 10))
    with pytest.raises(tf.errors.OpError, match="missing"):
        list(node_files.tfrecords([str(files / "missing")], SCHEMA, 10))


def test_what_tensors_do_not_have(files):
    missing = pa.schema([("other", pa.int64())])
    with pytest.raises(tf.errors.OpError, match="record 0 at offset 0"):
        list(node_files.tfrecords([str(files / "a")], missing, 10))
    with pytest.raises(BadInputError, match="'permissive' makes nulls"):
        node_files.tfrecords([str(files / "a")], SCHEMA, 10, mode="permissive")
    for kind in (pa.list_(pa.list_(pa.list_(pa.int64()))), pa.list_(pa.list_(pa.int64(), 2))):
        with pytest.raises(
            BadInputError, match="column x is .*; there are tensors of .* lists of lists"
        ):
            node_files.tfrecords([], pa.schema([("x", kind)]), 10, record_type="SequenceExample")
    lists = node_files.tfrecords(
        [str(files / "a")], pa.schema([("none", pa.list_(pa.int64()))]), 25
    )
    assert next(iter(lists))["none"].to_list() == [[]] * 25
    assert not list(node_files.tfrecords([], SCHEMA, 10))
