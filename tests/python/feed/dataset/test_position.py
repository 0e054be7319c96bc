"""A fit that goes on within an epoch that is fed: each row is trained on once. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import keras
from support.dataset_nodes import DatasetNode
from support.feed_nodes import XY, datafeed, pairs
from tfos.cluster.feed.position import Position
from tfos.errors import FeedError
from tfos.keras import ended_feed
from tfos.keras.checkpoint.directory import CheckpointDirectory
from tfos.keras.checkpoint.saving import Checkpoints
from tfos.keras.position.datasets import is_batch_by_batch

SPEC = [tf.TensorSpec([2], tf.float64), tf.TensorSpec([], tf.int64)]
ROWS = 60
pytestmark = pytest.mark.usefixtures("plain_fit")


class Interrupted(Exception):
    pass


def feed(node: DatasetNode, epoch: int, trained: dict[str, Any]) -> None:
    """The rows of an epoch in two partitions, as tasks do."""
    for partition in range(2):
        rows = pairs(partition * ROWS // 2, ROWS // 2)
        writer = node.nodes.writer(partition, epoch=epoch, trained=trained)
        while rows:
            delivered, ahead = writer.ahead()
            count = ahead if delivered else min(ahead, 7)
            chunk, rows = rows[:count], rows[count:]
            writer.write_rows(chunk)
        writer.finish()
        writer.close()
    node.server.end_epoch("input", epoch)


def fit(
    node: DatasetNode,
    directory: Path,
    steps_done: int | None,
    stop_after: int | None = None,
    prefetch: int = 0,
    draws: str = "",
) -> tuple[list[list[int]], list[int]]:
    """The rows of each batch that was made in the second epoch, in their order, and the epochs that
    Keras went through. ``draws``: a callback takes a batch of each epoch, of an iterator that it
    makes "anew" or has "held" since the first one."""
    ended_feed.prepare(keras, node.source.asked_for_more)
    trained: list[list[int]] = []
    going: dict[str, Any] = {"epoch": -1}

    def note(numbers: Any) -> Any:
        if going["epoch"] == 1:
            trained.append(numbers.tolist())
        return np.int64(0)

    def noted(x: Any, y: Any) -> Any:
        with tf.control_dependencies([tf.numpy_function(note, [y], tf.int64)]):
            return tf.identity(x), tf.cast(y, tf.float32)

    class Act(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            going["epoch"] = epoch

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if draws and batch == 0:
                if draws == "anew" or "iterator" not in going:
                    going["iterator"] = iter(dataset)
                next(going["iterator"])
            kept._writer.wait(60)
            if going["epoch"] == 1 and batch + 1 == stop_after:
                raise Interrupted

    kept = Checkpoints(
        str(directory),
        0.0,
        3,
        reads_past=False,
        epochs_done=0 if steps_done is None else 1,
        steps_done=steps_done,
        feed=node.source,
    )
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    dataset = node.dataset(8, spec=SPEC).map(noted)
    if prefetch:
        dataset = dataset.prefetch(prefetch)
    epochs: list[int] = []
    try:
        epochs += model.fit(dataset, epochs=3, verbose=0, callbacks=[kept, Act()]).epoch
    except Interrupted:
        assert kept._writer.wait(60)
    return trained, epochs


def position_of(directory: Path) -> tuple[int, Position]:
    checkpoints = CheckpointDirectory(directory)
    saved = checkpoints.newest()
    assert saved is not None and saved.checkpoint.epoch == 1
    trained = checkpoints.trained(saved)
    assert trained is not None
    return saved.checkpoint.step, Position(*trained)


@pytest.mark.parametrize("prefetch", [0, 3])
def test_each_row_of_the_epoch_is_trained_on_once(
    make_nodes: Any, tmp_path: Path, prefetch: int
) -> None:
    first = DatasetNode(make_nodes(1))
    for epoch in range(2):
        feed(first, epoch, {})
    batches, _ = fit(first, tmp_path, None, stop_after=3, prefetch=prefetch)
    steps, position = position_of(tmp_path)
    assert (steps, position.rows, position.partitions) == (3, 24, 1)
    assert len(position.partly()) == 1
    rows = sum(batches[:3], [])

    second = DatasetNode(make_nodes(1, trained_before=position.partly()))
    feed(second, 0, position.of_plan())
    batches, _ = fit(second, tmp_path, 3, stop_after=5, prefetch=prefetch)
    rows += sum(batches[:2], [])
    steps, position = position_of(tmp_path)
    assert (steps, position.rows) == (5, 40)

    third = DatasetNode(make_nodes(1, trained_before=position.partly()))
    for epoch in range(2):
        feed(third, epoch, position.of_plan() if epoch == 0 else {})
    third.server.end_feed()
    batches, epochs = fit(third, tmp_path, 5, prefetch=prefetch)
    assert epochs == [1, 2]
    assert sorted(rows + sum(batches, [])) == list(range(ROWS))
    assert third.server.counters()["rows"] == ROWS - 40 + ROWS


def test_all_rows_of_an_epoch_that_begins_anew_are_trained_on(
    make_nodes: Any, tmp_path: Path
) -> None:
    first = DatasetNode(make_nodes(1))
    for epoch in range(2):
        feed(first, epoch, {})
    fit(first, tmp_path, None, stop_after=3)
    _, position = position_of(tmp_path)

    second = DatasetNode(make_nodes(1, trained_before=position.partly()))
    for epoch in range(2):
        feed(second, epoch, {})
    second.server.end_feed()
    batches, _ = fit(second, tmp_path, 3)
    assert sorted(sum(batches, [])) == list(range(ROWS))


@pytest.mark.parametrize("mapping", [None, XY], ids=["rows", "columns"])
def test_rows_that_were_trained_on_are_not_for_a_data_feed_either(
    make_nodes: Any, tmp_path: Path, mapping: Any
) -> None:
    first = DatasetNode(make_nodes(1))
    for epoch in range(2):
        feed(first, epoch, {})
    batches, _ = fit(first, tmp_path, None, stop_after=3)
    _, position = position_of(tmp_path)
    rows = sum(batches[:3], [])

    second = DatasetNode(make_nodes(1, trained_before=position.partly()))
    feed(second, 0, position.of_plan())
    second.server.end_feed()
    reader = datafeed(second.server, mapping)
    while not reader.should_stop():
        batch = reader.next_batch(7)
        rows += batch["y"].tolist() if mapping else [number for _, number in batch]
    assert sorted(rows) == list(range(ROWS))


@pytest.mark.parametrize("draws", ["anew", "held"])
def test_batches_that_a_callback_draws_leave_no_position(
    make_nodes: Any, tmp_path: Path, draws: str
) -> None:
    node = DatasetNode(make_nodes(1))
    for epoch in range(2):
        feed(node, epoch, {})
    with pytest.warns(RuntimeWarning, match="something else than fit may draw"):
        fit(node, tmp_path, None, stop_after=3, draws=draws)
    checkpoints = CheckpointDirectory(tmp_path)
    saved = checkpoints.newest()
    assert saved is not None and saved.checkpoint[1:] == (1, 3)
    assert checkpoints.trained(saved) is None


def test_rows_in_another_order_are_found_out(make_nodes: Any, tmp_path: Path) -> None:
    first = DatasetNode(make_nodes(1))
    for epoch in range(2):
        feed(first, epoch, {})
    fit(first, tmp_path, None, stop_after=3)
    _, position = position_of(tmp_path)
    writer = make_nodes(1).writer(0, trained=position.of_plan())
    rows = pairs(0, ROWS // 2)[::-1]
    with pytest.raises(FeedError, match="that the model was trained on before the checkpoint"):
        writer.write_rows(rows[: writer.ahead()[1]])


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        (lambda dataset: dataset.map(lambda *row: row, num_parallel_calls=2), True),
        (lambda dataset: dataset.map(lambda *row: row).with_options(tf.data.Options()), True),
        (lambda dataset: dataset.shuffle(2), False),
        (lambda dataset: dataset.filter(lambda *row: True), False),
        (lambda dataset: dataset.repeat(2).map(lambda *row: row), False),
        (lambda dataset: dataset.unbatch().batch(2), False),
        (lambda dataset: dataset.cache().prefetch(1), False),
        (lambda dataset: tf.data.Dataset.zip((dataset, dataset)), False),
        (
            lambda dataset: dataset.map(
                lambda *row: row, num_parallel_calls=2, deterministic=False
            ).prefetch(1),
            False,
        ),
    ],
)
def test_which_datasets_say_which_rows_a_step_has(
    make_nodes: Any, change: Any, is_known: bool
) -> None:
    node = DatasetNode(make_nodes(1))
    dataset = node.dataset(2, spec=SPEC)
    assert is_batch_by_batch(dataset)
    assert is_batch_by_batch(change(dataset)) is is_known


def test_other_data_says_nothing() -> None:
    for data in (None, np.zeros(3), tf.data.Dataset.range(3), [1], (1, 2)):
        assert not is_batch_by_batch(data)
