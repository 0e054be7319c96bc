"""The feed as NumPy batches: feeders, node and program in one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import feed_rate_program
from support.dataset_nodes import DatasetNode
from support.feed_nodes import TIMEOUT, labels, pairs
from tfos.errors import BadInputError
from tfos.feed.batches import Batches, Ragged
from tfos.feed.columns import Request
from tfos.feed.datafeed import FeedSource
from tfos.node.context import NodeContext


class Node(DatasetNode):
    """Whose program reads batches."""

    def batches(self, batch_size: int, **options: Any) -> Batches:
        return Batches(self.source.batch_source("input"), Request(batch_size, **options))


@pytest.fixture
def node(make_nodes: Any) -> Any:
    return Node(make_nodes(1))


def described(value: Any) -> Any:
    """A batch, of NumPy or of TensorFlow, as what can be compared: structure, types and values."""
    if isinstance(value, (Ragged, tf.RaggedTensor)):
        return ("ragged", described(value.values), described(value.row_splits))
    if isinstance(value, dict):
        return {name: described(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(described(part) for part in value)
    array = np.asarray(value)
    return (array.dtype.char, array.shape, array.tolist())


EVERY_KIND = [
    {
        "bool": n % 2 == 0,
        "int64": n,
        "float64": [n / 3, n / 5],
        "float32": np.full((2, 3), n, np.float32),
        "uint8": np.uint8(n),
        "float16": np.float16(n),
        "complex64": np.complex64(n + 1j),
        "text": "long enough for the heap " * n,
        "bytes": b"\0" * n,
        "words": ["\u00fc" * n, "x"],
        "ragged": list(range(n % 3)),
        "ragged words": [b"y" * k for k in range(n % 3)],
    }
    for n in range(11)
]


@pytest.mark.parametrize(
    "rows, options",
    [
        (EVERY_KIND, {}),
        (EVERY_KIND, {"features": ["text", "ragged"]}),
        (EVERY_KIND, {"features": "float32", "label": ["bool", "int64"]}),
        (EVERY_KIND, {"drop_remainder": True, "ragged": ["float64", "words"]}),
        (pairs(0, 11), {}),
        (pairs(0, 11), {"features": 1, "label": 0}),
        ([float(n) for n in range(11)], {}),
    ],
)
def test_batches_hold_what_a_dataset_would(
    make_nodes: Any, rows: list[Any], options: dict[str, Any]
) -> None:
    def read(make: Any) -> list[Any]:
        node = Node(make_nodes(1))
        node.feed(rows[:5], rows[5:])
        node.server.end_feed()
        read = [described(batch) for batch in make(node, 4, **options)]
        assert node.server.counters()["rows"] == (8 if options.get("drop_remainder") else 11)
        return read

    expected = read(Node.dataset)
    assert len(expected) in (2, 3)
    assert read(Node.batches) == expected


def test_a_batch_may_have_no_string(node: Any) -> None:
    rows = [(["x", "y"], 0), ([], 1), (["z"], 2)]
    node.feed(rows)
    node.server.end_feed()
    batches = list(node.batches(1))
    assert [words.values.tolist() for words, _ in batches] == [[b"x", b"y"], [], [b"z"]]
    assert [words.row_splits.tolist() for words, _ in batches] == [[0, 2], [0, 0], [0, 1]]
    assert batches[1][0].values.dtype == object


def test_arrays_belong_to_the_program(node: Any) -> None:
    node.feed([np.arange(16, dtype=np.float32)] * 4)
    (batch,) = [next(iter(node.batches(4)))]
    assert node.server.counters()["region_bytes_in_use"] == 0  # while the program keeps the batch
    assert batch.flags.writeable and batch.ctypes.data % 64 == 0
    taken_over = np.from_dlpack(batch)
    batch[3] = 7
    np.testing.assert_array_equal(taken_over[3], np.full(16, 7))
    node.source.batch_source("input").close()
    node.server.close()
    np.testing.assert_array_equal(taken_over[2], np.arange(16))


def test_cached_rows_are_not_what_the_program_writes_into(make_nodes: Any) -> None:
    node = Node(make_nodes(1))
    writer = node.nodes.writer(0, cache="memory", replays=1)
    writer.write_rows(pairs(0, 4))
    writer.finish()
    writer.close()
    for epoch in range(2):
        node.server.end_epoch("input", epoch)
    node.server.end_feed()
    batches = node.batches(2)
    for _ in range(2):
        seen = []
        for vectors, numbers in batches:
            seen += numbers.tolist()
            vectors[:] = numbers[:] = -1
        assert seen == [0, 1, 2, 3]


def test_a_pass_is_an_epoch(node: Any, capfd: Any) -> None:
    node.feed_epochs(pairs(0, 3), pairs(3, 2), pairs(5, 1))
    batches = node.batches(2)
    assert [labels(batches) for _ in range(3)] == [[0, 1, 2], [3, 4], [5]]
    node.server.end_feed()
    assert [labels(batches) for _ in range(2)] == [[], []]
    said = "".join(capfd.readouterr())
    assert said.count("the program asks for epoch 4; the driver fed 3") == 1


def test_an_iterator_that_has_ended_stays_so(node: Any) -> None:
    node.feed_epochs(pairs(0, 2), pairs(2, 2))
    batches = node.batches(2)
    iterator = iter(batches)
    assert next(iterator)[1].tolist() == [0, 1]
    assert [next(iterator, None) for _ in range(2)] == [None, None]
    assert labels(batches) == [2, 3]


def test_a_pass_that_was_left_is_continued(node: Any) -> None:
    node.feed_epochs(pairs(0, 6), pairs(6, 2))
    batches = node.batches(2)
    assert next(iter(batches))[1].tolist() == [0, 1]
    assert labels(batches) == [2, 3, 4, 5]
    assert labels(batches) == [6, 7]


def test_each_batch_goes_to_one_thread(node: Any, pool: Any) -> None:
    node.feed(*[pairs(at, 10) for at in range(0, 1000, 10)])
    node.server.end_feed()
    batches = node.batches(16)
    counted: Counter[int] = Counter()
    for read in [pool.submit(labels, batches) for _ in range(2)]:
        counted.update(read.result(TIMEOUT))
    assert counted == dict.fromkeys(range(1000), 1)


def context_of(node: Any) -> NodeContext:
    """What the program of worker:1 would have."""
    unused = dict.fromkeys(("executor_id", "host", "address", "port", "gpus", "gpu_fraction"))
    identity = {"node_id": 1, "job_name": "worker", "task_index": 1, "cluster_spec": {}}
    settings = {"default_fs": "file:///", "working_dir": "/", "log_dir": None}
    return NodeContext({**unused, **identity, "node": settings}, None, node.source, None, None)


def test_the_program_of_the_feed_rates_counts_the_rows_of_an_epoch(
    node: Any, tmp_path: Any
) -> None:
    rows = [{"features": [0.5, 1.5], "label": number} for number in range(3)]
    node.feed_epochs(rows)
    node.server.end_feed()
    pipe = tmp_path / "pipe"
    feed_rate_program.read(SimpleNamespace(batches=context_of(node).batches, args=str(pipe)))
    assert pipe.read_text().startswith("3 ")


def test_without_rows_a_spec_says_what_they_would_hold(node: Any) -> None:
    node.server.end_feed()
    spec = {"pixels": ("float32", (2, 3)), "name": str, "tokens": "int64", "words": str}
    batches = node.batches(2, spec=spec, ragged=["tokens", "words"])
    assert list(batches) == []
    with pytest.raises(BadInputError) as raised:
        context_of(node).batches(2)
    assert str(raised.value) == (
        "the feed ended before worker:1 got a row, and no row of another node showed it what the "
        "columns hold: nothing was fed, or other nodes had got all rows before this one came. See "
        "how many rows there are (df.count()), feed more or use fewer nodes, or pass spec= with the "
        "columns' types, which makes an empty dataset"
    )


def test_a_node_without_a_row_learns_the_columns_from_anothers(make_nodes: Any) -> None:
    nodes = make_nodes(2)
    writer = nodes.writer()
    writer.write_rows([{"a": np.float32(1), "b": 2}])
    writer.finish()
    writer.close()
    nodes.end_feed()
    batches = [
        Batches(FeedSource(server, None, ["input"]).batch_source("input"), Request(2))
        for server in nodes.servers
    ]
    assert sorted(len(list(each)) for each in batches) == [0, 1]


def test_rows_must_be_those_of_the_spec(make_nodes: Any) -> None:
    rows = [{"a": np.float32(n), "t": list(range(n))} for n in range(3)]
    for spec, message in [
        ({"a": "float32", "t": np.int64}, ""),
        ({"a": "float64", "t": np.int64}, "column 'a' comes as float32"),
    ]:
        node = Node(make_nodes(1))
        node.feed(rows)
        node.server.end_feed()
        batches = node.batches(4, spec=spec, ragged=["t"])
        if message:
            for _ in range(2):
                with pytest.raises(BadInputError, match=message):
                    list(batches)
        else:
            ((_, tokens),) = batches
            assert tokens.row_splits.tolist() == [0, 0, 1, 3]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"features": "x"}, "no column 'x'; they have 0, 1"),
        (
            {"spec": {"0": "no type"}},
            "spec of column '0' is 'no type'; it must be what numpy.dtype",
        ),
        ({"spec": ["datetime64[s]"]}, r"column '0' cannot be dense datetime64\[s\]"),
        ({"spec": [("float32", (2, 2))], "ragged": [0]}, "column '0' cannot be ragged"),
        ({"remainder": "pad", "drop_remainder": True}, "every batch is full"),
        ({"remainder": "stretch"}, "remainder must be join, drop or pad, not 'stretch'"),
    ],
)
def test_bad_arguments(node: Any, options: Any, message: str) -> None:
    node.feed(pairs(0, 2))
    with pytest.raises(BadInputError, match=message):
        node.batches(2, **options)


@pytest.mark.parametrize(
    "end",
    [lambda node: node.server.end_feed(), lambda node: node.source.batch_source("input").close()],
    ids=["the end of the feed", "the end of the program"],
)
def test_a_pass_that_waits_ends(node: Any, pool: Any, end: Any) -> None:
    node.feed(pairs(0, 2))
    batches = iter(node.batches(2))
    next(batches)
    waiting = pool.submit(lambda: list(batches))
    end(node)
    assert waiting.result(TIMEOUT) == []


def test_a_pass_is_cut_short_by_the_end_of_the_feed_alone(node: Any) -> None:
    source = node.source
    node.feed(pairs(0, 2))
    node.server.end_epoch("input", 0)
    batches = node.batches(2)
    assert source.epochs_read() == 0 and not source.is_cut_short()
    assert labels(batches) == [0, 1]
    assert source.epochs_read() == 1 and not source.is_cut_short()
    node.feed(pairs(2, 2), epoch=1)
    node.server.end_feed()
    assert labels(batches) == [2, 3]
    assert source.is_cut_short()


def test_a_signal_ends_a_wait_and_the_next_pass_goes_on(node: Any, ctrl_c: None) -> None:
    node.feed(pairs(0, 3))
    batches = node.batches(2)
    iterator = iter(batches)
    next(iterator)
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        next(iterator)
    interrupt.join()
    node.server.end_feed()
    assert labels(batches) == [2]


WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = None
from support.feed_nodes import FedNode, Nodes
from tfos.feed.batches import Batches
from tfos.feed.columns import Request
node = FedNode(Nodes(1))
node.feed([([1.0, 2.0], 3)])
node.server.end_feed()
print(list(Batches(node.source.batch_source("input"), Request(2))))
"""


def test_tensorflow_is_not_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(array([[1., 2.]]), array([3]))]\n"


def test_a_row_of_numbers_of_one_type_has_no_second_column(node: Any) -> None:
    node.feed([(0.5, 1.5), (2.5, 3.5)])
    with pytest.raises(BadInputError, match="no column '1': all 2 values of a row are of one type"):
        node.batches(2, features=0, label=1)
    assert next(iter(node.batches(2))).shape == (2, 2)
