"""The feed as a tf.data.Dataset: feeders, node and TensorFlow in one process, then on Spark."""

from __future__ import annotations

import gc
import importlib
import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfos
from support.feed_nodes import TIMEOUT, FedNode, labels, pairs
from support.programs import nodes as programs
from tfos.errors import BadInputError
from tfos.feed.columns import Request
from tfos.feed.dataset import make_dataset


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Node(FedNode):
    """Whose program reads datasets."""

    def dataset(self, batch_size: int, **options: Any) -> Any:
        return make_dataset(self.source.batch_source("input"), Request(batch_size, **options))


@pytest.fixture
def node(make_nodes: Any) -> Any:
    return Node(make_nodes(1))


def test_two_columns_are_a_pair_of_whole_batches(node: Any) -> None:
    node.feed(pairs(0, 6), pairs(6, 5))
    node.server.end_feed()
    dataset = node.dataset(4)
    assert dataset.element_spec == (
        tf.TensorSpec([None, 2], tf.float64),
        tf.TensorSpec([None], tf.int64),
    )
    batches = list(dataset)
    assert [len(label) for _, label in batches] == [4, 4, 3]
    rows = np.concatenate([vector for vector, _ in batches])
    np.testing.assert_array_equal(rows, [vector for vector, _ in pairs(0, 11)])
    assert labels(dataset) == []


def test_more_columns_are_a_dict_and_can_be_chosen(node: Any) -> None:
    rows = [{"name": str(n), "weight": n / 4, "id": n, "ok": n % 2 == 0} for n in range(4)]
    node.feed(rows)
    node.server.end_feed()
    everything = next(iter(node.dataset(2)))
    assert {name: list(values.numpy()) for name, values in everything.items()} == {
        "name": [b"0", b"1"],
        "weight": [0.0, 0.25],
        "id": [0, 1],
        "ok": [True, False],
    }
    features, label = next(iter(node.dataset(2, features=["weight", "id"], label="ok")))
    assert list(features) == ["weight", "id"] or sorted(features) == ["id", "weight"]
    assert (list(features["id"].numpy()), list(label.numpy())) == ([2, 3], [True, False])


def test_an_iterator_that_has_ended_stays_so(node: Any) -> None:
    node.feed_epochs(pairs(0, 2), pairs(2, 2))
    node.server.end_feed()
    dataset = node.dataset(2)
    iterator = iter(dataset)
    assert list(next(iterator)[1].numpy()) == [0, 1]
    for _ in range(2):
        assert next(iterator, None) is None
    assert labels(dataset) == [2, 3]


def test_how_many_batches_come_is_unknown(node: Any) -> None:
    node.feed_epochs(pairs(0, 4))
    node.server.end_feed()
    dataset = node.dataset(2)
    assert dataset.cardinality().numpy() == tf.data.UNKNOWN_CARDINALITY
    assert labels(dataset) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"features": "a"}, "a"),
        ({"features": ["a"], "label": "c"}, ("a", "c")),
        ({"label": "c"}, ({"a": "a", "b": "b"}, "c")),
        ({"label": ["b", "c"]}, ("a", {"b": "b", "c": "c"})),
    ],
)
def test_the_structure_of_elements(node: Any, options: Any, expected: Any) -> None:
    node.feed([{"a": 1, "b": 2.0, "c": b"3"}])
    dtypes = {"a": tf.int64, "b": tf.float64, "c": tf.string}
    spec = tf.nest.map_structure(lambda name: tf.TensorSpec([None], dtypes[name]), expected)
    assert node.dataset(2, **options).element_spec == spec


def test_columns_are_also_chosen_by_position(node: Any) -> None:
    node.feed(pairs(0, 2))
    assert list(next(iter(node.dataset(2, features=1))).numpy()) == [0, 1]


