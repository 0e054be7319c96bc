"""What the elements of a dataset of the feed are: feeders, node and TensorFlow in one process."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from support.dataset_nodes import DatasetNode
from support.feed_nodes import labels, pairs
from tfos.errors import BadInputError


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


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
        node = DatasetNode(make_nodes(1))
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


@pytest.mark.parametrize("pickles", [True, False])
def test_arrays_of_any_layout(make_nodes: Any, pickles: bool) -> None:
    node = DatasetNode(make_nodes(1, pickle=pickles))
    rows = [
        (
            read_only(np.arange(3.0) + n),
            (np.arange(6).reshape(3, 2) + n).T,
            np.arange(2 * n, dtype=np.int8)[::-2],
            np.frombuffer(bytes([n, 1]), np.uint8),
        )
        for n in range(7)
    ]
    node.feed(rows[:4], rows[4:])
    node.server.end_feed()
    read = [
        tuple(column.numpy() for column in values)
        for batch in node.dataset(4, ragged=[2])
        for values in zip(*(batch[name] for name in "0123"))
    ]
    assert len(read) == len(rows)
    for values, row in zip(read, rows):
        for value, array in zip(values, row):
            assert value.dtype == array.dtype
            np.testing.assert_array_equal(value, array)


def test_lists_that_are_empty_in_all_rows_of_a_chunk(make_nodes: Any) -> None:
    for filled in [3, 4], ["a"], (0.5,):
        empty = filled[:0]
        rows = [(empty, 0), (filled, 1), (empty, 2), (empty, 3)]
        for ragged in [0], []:
            node = DatasetNode(make_nodes(1))
            node.feed(rows[:1], rows[1:3], rows[3:])
            node.server.end_feed()
            dataset = node.dataset(3, ragged=ragged)
            assert isinstance(dataset.element_spec[0], tf.RaggedTensorSpec)
            lists, numbers = zip(*dataset)
            assert [values for part in lists for values in part.to_list()] == [
                [],
                [text.encode() if isinstance(text, str) else text for text in filled],
                [],
                [],
            ]
            assert labels(zip(lists, numbers)) == [0, 1, 2, 3]


def test_lists_that_are_empty_in_all_rows(make_nodes: Any) -> None:
    rows = [{"x": n, "tags": []} for n in range(20)]
    for options in (
        {"features": "x"},
        {"spec": {"x": tf.TensorSpec([], tf.int64)}},
        {"features": "x", "ragged": ["tags"]},
    ):
        node = DatasetNode(make_nodes(1))
        node.feed(*([row] for row in rows))
        batch = next(iter(node.dataset(20, **options)))
        assert batch.numpy().tolist() == list(range(20))
    node = DatasetNode(make_nodes(1))
    node.feed(*([row] for row in rows))
    with pytest.raises(BadInputError, match="all lists of 'tags' were empty so far.*pass spec="):
        node.dataset(20)
    spec = {"x": tf.TensorSpec([], tf.int64), "tags": tf.RaggedTensorSpec([None], tf.string, 0)}
    batch = next(iter(node.dataset(20, spec=spec)))
    assert batch[1].to_list() == [[]] * 20
    node = DatasetNode(make_nodes(1))
    node.feed([[]])
    batch = next(iter(node.dataset(1, spec=tf.RaggedTensorSpec([None], tf.int64, 0))))
    assert batch.to_list() == [[]]


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
        [(read_only(np.arange(3.0)), n) for n in range(9)],
        # What cannot be columns.
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
        node = DatasetNode(make_nodes(1))
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


def test_a_row_is_cut_between_characters(node: Any) -> None:
    node.feed([(1, "\u00e9" * 300), (2, None)])
    with pytest.raises(BadInputError, match=r"One of them is \(1, '\u00e9{195}\.{4} Make"):
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
