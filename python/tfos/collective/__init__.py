"""Tensors between the nodes that train together: sums, means, broadcasts.

    from tfos import collective

    def train(ctx):
        ...
        gradients = collective.all_reduce(tape.gradient(loss, variables))    # the mean of all nodes

Every training node (chief or master, and workers) must call the same functions in the same order,
in eager code or in a ``tf.function``. The first call connects the nodes. ``ctx.distribute`` does
all of it for a Keras optimizer.

Errors: ``tf.errors.UnavailableError`` with the name of the node that is gone or gave up, from
``barrier`` :class:`tfos.errors.TfosError` or, in a ``tf.function``, ``tf.errors.UnknownError``;
``tf.errors.InvalidArgumentError`` naming both when two nodes do different things. Nothing can be
done with the other nodes any more then.
A node whose program ends before those of the others has left: they go on without it, and their
means are over those who have not left.

All but ``barrier`` can be differentiated. The gradient of a node's tensor is that of the sum of all
nodes' losses, so every node must ask its tape for the same gradients, in the same order.

Threads: any, but the order of calls must be the same on all nodes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tfos.base import training_nodes
from tfos.collective import gradients
from tfos.collective.members import Group
from tfos.errors import BadInputError

_group: Group | None = None
_joining = threading.Lock()


def prefer_rdma() -> None:
    """For tfos itself: has this node exchange tensors over UCX where that is there, as
    ``spark.tfos.rdma=true`` does for all. tensorflowonspark's programs may ask for it before their
    first collective operation. Raises :class:`tfos.errors.BadInputError` after that, and where the
    cluster encrypts everything."""
    with _joining:
        if _group is not None:
            raise BadInputError(
                "this node is connected to the others already: ask for rdma before "
                "its first collective operation"
            )
        known = training_nodes.known()
        options = {} if known is None else known.options
        if options.get("encrypt") == "true":
            raise BadInputError(
                'rdma=True: this cluster encrypts everything (encrypt="true"), which UCX '
                "can't: leave one out"
            )
        if options.get("rdma", "false") == "false":
            training_nodes.set_option("rdma", "true")


def leave() -> None:
    """Says that this program has done all it does with the others, and waits for them;
    ``tfos.node`` does when a program has ended. They go on meanwhile: sums and means are over those
    who have not left."""
    if _group is not None:
        _group.leave()


def group() -> Group:
    """For tfos itself: the group of this process. The first call waits for the other nodes."""
    global _group
    with _joining:
        if _group is None:
            known = training_nodes.known()
            if known is None:
                raise BadInputError(
                    "collective operations are for nodes: call them in the program "
                    "that tfos.run starts"
                )
            if known.may_lose_nodes:
                raise BadInputError(
                    "ctx.distribute and tfos.collective are for nodes that train in step, which "
                    "can't go on without a lost one: they do not go with max_lost_nodes"
                )
            gradients.register(group)
            with tf.init_scope():
                _group = Group(
                    known.nodes, known.node_id, known.key, known.listener, **known.options
                )
        return _group


def is_coming_in() -> bool:
    """For tfos itself: whether this node joins others, and has not got their weights yet."""
    return _group is not None and _group.feed is not None and not _group.has_state


def rank() -> int:
    """This node's number among the training nodes, from 0; the chief or master has 0."""
    return group().rank


def size() -> int:
    """How many nodes train together now, the same number on all after the same operation. Lost
    nodes are not among them. Nodes whose programs have ended are, as the others learn of that with
    the next operation only. They give nothing any more: for a mean over the others take
    ``op="mean"``, or sum a 1 along."""
    return group().size


def all_reduce(
    tensors: Any,
    op: str = "mean",
    *,
    weight: Any = None,
    compression: str | None = None,
    name: str = "all_reduce",
) -> Any:
    """The mean or sum of everybody's ``tensors``, bit for bit identical on all nodes.

    Args:
        tensors: a tensor, ``tf.IndexedSlices``, None, or a structure of them: float32, float64,
            float16, bfloat16, and for sums int32 and int64. Shapes must be the same everywhere;
            IndexedSlices (gradients of embeddings) may have any number of rows, and give the rows
            of all nodes.
        op: "mean" or "sum".
        weight: of this node's tensors in a mean, such as its number of rows; 1 by default. A node
            with weight 0 just takes part.
        compression: "bfloat16" or "float16": float32 tensors (of more than 32 KiB together) are
            rounded to that where they travel between hosts, which takes half the time on a slow
            network. Sums are made in float32 and are the same on every node. float16 has
            eight times the precision of bfloat16, but elements below a hundred-millionth of the
            largest one of all tensors lose it.
        name: for messages.
    """
    wire = wire_of(compression)
    if op not in ("mean", "sum"):
        raise BadInputError(f"op={op!r} is neither 'mean' nor 'sum'")
    if op == "sum" and weight is not None:
        raise BadInputError("a sum has no weights; op='mean' has")
    if op == "mean" and weight is None:
        weight = 1.0
    reduced, _ = _reduce(tf.nest.flatten(tensors), weight, name, wire)
    return tf.nest.pack_sequence_as(tensors, reduced)


