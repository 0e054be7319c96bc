"""The ops of src/tensorflow, in the TensorFlow of this process.

Errors: :class:`tfos.errors.TfosError` when TensorFlow does not take them.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfos.errors import TfosError


class Ops(NamedTuple):
    """What batch_ops.cc and collective_ops.cc describe."""

    await_batch: Any
    next_batch: Any
    open_pass: Any
    close_pass: Any
    all_reduce: Any
    broadcast: Any
    all_gather: Any
    #: Addresses of the library's functions that add and remove batch sources.
    add: int
    remove: int
    #: And groups of nodes.
    add_group: int
    remove_group: int


@functools.cache
def load() -> Ops:
    """Loads the ops library into TensorFlow; once, as that is how TensorFlow wants it."""
    path = str(pathlib.Path(__file__).parents[2] / "_tensorflow_ops.so")
    ops = tf.load_op_library(path)
    library = ctypes.CDLL(path)
    library.tfos_ops_error.restype = ctypes.c_char_p
    error = library.tfos_ops_error()
    if error is not None:
        raise TfosError(
            f"TensorFlow {tf.__version__} did not take the ops of tfos: {error.decode()}"
        )

    def address(function: Any) -> int:
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    return Ops(
        ops.tfos_await_batch,
        ops.tfos_next_batch,
        ops.tfos_open_pass,
        ops.tfos_close_pass,
        ops.tfos_all_reduce,
        ops.tfos_broadcast,
        ops.tfos_all_gather,
        address(library.tfos_register_batch_source),
        address(library.tfos_unregister_batch_source),
        address(library.tfos_register_tensor_group),
        address(library.tfos_unregister_tensor_group),
    )


def awaiting(ops: Ops) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function for a dataset's graph, of a source and the index of its batch (0 begins a pass),
    that gives the source once ``next_batch`` does not wait for it any more.

    Its loop, unlike tf.while_loop's, calls functions, and TensorFlow looks before each call whether
    the iterator has been dropped. Without it, dropping one that prefetches would wait for the
    source.
    """
    scalar = tf.TensorSpec([], tf.int64)

    @tf.function(input_signature=[scalar, scalar])
    def waiting(source: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        result = ops.await_batch(source=source, index=index)
        result.set_shape([])
        return result

    @tf.function(input_signature=[scalar, scalar])
    def later(source: tf.Tensor, index: tf.Tensor) -> list[tf.Tensor]:
        return [source, tf.ones_like(index)]  # not 0: the pass has begun

    functions = [function.get_concrete_function() for function in (waiting, later)]

    def wait(source: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        for function in functions:
            function.add_to_graph(tf.compat.v1.get_default_graph())
        cond, body = functions
        awaited, _ = tf.raw_ops.While(
            input=[source, index], cond=cond, body=body, output_shapes=[[], []]
        )
        return awaited

    return wait
