"""Keras on two nodes, compared with one machine that has the rows of both."""

from __future__ import annotations

import numpy as np
import pytest

import keras
from support.comparing import assert_same
from support.programs import keras as programs
from support.two_nodes import Died, TwoNodes


@pytest.fixture(scope="module")
def nodes():
    with TwoNodes() as both:
        yield both


def train_alone(kind, epochs):
    keras.config.set_dtype_policy(programs.policy(kind))
    try:
        model = programs.model_of(kind, seed=0)
        model.compile(programs.optimizer_of(kind), "mse")
        for _ in range(epochs):
            for step in programs.steps_of(kind):
                model.train_on_batch(*programs.together(step))
    finally:
        keras.config.set_dtype_policy("float32")
    return model.get_weights()


def assert_close(weights, expected, rtol=2e-3, atol=2e-5):
    for ours, theirs in zip(weights, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    "kind", ["dense", "empty", "embedding", "mixed_float16", "legacy", "legacy embedding"]
)
def test_a_node_whose_rows_end_goes_along_with_the_others(nodes, kind):
    chief, worker = nodes.run(programs.uneven, kind)
    assert_same(chief["weights"], worker["weights"])
    assert chief["iterations"] == worker["iterations"]
    assert chief["history"] == worker["history"]
    assert set(chief["history"]) == {"loss", "mae", "val_loss", "val_mae"}
    loose = {"rtol": 0.02, "atol": 2e-3} if kind == "mixed_float16" else {}
    assert_close(chief["weights"], train_alone(kind, programs.EPOCHS), **loose)


def test_a_node_without_rows_goes_along_with_others_that_run_eagerly(nodes):
    chief, worker = nodes.run(programs.without_graphs)
    assert_same(chief, worker)
    assert_close(chief, programs.without_graphs(None))


@pytest.mark.parametrize("kind", ["keras 3", "legacy"])
def test_statistics_of_batches_are_averaged(nodes, kind):
    chief, worker = nodes.run(programs.batch_norm, kind)
    assert_same(chief, worker)
    assert_close(chief, programs.normalised_alone(kind))


def test_a_metric_of_several_numbers_keeps_its_shape(nodes):
    chief, worker = nodes.run(programs.scores_of_classes)
    assert chief == worker
    # Alone, the chief has 1, 1 and 1, and the worker 1, 0 and 2/3: of fewer answers each.
    np.testing.assert_allclose(chief[0], [1, 2 / 3, 4 / 5], rtol=1e-6)
    assert isinstance(chief[1][0], float)


@pytest.mark.long
def test_killed_nodes_go_on_where_the_chief_has_saved(nodes, tmp_path):
    with TwoNodes() as killed, pytest.raises(Died):
        killed.run(programs.resumable, str(tmp_path), 2)
    chief, worker = nodes.run(programs.resumable, str(tmp_path), None)
    assert chief["epochs"] == worker["epochs"] == [2, 3]
    assert_same(chief["weights"], worker["weights"])
    assert_close(chief["weights"], train_alone("dense", epochs=4))
    assert_same(chief["weights"], keras.models.load_model(tmp_path / "model.keras").get_weights())


def test_a_batch_without_weight_is_a_step_that_changes_nothing(nodes):
    chief, worker = nodes.run(programs.weightless)
    assert_same(chief, worker)
    model = programs.model_of("dense", seed=0)
    model.compile(programs.optimizer_of("dense"), "mse")
    x, y = np.ones((4, 4), np.float32), np.ones((4, 1), np.float32)
    model.train_on_batch(x, y)
    model.optimizer.apply([np.zeros_like(weight) for weight in model.get_weights()])
    model.train_on_batch(2 * x, y)
    assert_close(chief, model.get_weights())


@pytest.mark.parametrize("kind", programs.MASKED)
def test_elements_that_keras_leaves_out_weigh_nothing(nodes, kind):
    chief, worker = nodes.run(programs.masked, kind)
    assert_same(chief, worker)
    assert_close(chief, programs.masked(None, kind))


@pytest.mark.parametrize("kind", ["function", "loop"])
def test_a_loss_in_a_graph_of_its_own_weighs_as_much_as_others(nodes, kind):
    for weights, warned in nodes.run(programs.nested, kind):
        assert weights == [[-0.5]]  # from 1, by half the mean of 2 and 4
        assert "weigh as much as those of the others" in warned[0]


def test_operations_run_each_time_that_a_function_does(nodes):
    for found in nodes.run(programs.in_graphs):
        for step, (first, rows) in enumerate(found):
            assert first == {"b": 10.0 + step, "a": [11.0 + step]}
            assert rows == {
                "rows": [step, 10.0 + step, 10.0 + step],
                "other": [[step, 10.0 + step]],
            }


def test_means_are_over_those_whose_programs_go_on(nodes):
    """Sums, too; the size is of the group, as it was connected."""
    total, count, mean, size = nodes.run(programs.after_the_worker)[0]
    assert (total, count, mean, size) == (3, 1, 3, 2)


def test_the_first_shape_that_differs_is_named(nodes):
    for error in nodes.failures_of(programs.different_lists):
        assert "(2,3,) (4,) odd of 2 tensors of float32" in error and "(2,3,) (5,) odd of" in error
    for error in nodes.failures_of(programs.built_on_the_chief):
        assert "began on worker:0" in error and "a model that has no weights yet" in error
    for error in nodes.failures_of(programs.different_models):
        assert "last/kernel here) is float32(8, 2) on chief:0" in error
        assert "float32(8, 3) on worker:0" in error


def test_a_shape_that_only_the_run_knows_is_compared(nodes):
    for error in nodes.failures_of(programs.rows_of_other_widths):
        assert "(3,) wide of rows" in error and "(6,) wide of rows" in error
    for error in nodes.failures_of(programs.as_many_elements):
        assert "(2,6,) as many of" in error and "(3,4,) as many of" in error


def test_tensors_of_strings_are_refused(nodes):
    for error in nodes.failures_of(programs.rows_of_strings):
        assert "BadInputError: tensors of string can't be sent" in error
