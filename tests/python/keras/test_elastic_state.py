"""``tfos.elastic.State``: custom training loops that lose nodes, and that nodes join."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import signal
import threading
import types

import numpy as np
import pytest

import keras
import tfos
from support.programs import elastic as programs
from support.programs.lives import begin_life, kill_after, say_it_joins, wait_for_those_who_join
from support.two_nodes import TwoNodes
from tfos.base import training_nodes
from tfos.errors import BadInputError, NodeFailedError, TfosError
from tfos.keras import sharing

THREE_EXECUTORS = "local-cluster[3,1,1024]"
TWO_EXECUTORS = "local-cluster[2,1,1024]"

#: As many weights that a step takes long enough to be killed in.
WEIGHTS = 20_000
STEPS = 8
#: The nodes end when all are there.
ANY_NUMBER = math.inf
#: The step in which the victim is killed, from 0.
KILLED_IN = 4


def gradient_of(step, rank):
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng([step, rank]).integers(-3, 4, WEIGHTS).astype(np.float32)


def train(ctx):
    """Makes steps until all nodes have been in one again after a loss, or so many. The victim's
    first process dies."""
    import tensorflow as tf

    import keras
    from tfos import collective

    args = ctx.args
    life = begin_life(ctx)
    dies = ctx.rank == args["victim"] and life == 0
    model = keras.Sequential([keras.Input([WEIGHTS]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.full((WEIGHTS, 1), ctx.rank, np.float32)])
    optimizer = keras.optimizers.SGD(1.0)
    if args.get("distribute"):
        optimizer = ctx.distribute(optimizer)
    count = tf.Variable(0, dtype=tf.int64)
    more = {"extra": 1} if args.get("differs") and life else {}
    begun_at = None
    say_it_joins(ctx)
    with tfos.elastic.State(
        model=model, optimizer=optimizer, count=count, step=0, present=[], **more
    ) as state:
        begun_at = state.step
        while state.step < args["steps"] and not has_all_again(state.present, ctx.size):
            if args["comes_again"] and state.step > KILLED_IN:
                wait_for_those_who_join(ctx)
            if dies and state.step == KILLED_IN and args["moment"] == "in a step":
                # At any moment of the step.
                threading.Thread(target=kill_after, args=(args["spins"],)).start()
            if args.get("raises") == ctx.rank and state.step == KILLED_IN:
                raise ValueError("a mistake of the program")
            # In one tensor with the gradient: a node is part of both or of none.
            gradient = np.append(gradient_of(state.step, ctx.rank), np.float32(2**ctx.rank))
            sums = collective.all_reduce(tf.constant(gradient), "sum")
            mine = gradient[:-1] if args.get("distribute") else sums[:-1]
            optimizer.apply([tf.reshape(mine, [WEIGHTS, 1])], model.trainable_variables)
            count.assign_add(1)
            state.present.append(int(sums[-1]))
            if dies and state.step == KILLED_IN and args["moment"] == "before its commit":
                kill_after(0)
            state.step += 1
            state.commit()
            if dies and state.step > KILLED_IN:
                signal.pause()  # It is killed now.
            if dies and state.step == KILLED_IN and args["moment"] == "after a commit":
                kill_after(0)
    return {
        "weights": model.get_weights()[0][:, 0],
        "iterations": int(optimizer.iterations),
        "count": int(count),
        "step": state.step,
        "present": state.present,
        "begun_at": begun_at,
        "size": collective.size(),
        "life": life,
    }


def has_all_again(present, size):
    every = 2**size - 1
    return present[-1:] == [every] and any(mask != every for mask in present)


def trained_alone(present):
    """The weights of a single process that makes these steps, each with the gradients of the nodes
    that were present."""
    weights = np.zeros(WEIGHTS, np.float32)
    for step, mask in enumerate(present):
        for rank in range(3):
            if mask >> rank & 1:
                weights -= gradient_of(step, rank)
    return weights


def run(spark, tmp_path, nodes, victim, moment, spins=0, **options):
    names = ("steps", "distribute", "differs", "raises")
    args = {name: options.pop(name) for name in names if name in options}
    args |= {"victim": victim, "moment": moment, "spins": spins, "dir": str(tmp_path)}
    args["comes_again"] = args["steps"] == ANY_NUMBER
    with tfos.run(
        spark, train, nodes=nodes, args=args, input_mode="tensorflow", **options
    ) as cluster:
        return cluster.wait(timeout=280)


def check(results, steps=None):
    """All have made the same steps, each once, with the same bits."""
    first = results[0]
    for result in results:
        assert result["present"] == first["present"]
        assert np.array_equal(result["weights"], first["weights"])
        assert result["step"] == result["count"] == result["iterations"] == len(first["present"])
        assert result["size"] == first["size"]
    assert steps in (None, first["step"])
    return first["present"]


@pytest.mark.failure("node killed", "training")
@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "moment", "spins"),
    [
        (1, "in a step", 0),
        (0, "in a step", 50_000),
        (2, "in a step", 200_000),
        (1, "before its commit", 0),
        (0, "after a commit", 0),
    ],
)
def test_the_others_go_on_with_the_step_that_they_are_in(
    spark_on, leftovers, tmp_path, victim, moment, spins
):
    results = run(
        spark_on(THREE_EXECUTORS),
        tmp_path,
        (2, 3),
        victim,
        moment,
        spins,
        steps=STEPS,
        late_nodes=False,
    )
    assert results.pop(victim) is None
    present = check(results, STEPS)
    assert [result["begun_at"] for result in results] == [0, 0]
    left = 7 - 2**victim
    its_steps = present.count(7)
    assert present == [7] * its_steps + [left] * (STEPS - its_steps)
    possible = {
        "in a step": [KILLED_IN, KILLED_IN + 1],
        "before its commit": [KILLED_IN + 1],
        "after a commit": [KILLED_IN],
    }
    assert its_steps in possible[moment]
    assert np.array_equal(results[0]["weights"], trained_alone(present))


@pytest.mark.long
@pytest.mark.parametrize(
    ("nodes", "victim", "moment", "distribute"),
    [
        ((2, 3), 1, "in a step", False),
        ((2, 3), 0, "after a commit", True),
        ((3, 3), 2, "before its commit", False),
    ],
)
def test_a_node_that_comes_again_has_the_state_of_the_others(
    spark_on, leftovers, tmp_path, nodes, victim, moment, distribute
):
    results = run(
        spark_on(THREE_EXECUTORS),
        tmp_path,
        nodes,
        victim,
        moment,
        steps=ANY_NUMBER,
        distribute=distribute,
    )
    present = check(results)
    assert present[-1] == 7 and results[0]["size"] == 3, "it is there again"
    joined = results[victim]
    assert joined["life"] == 1
    assert joined["begun_at"] == len(present) - 1, "it has not begun anew"
    if not distribute:  # A mean of three has no exact bits to compare with.
        assert np.array_equal(results[0]["weights"], trained_alone(present))
    if nodes == (3, 3):  # They wait for it, which takes hundreds of steps to come.
        assert present.count(3) < 50


def fit_in_rounds(ctx):
    """Each step of the loop is a ``fit``. Ends when all have been in one again after a loss, or
    after so many. The worker's first process dies after the first one."""
    import tensorflow as tf

    from tfos import collective

    life = begin_life(ctx)
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    optimizer = ctx.distribute(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse")
    x, y = np.full((8, 2), 1.0 + ctx.rank, np.float32), np.ones((8, 1), np.float32)
    say_it_joins(ctx)
    with tfos.elastic.State(model=model, optimizer=optimizer, present=[]) as state:
        begun_at = len(state.present)
        while len(state.present) < 100 and not has_all_again(state.present, ctx.size):
            if state.present:
                wait_for_those_who_join(ctx)
            model.fit(x, y, batch_size=4, verbose=0)
            present = collective.all_reduce(tf.constant(2**ctx.rank), "sum")
            state.present = [*state.present, int(present)]
            state.commit()
            if ctx.rank == 1 and life == 0:
                kill_after(0)
    return begun_at, state.present, model.get_weights()


@pytest.mark.failure("node killed", "training")
@pytest.mark.long
def test_a_node_comes_in_at_a_commit_after_a_fit(spark_on, leftovers, tmp_path):
    with tfos.run(
        spark_on(TWO_EXECUTORS),
        fit_in_rounds,
        nodes=(1, 2),
        args={"dir": str(tmp_path)},
        input_mode="tensorflow",
    ) as cluster:
        chief, worker = cluster.wait(timeout=280)
    assert chief[0] == 0 and worker[0] >= 2, "it has come in later"
    assert chief[1] == worker[1] and chief[1][-1] == 3
    for ours, theirs in zip(chief[2], worker[2], strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.long
def test_an_error_of_the_program_is_not_tried_again(spark_on, leftovers, tmp_path):
    with pytest.raises(NodeFailedError, match="ValueError: a mistake of the program"):
        run(spark_on(TWO_EXECUTORS), tmp_path, (2, 2), -1, "never", steps=STEPS, raises=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "1-0"]


@pytest.mark.long
def test_a_node_that_joins_with_another_state_is_an_error_that_says_so(
    spark_on, leftovers, tmp_path
):
    with pytest.raises(NodeFailedError) as failure:
        run(
            spark_on(TWO_EXECUTORS),
            tmp_path,
            (2, 2),
            1,
            "in a step",
            steps=ANY_NUMBER,
            differs=True,
        )
    assert "the value extra on worker:1" in str(failure.value)


@pytest.fixture(scope="module")
def nodes():
    with TwoNodes() as both:
        yield both


def test_all_begin_with_the_values_of_the_chief(nodes):
    chief, worker = nodes.run(programs.begins)
    assert chief == worker
    assert chief["weights"] == [1.0] * 4 and chief["variables"] == [1.0, 2.0]
    assert chief["values"] == {"step": 1, "best": None, "names": ["chief"]}
    assert chief["iterations"] == 3


def test_a_compiled_model_brings_its_optimizer(nodes):
    chief, worker = nodes.run(programs.begins_compiled)
    assert chief == worker
    assert chief[0] == 3, "its steps"


def test_states_that_differ_are_an_error_that_names_the_part(nodes):
    for error in nodes.failures_of(programs.other_names):
        assert "number 1 (" in error
        assert "is the value step on chief:0" in error and "the value epoch on worker:0" in error
    for error in nodes.failures_of(programs.other_shapes):
        assert "is float32(2,) on chief:0" in error and "float32(3,) on worker:0" in error


def test_a_part_must_be_named_at_the_beginning():
    state = tfos.elastic.State(step=0)
    state.step += 1
    assert state.step == 1
    with pytest.raises(BadInputError, match=r"no part 'best'.*State\(best=\.\.\.\)"):
        state.best = 1.0
    with pytest.raises(AttributeError, match="best"):
        state.best
    for name in ("commit", "_step"):
        with pytest.raises(BadInputError, match=f"{name}'"):
            tfos.elastic.State(**{name: 0})


def test_what_a_node_that_joins_could_not_get_is_refused_at_once():
    lazy = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(BadInputError, match=r"State\(model=\.\.\.\) has no weights yet"):
        tfos.elastic.State(model=lazy)
    with pytest.raises(BadInputError, match=r"State\(optimizer=\.\.\.\) has no variables yet"):
        tfos.elastic.State(optimizer=keras.optimizers.Adam())
    with pytest.raises(BadInputError, match=r"state.rows .*can't be pickled: TypeError"):
        tfos.elastic.State(rows=(row for row in []))
    state = tfos.elastic.State(last=None, variable=keras.Variable(1.0))
    with pytest.raises(BadInputError, match=r"state.last .*can't be pickled"):
        state.last = threading.Lock()
    with pytest.raises(BadInputError, match=r"state.variable has variables"):
        state.variable = 2.0
    with pytest.raises(BadInputError, match="mixes variables with plain values"):
        tfos.elastic.State(both=[keras.Variable(1.0), 1.0])


def test_a_commit_is_for_the_loop_in_the_block():
    with pytest.raises(BadInputError, match="is for the loop in"):
        tfos.elastic.State(step=0).commit()


def test_what_was_changed_on_its_way_is_not_unpickled(monkeypatch, tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    def share_changed_by(change):
        monkeypatch.setattr(
            sharing, "share", lambda variables, own, **_: own._replace(rest=change(own.rest))
        )

    group = types.SimpleNamespace(is_elastic=False, feed=None, set_in_steps=lambda is_in: None)
    monkeypatch.setattr(tfos.collective, "group", lambda: group)
    monkeypatch.setattr(training_nodes, "_known", None)
    training_nodes.use([], 0, "5e" * 32, -1)

    share_changed_by(lambda rest: rest)
    with tfos.elastic.State(step=7) as state:
        assert state.step == 7
    seal = hashlib.sha256().digest_size
    share_changed_by(lambda rest: rest[:seal] + pickle.dumps(Attack()))
    with pytest.raises(TfosError, match="changed on its way"):
        with tfos.elastic.State(step=7):
            pass
    assert not (tmp_path / "ran").exists()


def test_outside_of_a_cluster_there_is_no_state():
    with pytest.raises(BadInputError, match="in the program that tfos.run starts"):
        with tfos.elastic.State(step=0):
            pass
