"""What could have each node train a model of its own, where all are to train one."""

from __future__ import annotations

import numpy as np
import pytest

import keras
from support.comparing import assert_same
from support.programs.two_nodes import optimizer as programs
from support.two_nodes import TwoNodes


@pytest.fixture(scope="module")
def nodes():
    with TwoNodes() as both:
        yield both


@pytest.mark.parametrize("kind", ["by compile", "batch", "own", "both", "legacy"])
def test_a_scaling_of_losses_around_the_optimizer_is_refused(nodes, kind):
    """The node whose gradients overflow would leave out a step of the others."""
    for error in nodes.failures_of(programs.scaled_on_each_node, kind):
        assert error.startswith("BadInputError: LossScaleOptimizer")
        assert "Call ctx.distribute after set_dtype_policy" in error


def test_a_model_that_has_trained_by_itself_trains_with_the_others(nodes):
    """Keras keeps the function that trains, with the optimizer as it was."""
    (begun, chief, is_kept), (_, worker, _) = nodes.run(programs.distributed_after_training)
    assert_same(chief, worker)
    assert is_kept, "it is made once"
    alone = programs.model_of(0)
    alone.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    alone.optimizer.build(alone.trainable_variables)
    for variable, value in zip([*alone.weights, *alone.optimizer.variables], begun, strict=True):
        variable.assign(value)
    (x, y), (other_x, other_y) = programs.rows_of(0), programs.rows_of(1)
    for _ in range(2):
        for at in range(0, len(x), 4):
            step = slice(at, at + 4)
            alone.train_on_batch(
                np.concatenate([x[step], other_x[step]]), np.concatenate([y[step], other_y[step]])
            )
    for ours, theirs in zip(chief, alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-5)


def test_a_node_keeps_the_gradients_that_it_has_accumulated(nodes):
    (chief, steps), (worker, same_steps) = nodes.run(programs.leftovers)
    # After 4, 8 and 12 steps, of which every third used what there was.
    assert chief == [2, 4, 0] and steps == same_steps == 12
    # It makes the first step of each epoch: 1, 5 and 9, which is a third one.
    assert worker == [-18, -36, 0]


@pytest.mark.parametrize("batches", [(3, 2), (2, 3)])
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_averaged_weights_are_the_same_with_accumulated_gradients(nodes, policy, batches):
    (chief, steps), (worker, same_steps) = nodes.run(programs.averaged_weights, policy, batches)
    assert_same(chief, worker)
    # A first step that overflows is none.
    assert steps == same_steps == (12 if policy == "float32" else 11)


#: More than what is sent as it is: 32 KiB.
WEIGHTS = 10_000


def test_float16_keeps_what_is_small_where_all_gradients_are(nodes):
    row = np.full(WEIGHTS, 1e-6, np.float32)
    row[::2] = 1e-11
    chief, worker = nodes.run(programs.compressed, row)
    np.testing.assert_array_equal(chief, worker)
    np.testing.assert_allclose(chief, row, rtol=1e-3)


def test_an_epoch_ends_on_all_nodes_whatever_float16_rounds_off(nodes):
    row = np.ones(WEIGHTS, np.float32)
    row[0] = 1e13
    chief, worker = nodes.run(programs.compressed, row)
    np.testing.assert_array_equal(chief, worker)
    assert chief[0] == pytest.approx(1e13, rel=1e-3)


@pytest.mark.parametrize("kind", ["keras 3", "legacy"])
def test_layers_that_do_not_look_at_other_nodes_are_named_once(nodes, kind):
    for told in nodes.run(programs.synchronized, kind):
        (warning,) = told
        assert warning.startswith("synchronized=True of n1 does nothing with ctx.distribute")