def mean_and_weights(
    tensors: list[Any], weight: Any, *, compression: str | None, name: str
) -> tuple[list[Any], tf.Tensor]:
    """For tfos itself: the means, as of :func:`all_reduce`, and the sum of everybody's ``weight``.
    It is 0 only if all of these are, whatever compression rounds off."""
    means, total = _reduce(tensors, weight, name, wire_of(compression))
    if total is None:  # There is nothing to reduce.
        total = _sum_of_weights(weight, name)
    return means, total


def _reduce(
    flat: list[Any], weight: Any, name: str, wire: tf.DType | None
) -> tuple[list[Any], tf.Tensor | None]:
    """The means, or the sums without ``weight``; and the sum of all weights, if there is one."""
    flat = dense_if_elastic(flat)
    sparse = [place for place, tensor in enumerate(flat) if isinstance(tensor, tf.IndexedSlices)]
    dense = [
        place for place, tensor in enumerate(flat) if tensor is not None and place not in sparse
    ]
    result: list[Any] = [None] * len(flat)
    values = [tf.convert_to_tensor(flat[place]) for place in dense]
    for value in values:
        if weight is not None and not value.dtype.is_floating:
            raise BadInputError(f"{value.dtype.name} has no mean here; cast it, or take op='sum'")
    total = None
    if values:
        reduced, total = group().all_reduce_with_weights(values, weight, name, wire)
        for place, value in zip(dense, reduced, strict=True):
            result[place] = value
    if sparse:
        total = _reduce_slices(flat, sparse, weight, name, result)
    return result, total


def dense_if_elastic(tensors: list[Any]) -> list[Any]:
    """For tfos itself: ``tensors`` as the nodes reduce them. Where nodes may be lost, IndexedSlices
    are reduced as tensors: rows, indices and weights would be gathered one after the other, by
    members that may differ."""
    if not any(isinstance(tensor, tf.IndexedSlices) for tensor in tensors):
        return tensors
    if not group().is_elastic:
        return tensors
    return [
        tf.convert_to_tensor(tensor) if isinstance(tensor, tf.IndexedSlices) else tensor
        for tensor in tensors
    ]


def wire_of(compression: str | None) -> tf.DType | None:
    """For tfos itself: what float32 is sent as."""
    if compression is None:
        return None
    if compression not in ("float16", "bfloat16"):
        raise BadInputError(
            f"compression={compression!r} is neither 'bfloat16' nor 'float16' nor None"
        )
    return tf.as_dtype(compression)


def _reduce_slices(
    flat: list[Any], places: list[int], weight: Any, name: str, result: list[Any]
) -> tf.Tensor | None:
    """Puts what ``places`` of ``flat`` become into ``result``. Returns the sum of all weights."""
    share, total = None, None
    if weight is not None:
        total = _sum_of_weights(weight, name)
        share = tf.math.divide_no_nan(tf.cast(weight, tf.float64), total)
    for place in places:
        slices = flat[place]
        # Nothing of a node without weight, whatever it is.
        values = (
            slices.values
            if share is None
            else tf.math.multiply_no_nan(slices.values, tf.cast(share, slices.values.dtype))
        )
        result[place] = tf.IndexedSlices(
            group().all_gather(values, f"{name} (rows)"),
            group().all_gather(slices.indices, f"{name} (indices)"),
            slices.dense_shape,
        )
    return total


def _sum_of_weights(weight: Any, name: str) -> tf.Tensor:
    (total,) = group().all_reduce([tf.cast(weight, tf.float64)], None, f"{name} (weights)")
    return total


def broadcast(tensors: Any, root: int = 0, *, name: str = "broadcast") -> Any:
    """The ``tensors`` of node ``root`` (a rank), of any type but strings, on every node."""
    flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
    return tf.nest.pack_sequence_as(tensors, group().broadcast(flat, root, name) if flat else [])


def broadcast_variables(
    variables: Iterable[Any], root: int = 0, *, name: str = "broadcast"
) -> None:
    """Gives variables (TensorFlow's or Keras') the values that they have on node ``root``."""
    variables = list(variables)
    for variable, value in zip(
        variables,
        broadcast([tf.convert_to_tensor(v) for v in variables], root, name=name),
        strict=True,
    ):
        variable.assign(value)


def all_gather(tensors: Any, *, name: str = "all_gather") -> Any:
    """The rows of everybody's ``tensors`` (a tensor, or a structure of them), one node after the
    other. Nodes may have different numbers of rows."""
    flat = [tf.convert_to_tensor(tensor) for tensor in tf.nest.flatten(tensors)]
    if any(tensor.shape.rank == 0 for tensor in flat):
        raise BadInputError("all_gather takes tensors of rows, and this has a single value")
    return tf.nest.pack_sequence_as(tensors, [group().all_gather(tensor, name) for tensor in flat])


def barrier(name: str = "barrier") -> None:
    """Returns when every node has called it, in eager code or in a ``tf.function``."""
    group().barrier(name)
