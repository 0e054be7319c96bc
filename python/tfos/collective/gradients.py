"""How TensorFlow differentiates the operations between nodes: losses may be of values that other
nodes have given, as contrastive ones over the rows of all nodes are.

A node's value counts in the losses of all nodes, so its gradient is of the sum of their losses. The
nodes exchange it: all of them differentiate the same operations, in the same order. Fewer nodes may
be left by then, so what those of the operation were comes from the operation itself.

Errors: those of :mod:`tfos.collective`. Threads: the one that differentiates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfos.collective.members import Group


@functools.cache
def register(group: Callable[[], Group]) -> None:
    """Tells TensorFlow; once, as that is how TensorFlow wants it."""
    tf.RegisterGradient("TfosAllReduce")(functools.partial(_of_all_reduce, group))
    tf.RegisterGradient("TfosAllGather")(functools.partial(_of_all_gather, group))
    tf.RegisterGradient("TfosBroadcast")(functools.partial(_of_broadcast, group))


def _of_all_reduce(group: Callable[[], Group], op: Any, *upstream: Any) -> list[Any]:
    _, weight, *tensors = op.inputs
    wire = tf.as_dtype(op.get_attr("wire")) if op.get_attr("wire") else None
    summed = _summed(group, op, upstream[:-1], tensors, wire)
    if op.get_attr("average"):
        share = tf.math.divide_no_nan(weight, op.outputs[-1])
        summed = [each * tf.cast(share, each.dtype) for each in summed]
    return [None, None, *summed]


def _of_all_gather(group: Callable[[], Group], op: Any, upstream: Any, _: Any) -> list[Any]:
    tensor, first = op.inputs[1], op.outputs[1]
    (summed,) = _summed(group, op, [upstream], op.outputs[:1])
    rows = tf.shape(tensor, tf.int64)[0]
    return [None, tf.ensure_shape(summed[first : first + rows], tensor.shape)]


def _of_broadcast(group: Callable[[], Group], op: Any, *upstream: Any) -> list[Any]:
    _, *tensors = op.inputs
    summed = _summed(group, op, upstream, tensors)
    if op.get_attr("root") != group().rank:  # What this node gave has gone nowhere.
        summed = [tf.zeros_like(each) for each in summed]
    return [None, *summed]


def _summed(
    group: Callable[[], Group], op: Any, upstream: Any, like: Any, wire: tf.DType | None = None
) -> list[tf.Tensor]:
    """The sums over all nodes. None where nothing of a node's loss comes from a value."""
    known = [
        tf.zeros_like(value) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, value in zip(upstream, like, strict=True)
    ]
    for gradient, value in zip(known, like, strict=True):
        gradient.set_shape(value.shape)  # Which TensorFlow may not know.
    tag = op.get_attr("tag")
    name = f"gradients of {tag.decode() if isinstance(tag, bytes) else tag}"
    return group().all_reduce(known, None, name, wire)