def test_a_single_column_is_a_tensor_of_every_dtype(make_nodes: Any) -> None:
    for dtype in [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]:
        node = Node(make_nodes(1))
        rows = [np.full((2, 3), n, dtype) for n in range(3)]
        node.feed(rows)
        node.server.end_feed()
        (batch,) = node.dataset(5)
        assert batch.dtype.name == dtype
        np.testing.assert_array_equal(batch, np.stack(rows))


def test_strings_and_ragged_values(node: Any) -> None:
    rows = [("long enough for the heap " * n, list(range(n % 3)), b"\0") for n in range(5)]
    node.feed(rows[:3], rows[3:])
    node.server.end_feed()
    dataset = node.dataset(4)
    assert dataset.element_spec["1"] == tf.RaggedTensorSpec([None, None], tf.int64, 1)
    first, second = dataset
    assert [text.decode() for text in first["0"].numpy()] == [text for text, *_ in rows[:4]]
    assert first["1"].to_list() + second["1"].to_list() == [values for _, values, _ in rows]
    assert second["2"].numpy().tolist() == [b"\0"]


def test_lists_of_strings(node: Any) -> None:
    rows = [(["\u00fc" * n, "x"], [b"y" * k for k in range(n % 3)]) for n in range(5)]
    node.feed(rows[:2], rows[2:])  # whose second field is ragged in both chunks
    node.server.end_feed()
    dataset = node.dataset(4)
    pairs_spec, ragged_spec = dataset.element_spec
    assert pairs_spec == tf.TensorSpec([None, 2], tf.string)
    assert ragged_spec == tf.RaggedTensorSpec([None, None], tf.string, 1)
    texts, lists = [], []
    for pair, ragged in dataset:
        texts += [[text.decode() for text in row] for row in pair.numpy().tolist()]
        lists += ragged.to_list()
    assert list(zip(texts, lists)) == rows


def test_lists_of_strings_with_a_spec_padded(node: Any) -> None:
    node.feed([{"s": ["a"], "r": ["b"]}], [{"s": ["c"], "r": ["d", "e"]}])
    node.server.end_feed()
    spec = {"s": tf.TensorSpec([1], tf.string), "r": tf.RaggedTensorSpec([None], tf.string, 0)}
    for remainder, rows in ("drop", 2), ("pad", 2), ("join", None), (None, None):
        specs = node.dataset(2, spec=spec, features=["s", "r"], remainder=remainder).element_spec
        specs = specs[0] if remainder == "pad" else specs
        assert specs["s"] == tf.TensorSpec([rows, 1], tf.string)
        assert specs["r"] == tf.RaggedTensorSpec([rows, None], tf.string, 1)
    (batch,) = node.dataset(2, spec=spec)
    assert batch[0].numpy().tolist() == [[b"a"], [b"c"]]
    assert batch[1].to_list() == [[b"b"], [b"d", b"e"]]


def test_lists_of_strings_of_one_length_may_be_declared_ragged(node: Any) -> None:
    node.feed([(["a", "b"], 0)], [([], 1), (["c"], 2)])
    node.server.end_feed()
    for batch in node.dataset(3, ragged=[0]):
        assert batch[0].to_list() == [[b"a", b"b"], [], [b"c"]]


def test_values_of_one_length_may_be_declared_ragged(node: Any) -> None:
    node.feed([[1, 2], [3, 4]], [[5]], [[], [6, 7, 8]])
    node.server.end_feed()
    first, second = node.dataset(3, ragged=[0], drop_remainder=False)
    assert first.to_list() + second.to_list() == [[1, 2], [3, 4], [5], [], [6, 7, 8]]


def test_a_dropped_remainder_makes_the_shape_static(node: Any) -> None:
    node.feed_epochs(pairs(0, 5), pairs(5, 4))
    node.server.end_feed()
    dataset = node.dataset(4, drop_remainder=True)
    assert dataset.element_spec[0].shape == [4, 2]
    assert [labels(dataset) for _ in range(2)] == [[0, 1, 2, 3], [5, 6, 7, 8]]


