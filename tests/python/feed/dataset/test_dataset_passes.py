"""Passes over a dataset of the feed: how they begin, wait and end, and what memory they keep."""

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
from support.feed_nodes import TIMEOUT, labels, pairs
from support.programs import training
from tfos.errors import BadInputError


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


def test_no_pass_ends_with_a_wait_for_the_tuner_of_tensorflow(node: Any) -> None:
    """It would be up to a minute, on busy hosts only: see base/libraries/dataset_options.py."""
    node.feed_epochs(pairs(0, 4))
    node.server.end_feed()
    mapped = node.dataset(2).map(lambda _, label: label, num_parallel_calls=tf.data.AUTOTUNE)
    assert mapped.options().autotune.enabled is False
    assert [list(batch.numpy()) for batch in mapped] == [[0, 1], [2, 3]]
    tuned = tf.data.Options()
    tuned.autotune.enabled = True
    assert mapped.with_options(tuned).options().autotune.enabled is True


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
            node.feed(*chunks, epoch=1),
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
    with tfos.run(spark, training.fit_dataset, nodes=2, args={"dir": str(tmp_path)}) as cluster:
        cluster.train(rows)
    seen = [pickle.loads(path.read_bytes()) for path in tmp_path.glob("fit-*")]
    assert sum(count for count, _ in seen) == 200
    assert all(steps > 0 for _, steps in seen)
