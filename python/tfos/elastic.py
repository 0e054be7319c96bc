"""Training loops of your own that nodes can join: what ``fit`` does by itself.

    def train(ctx):                                     # tfos.run(spark, train, nodes=(2, 8), ...)
        ...
        with tfos.elastic.State(model=model, optimizer=optimizer, step=0) as state:
            while state.step < 1000:
                gradients = tfos.collective.all_reduce(gradients_of(batch(state.step)))
                optimizer.apply(gradients, model.trainable_variables)
                state.step += 1
                state.commit()                          # here another node may come in

When a node is lost, the others need no state: the operation that they are in ends on all of them,
or they repeat it from the values that they hold, and go on. So a commit copies nothing, nothing is
rolled back, and no step is made twice. A node that joins needs a state, and gets it from the memory
of one that trains. docs/training.md is for users, docs/formats/generations.md has the protocol.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfos import collective
from tfos.collective.sealing import opened, sealed
from tfos.errors import BadInputError
from tfos.keras import sharing
from tfos.keras.fit import is_distributed
from tfos.keras.joining import lets_in


class State:
    """What a training loop goes on with, and the ``with`` block around the loop.

    As the block begins, all nodes take the values of the chief. A node that joins others waits
    there until they let it in at a commit, and takes their values. It runs the same loop from then
    on: read data by rank and by what the state counts. Only the first block of a program lets nodes
    in, or its first ``fit``, if that comes before.

    Without ``nodes=(least, most)`` nobody is lost and nobody joins; all nodes begin with the
    values of the chief.

    Owner and lifetime: the program of a node; every training node has one, with the same names in
    the same order. Threads: the one that trains. Errors: those of :mod:`tfos.collective`;
    :class:`tfos.errors.BadInputError` on all nodes if their states have different parts.

    Args:
        values: the parts of the state, by name, which are its attributes. Keras models, optimizers
            and variables, ``tf.Module``, ``tf.Variable``, and lists and dicts of these: their
            variables are part of it. A model must have its weights, and brings its optimizer if
            the state has none. An optimizer may be a plain one or one of ``ctx.distribute``, and
            gets its variables here if the state has one model. All else, such as
            ``step=0``, is a value that is assigned anew (``state.step += 1``) and can be pickled.
    """

    def __init__(self, **values: Any) -> None:
        self._parts: dict[str, Any] = {}
        self._plain: list[str] = []
        self._is_open = self._lets_in = False
        for name, value in values.items():
            if name.startswith("_") or hasattr(type(self), name):
                raise BadInputError(
                    f"a part of a State can't be named {name!r}: choose another name"
                )
            if _has_variables(name, value):
                self._parts[name] = value
                super().__setattr__(name, value)
            else:
                self._plain.append(name)
                setattr(self, name, value)
        _build(self._parts)
        #: What has the variables of the state.
        self._shared = [*_leaves(self._parts)]
        self._shared += _optimizers_of(self._shared)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            if name in self._parts:
                raise BadInputError(
                    f"state.{name} has variables, which the nodes share: assign values to these"
                )
            if name not in self._plain:
                raise BadInputError(
                    f"the state has no part {name!r}: give its first value to "
                    f"tfos.elastic.State({name}=...)"
                )
            _pickled(name, value)  # An error now rather than when a node joins.
        super().__setattr__(name, value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The parts."""

    def __enter__(self) -> State:
        if self._is_open:
            raise BadInputError("this State is in use: leave its `with` block first")
        group = collective.group()
        # Where Spark feeds the nodes, others join between the epochs of ``fit`` only.
        self._lets_in = lets_in() and group.feed is None
        values = pickle.loads(opened(self._share().rest))
        for name in self._plain:
            super().__setattr__(name, pickle.loads(values[name]))
        for leaf in self._shared:
            if is_distributed(leaf):
                leaf._together.begin_shared()
        group.set_in_steps(self._lets_in)
        self._is_open = True
        return self

    def __exit__(self, *error: Any) -> None:
        self._is_open = False
        collective.group().set_in_steps(False)

    def commit(self) -> None:
        """Ends a step: nodes that wait to join come in, and get the state as it is now. If too few
        nodes are left, waits until others come. All nodes call it after the same steps. Where
        nobody waits it costs nothing."""
        if not self._is_open or tf.inside_function():
            raise BadInputError(
                "state.commit() is for the loop in `with tfos.elastic.State(...) as state:`, after "
                "each step, outside of a tf.function"
            )
        if self._lets_in and collective.group().meet_after_step():
            self._share(joining=True)

    def _share(self, joining: bool = False) -> sharing.Given:
        values = {name: _pickled(name, getattr(self, name)) for name in self._plain}
        return sharing.share(
            [variable for leaf in self._shared for variable in _variables_of(leaf)],
            sharing.Given(rest=sealed(pickle.dumps(values))),
            rest_names=self._plain,
            joining=joining,
        )