def test_a_pass_is_an_epoch(node: Any, capfd: Any) -> None:
    node.feed_epochs(pairs(0, 3), pairs(3, 2), pairs(5, 1))
    dataset = node.dataset(2)
    assert [labels(dataset) for _ in range(3)] == [[0, 1, 2], [3, 4], [5]]
    node.server.end_feed()
    assert "asks for" not in "".join(capfd.readouterr())
    assert [labels(dataset) for _ in range(3)] == [[], [], []]
    said = "".join(capfd.readouterr())
    assert said.count("the program asks for epoch 4; the driver fed 3") == 1


def test_a_pass_that_was_left_is_continued(node: Any) -> None:
    node.feed_epochs(pairs(0, 6), pairs(6, 2))
    dataset = node.dataset(2)
    assert labels(dataset.take(1)) == [0, 1]
    assert labels(dataset) == [2, 3, 4, 5]
    assert labels(dataset) == [6, 7]


def test_a_pass_that_took_exactly_its_epoch_leaves_no_empty_one(node: Any) -> None:
    node.feed_epochs(pairs(0, 4), pairs(4, 4), pairs(8, 4))
    dataset = node.dataset(2)
    assert [labels(dataset.take(2)) for _ in range(3)] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]


def test_an_iterator_may_be_dropped_while_it_waits(node: Any) -> None:
    node.feed(pairs(0, 2))
    iterator = iter(node.dataset(2).prefetch(2))
    next(iterator)
    del iterator
    node.feed(pairs(2, 2))
    node.server.end_feed()
    assert labels(node.dataset(2)) == [2, 3]


def test_transformations(node: Any, pool: Any) -> None:
    """More rows than fit into the node's memory, and a shuffle buffer that keeps them."""
    rows = [(np.full(1000, n, np.float32), n) for n in range(3000)]
    chunks = [rows[at : at + 50] for at in range(0, 3000, 50)]
    feeding = pool.submit(
        lambda: (
            node.feed(*chunks),
            node.server.end_epoch("input", 0),
            node.feed(*chunks),
            node.server.end_feed(),
        )
    )
    dataset = node.dataset(16).repeat().shuffle(200, seed=1).prefetch(2)
    seen = Counter()
    for vectors, numbers in dataset:
        np.testing.assert_array_equal(vectors[:, 999], tf.cast(numbers, tf.float32))
        seen.update(numbers.numpy())
    feeding.result(TIMEOUT)
    assert seen == dict.fromkeys(range(3000), 2)


def test_a_tensor_keeps_its_memory_and_no_longer(node: Any) -> None:
    node.feed([np.arange(16, dtype=np.float32)] * 4)
    batch = next(iter(node.dataset(4)))
    gc.collect()
    assert node.server.counters()["region_bytes_in_use"] > 0
    np.testing.assert_array_equal(batch[3], np.arange(16))
    del batch
    gc.collect()
    assert node.server.counters()["region_bytes_in_use"] == 0


def test_tensors_outlive_the_feed(node: Any) -> None:
    node.feed(pairs(0, 4))
    batch = next(iter(node.dataset(4)))
    node.source.batch_source("input").close()
    node.server.close()
    assert list(batch[1].numpy()) == [0, 1, 2, 3]


def test_rows_and_batches_are_counted(node: Any) -> None:
    node.feed(pairs(0, 10))
    node.server.end_feed()
    list(node.dataset(4))
    counters = node.server.counters()
    assert (counters["rows"], counters["batches"]) == (10, 3)


def test_batches_pickled_by_spark_become_columns(node: Any) -> None:
    node.feed(pairs(0, 5), [], pairs(5, 5), pickled=True)
    node.server.end_feed()
    assert labels(node.dataset(4)) == list(range(10))


def test_pickles_that_only_python_reads_become_columns(node: Any) -> None:
    writer = node.nodes.writer(0)
    for first in (0, 5):
        writer.write_pickled([pickle.dumps(pairs(first, 5), 0)])
    writer.finish()
    node.server.end_feed()
    assert labels(node.dataset(4)) == list(range(10))


