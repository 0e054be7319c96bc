"""How all nodes get the values of one of them: as training begins, and when nodes join it.

What ``ctx.distribute`` and :class:`tfos.elastic.State` have in common. docs/formats/generations.md
says how nodes join.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError

#: In messages.
WEIGHTS = "weights"


class Given(NamedTuple):
    """What a node tells the others besides the values of variables.

    Attributes:
        epoch: where it is.
        steps: how many steps of that epoch it has made.
        rest: what else belongs to its state, as bytes.
    """

    epoch: int = 0
    steps: int = 0
    rest: bytes = b""


def share(
    variables: Iterable[Any],
    own: Given,
    *,
    rest_names: Sequence[str] = (),
    at_first_step: bool = False,
    joining: bool = False,
    keeps: Iterable[Any] = (),
) -> Given:
    """Gives variables the values of the chief (or, when that has left, of the first node that has
    not), and returns what that tells. Where nodes join others that train, these keep what they
    have, and one of them gives. All nodes call it. A node that joins waits here until it is let in.

    Args:
        variables: TensorFlow's or Keras', the same ones on all nodes.
        own: what this node tells if it is the one that gives.
        rest_names: what ``own.rest`` has, for the comparison of the nodes.
        at_first_step: whether the model had no weights before.
        joining: the call is for those that join, of whom none may be left: then returns ``own``.
        keeps: those of the variables that a node which has been in keeps.

    Raises :class:`BadInputError` on all nodes if their variables or ``rest_names`` differ.
    """
    variables, rest_names = list(variables), list(rest_names)
    group = collective.group()
    if not group.has_state:
        if at_first_step:
            raise BadInputError(
                "this node joins others that train, and its model has no weights yet: give it "
                "an input shape, or call it once before it is trained"
            )
        group.come_in()
    group.is_sharing = True
    try:
        kept = {id(variable) for variable in keeps}
        return _share(group, variables, own, rest_names, at_first_step, joining, kept)
    finally:
        group.is_sharing = False


def _share(
    group: collective.Group,
    variables: list[Any],
    own: Given,
    rest_names: list[str],
    at_first_step: bool,
    joining: bool,
    kept: set[int],
) -> Given:
    """Once this node is in."""
    while True:
        nodes = _meet(variables, own, rest_names, at_first_step)
        if not nodes[:, 6].any():
            raise BadInputError("all nodes that had the weights are lost")
        joined = not nodes[:, 6].all()
        if joining and not joined:
            return own
        root, _, _, epoch, _, steps, _, size = nodes[nodes[:, 6].argmax()].tolist()
        tensors = [tf.convert_to_tensor(variable) for variable in variables]
        if size:  # As many bytes on all nodes, whatever their own are.
            tensors.append(tf.constant(np.frombuffer(own.rest.ljust(size)[:size], np.uint8)))
        try:
            values = collective.broadcast(tensors, root, name=WEIGHTS)
        except tf.errors.AbortedError:  # It was lost, and all others know that.
            continue
        break
    rest = values.pop().numpy().tobytes() if size else b""
    if not (joined and group.has_state):  # Some of what a node has is its own.
        for variable, value in zip(variables, values, strict=True):
            if id(variable) not in kept:
                variable.assign(value)
    if joined:
        group.settle()
    return Given(epoch, steps, rest)


def _meet(
    variables: list[Any], own: Given, rest_names: list[str], at_first_step: bool
) -> np.ndarray:
    """A row of each node that has not left. Raises the same error on all if they differ."""
    group = collective.group()
    kinds = [*map(_kind_of, variables), *(f"the value {name}" for name in rest_names)]
    text = "\n".join(kinds).encode()
    row = [
        group.rank,
        zlib.crc32(text),
        len(text),
        own.epoch,
        at_first_step,
        own.steps,
        group.has_state,
        len(own.rest),
    ]
    nodes = collective.all_gather(tf.constant([row], tf.int64), name="what trains").numpy()
    if len(set(nodes[:, 4])) > 1:
        without = group.names[nodes[nodes[:, 4] == 1][0, 0]]
        raise BadInputError(
            f"training began on {without} with a model that has no weights yet, and with its "
            "weights on others: give it an input shape, or call it once before, on all nodes"
        )
    if len(set(nodes[:, 1])) > 1:
        every = collective.all_gather(np.frombuffer(text, np.uint8), name="what differs").numpy()
        texts = np.split(every, np.cumsum(nodes[:-1, 2]))
        raise BadInputError(
            _difference(
                [group.names[rank] for rank in nodes[:, 0]],
                [part.tobytes().decode().split("\n") for part in texts],
                [*map(_name_of, variables), *rest_names],
            )
        )
    return nodes


def _kind_of(variable: Any) -> str:
    return f"{tf.as_dtype(variable.dtype).name}{tuple(variable.shape)}"


def _name_of(variable: Any) -> str:
    return getattr(variable, "path", variable.name)  # Keras 3 has a path, legacy Keras a name.


def _difference(nodes: list[str], kinds: list[list[str]], names: list[str]) -> str:
    """What the first part of the state is that is another one on one of the nodes than on the
    first."""
    other = next(number for number, theirs in enumerate(kinds) if theirs != kinds[0])
    ours, theirs = kinds[0], kinds[other]
    place = next(
        (
            place
            for place, (one, another) in enumerate(zip(ours, theirs, strict=False))
            if one != another
        ),
        min(len(ours), len(theirs)),
    )
    what = [kind[place] if place < len(kind) else "not there" for kind in (ours, theirs)]
    name = f" ({names[place]} here)" if place < len(names) else ""
    return (
        "the nodes train different models: of their weights, their optimizers' variables and what "
        f"else they share, number {place}{name} is {what[0]} on {nodes[0]}, but {what[1]} on "
        f"{nodes[other]}"
    )