def _leaves(value: Any) -> Iterator[Any]:
    """What is in lists and dicts."""
    if isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value


def _is_of_keras(value: Any) -> bool:
    return any(
        kind.__module__.split(".")[0] in ("keras", "tf_keras") for kind in type(value).__mro__
    )


def _is_optimizer(value: Any) -> bool:
    return _is_of_keras(value) and hasattr(value, "apply_gradients")


def _is_built(optimizer: Any) -> bool:
    return bool(getattr(optimizer, "built", getattr(optimizer, "_built", True)))


def _is_model(value: Any) -> bool:
    return _is_of_keras(value) and hasattr(value, "_flatten_layers")


def _is_variable(value: Any) -> bool:
    return isinstance(value, tf.Variable) or (
        _is_of_keras(value) and hasattr(value, "assign") and hasattr(value, "shape")
    )


def _has_variables(name: str, value: Any) -> bool:
    """Whether a part of the state is variables, or has some; a plain value otherwise."""
    have = {
        _is_variable(leaf)
        or ((isinstance(leaf, tf.Module) or _is_of_keras(leaf)) and hasattr(leaf, "variables"))
        for leaf in _leaves(value)
    }
    if len(have) > 1:
        raise BadInputError(
            f"State({name}=...) mixes variables with plain values: give each part a name of its own"
        )
    return True in have


def _variables_of(leaf: Any) -> list[Any]:
    if _is_variable(leaf):
        return [leaf]
    if _is_of_keras(leaf) and hasattr(leaf, "weights") and not _is_optimizer(leaf):
        return list(leaf.weights)  # Without seeds: random numbers are each node's own.
    return list(leaf.variables)


def _build(parts: dict[str, Any]) -> None:
    """Gives optimizers their variables. Raises BadInputError where there are none yet of what a
    node that joins is to get."""
    models = []
    for name, part in parts.items():
        for leaf in _leaves(part):
            if not _is_model(leaf):
                continue
            if not all(layer.built for layer in leaf._flatten_layers()):
                raise BadInputError(
                    f"the model of State({name}=...) has no weights yet: give it an input shape, "
                    "or call it once before"
                )
            if leaf.trainable_variables:
                models.append(leaf)
    for name, part in parts.items():
        for leaf in _leaves(part):
            if not _is_optimizer(leaf) or _is_built(leaf):
                continue
            if len(models) != 1:
                raise BadInputError(
                    f"the optimizer of State({name}=...) has no variables yet, and the state has "
                    f"{len(models)} models: call optimizer.build(variables) before"
                )
            leaf.build(models[0].trainable_variables)


def _optimizers_of(leaves: list[Any]) -> list[Any]:
    """Those of compiled models among them, with their variables; none where the state has some of
    its own."""
    found: list[Any] = []
    if any(map(_is_optimizer, leaves)):
        return found
    for model in leaves:
        optimizer: Any = getattr(model, "optimizer", None) if _is_model(model) else None
        # Those of tf_keras.optimizers.legacy have variables when they like, and train one node.
        has_variables = hasattr(optimizer, "built") or hasattr(optimizer, "_built")
        if has_variables and not any(optimizer is each for each in found):
            if not _is_built(optimizer):
                optimizer.build(model.trainable_variables)
            found.append(optimizer)
    return found


def _pickled(name: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:  # Whatever its own code raises.
        raise BadInputError(
            f"state.{name} can't be given to a node that joins, as it can't be pickled: "
            f"{type(error).__name__}: {error}. Keep it outside of the state"
        ) from error