@pytest.mark.parametrize(
    "rows",
    [
        list(range(9)),
        [n / 2 for n in range(9)],
        [str(n) * n for n in range(9)],
        [bytes(n) for n in range(9)],
        [[n] * (n % 3) for n in range(9)],
        [{"a": n, "b": (1.0, 2.0)} for n in range(9)],
        [(np.full((2, 3), n, np.float32), np.int8(n)) for n in range(9)],
        [(n, "x", 2.5, n % 2 == 0, [n]) for n in range(9)],
        # What cannot be columns.
        [(read_only(np.arange(3.0)), n) for n in range(9)],
        [(n, None) for n in range(9)],
        [None] * 9,
        [1, 2.0] * 5,
        [(1, (2, "x"))] * 9,
        [{}] * 9,
        [bytearray(2)] * 9,
        [2**64] * 9,
    ],
    ids=lambda rows: repr(rows)[:40],
)
def test_pickled_rows_are_read_as_others(make_nodes: Any, rows: list[Any]) -> None:
    def outcome(pickled: bool) -> Any:
        node = Node(make_nodes(1))
        node.feed(rows[:4], rows[4:], pickled=pickled)
        node.server.end_feed()
        ragged = ["0"] if isinstance(rows[0], list) else []
        try:
            dataset = node.dataset(4, ragged=ragged)
            return dataset.element_spec, [
                [getattr(part, "to_list", part.numpy)() for part in tf.nest.flatten(batch)]
                for batch in dataset
            ]
        except (BadInputError, tf.errors.InvalidArgumentError) as error:
            return str(error)

    assert repr(outcome(pickled=True)) == repr(outcome(pickled=False))


def test_rows_without_common_columns_are_shown(node: Any) -> None:
    node.feed([(1, "a"), (2, None)])
    with pytest.raises(BadInputError, match=r"no common columns.* One of them is \(1, 'a'\)"):
        node.dataset(4)


def test_nested_rows_are_refused(node: Any) -> None:
    node.feed([{"a": 1, "b": {"c": 2}}])
    with pytest.raises(BadInputError, match="column 'b' of the rows is a dict"):
        node.dataset(4)


def test_a_type_that_changes_names_both(node: Any) -> None:
    node.feed(pairs(0, 2), [([1, 2], 3)])
    dataset = iter(node.dataset(2))
    next(dataset)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"column '0' comes as int64\[2\] and was float64\[2\]"
    ):
        next(dataset)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"features": "x"}, "no column 'x'; they have 0, 1"),
        ({"label": 2}, "no column '2'"),
        ({"label": [0, 1]}, "no features are left"),
        ({"ragged": [1]}, "column '1' cannot be ragged"),
        (
            {"spec": {"0": tf.TensorSpec([], tf.string)}, "ragged": [0]},
            "its values are single strings",
        ),
        ({"spec": {"0": tf.TensorSpec([None], tf.string)}}, r"pass ragged=\['0'\]"),
        ({"spec": {"0": "float"}}, "must be a tf.TensorSpec"),
        ({"spec": [tf.TensorSpec([None], tf.float32)]}, r"pass ragged=\['0'\]"),
        ({"spec": [tf.TensorSpec([], tf.bfloat16)]}, "column '0' cannot be dense bfloat16"),
    ],
)
def test_bad_arguments(node: Any, options: Any, message: str) -> None:
    node.feed(pairs(0, 2))
    with pytest.raises(BadInputError, match=message):
        node.dataset(2, **options)


@pytest.mark.parametrize("size", [12.5, "2", None])
def test_a_batch_size_that_is_no_whole_number_is_refused(node: Any, size: Any) -> None:
    with pytest.raises(BadInputError, match="^batch_size=.*: must be a whole number"):
        node.dataset(size)


def test_with_a_spec_nothing_is_waited_for(node: Any) -> None:
    spec = {
        "x": tf.TensorSpec([2], tf.float64),
        "r": tf.RaggedTensorSpec([None], tf.int64, 0),
        "s": tf.TensorSpec([], tf.string),
    }
    dataset = node.dataset(2, spec=spec, features="x", label=["r", "s"])
    node.feed([{"s": "a", "x": [1.0, 2.0], "r": [1]}, {"s": "b", "x": [3.0, 4.0], "r": [2]}])
    node.server.end_feed()
    ((x, label),) = dataset
    assert x.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert (label["r"].to_list(), label["s"].numpy().tolist()) == ([[1], [2]], [b"a", b"b"])


def test_a_node_that_gets_no_rows(node: Any) -> None:
    node.server.end_feed()
    with pytest.raises(BadInputError, match="pass spec="):
        node.dataset(2)
    assert list(node.dataset(2, spec=tf.TensorSpec([], tf.int64))) == []


@pytest.mark.parametrize(
    "end",
    [
        lambda node: node.server.terminate(),
        lambda node: node.server.close(),
        lambda node: node.server.fail("the program failed"),
        lambda node: node.source.batch_source("input").close(),
    ],
    ids=["terminate", "close", "fail", "close the dataset"],
)
def test_a_waiting_pass_can_be_ended(node: Any, pool: Any, end: Any) -> None:
    node.feed(pairs(0, 2))
    dataset = iter(node.dataset(2).prefetch(1))
    next(dataset)
    waiting = pool.submit(lambda: list(dataset))
    end(node)
    assert waiting.result(TIMEOUT) == []


LEAVE_WHILE_WAITING = """
import secrets, sys
import tensorflow as tf
from tfos import _native
from tfos.feed.columns import Request
from tfos.feed.dataset import make_dataset
server = _native.FeedServer(
    node_id=0, cluster_id="test", key_hex=secrets.token_hex(32), queues=["input"],
    memory_bytes=64 << 20, cache_memory_bytes=0, cache_directory="/tmp", bind_address="127.0.0.1", ports="0",
    encrypt="auto", pickle=True)
dataset = make_dataset(server.batch_source("input"), Request(2, spec=tf.TensorSpec([], tf.int64)))
iterator = iter(dataset.prefetch(1))
print("waiting", flush=True)
"""


def test_a_process_can_end_while_a_pass_waits() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVE_WHILE_WAITING], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "waiting\n"), done.stderr


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_keras_fit(node: Any, package: str) -> None:
    keras = importlib.import_module(package)
    rows = [(np.array([n % 7, 1], np.float32), np.float32(2 * (n % 7) + 1)) for n in range(110)]
    # Other nodes have got more of one epoch, and less of another.
    node.feed_epochs(rows[:70], rows, rows[:30])
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.02), "mse")
    history = model.fit(node.dataset(10), epochs=3, verbose=0)
    assert len(history.epoch) == 3
    assert history.history["loss"][2] < history.history["loss"][0]
    counters = node.server.counters()
    assert (counters["rows"], counters["batches"]) == (210, 21)


def test_distributed_by_function(node: Any) -> None:
    node.feed_epochs(pairs(0, 8), pairs(8, 8))
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = strategy.distribute_datasets_from_function(lambda context: node.dataset(4))

    @tf.function
    def total(batch: Any) -> Any:
        return strategy.run(lambda vectors, numbers: tf.reduce_sum(numbers), args=batch)

    assert [sum(int(total(batch)) for batch in dataset) for _ in range(2)] == [28, 92]


def test_a_program_trains_from_its_dataset(spark: Any, tmp_path: Any) -> None:
    rows = spark.sparkContext.parallelize(range(200), 4).map(
        lambda n: (np.array([n, 1], np.float32), np.float32(n))
    )
    with tfos.run(spark, programs.fit_dataset, nodes=2, args={"dir": str(tmp_path)}) as cluster:
        cluster.train(rows)
    seen = [pickle.loads(path.read_bytes()) for path in tmp_path.glob("fit-*")]
    assert sum(count for count, _ in seen) == 200
    assert all(steps > 0 for _, steps in seen)
