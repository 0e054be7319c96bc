"""TFRecord files as a ``tf.data.Dataset``: what is behind ``ctx.tfrecords``.

Errors: :class:`tfos.errors.BadInputError` for columns that can't be tensors. What goes wrong while
records are read is TensorFlow's ``InvalidArgumentError`` with file, record and offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfos import _native
from tfos.base.arrow import pa
from tfos.base.libraries import dataset_options, ops_library
from tfos.errors import BadInputError


class _Column(NamedTuple):
    """What a column's values are."""

    dtype: tf.DType
    #: The length of the lists: 0 for single values, None if it varies.
    width: int | None
    #: Each of these lists holds lists, of any length too.
    nested: bool = False

    def component_specs(self, size: int | None) -> list[tf.TensorSpec]:
        """The tensors that the op gives for it in batches of ``size`` rows."""
        if self.width is None:
            inner = [tf.TensorSpec([None], tf.int64)] if self.nested else []
            return [
                tf.TensorSpec([None], self.dtype),
                *inner,
                tf.TensorSpec([None if size is None else size + 1], tf.int64),
            ]
        return [tf.TensorSpec([size, self.width] if self.width else [size], self.dtype)]

    def assemble(self, components: Iterator[tf.Tensor]) -> tf.Tensor | tf.RaggedTensor:
        """What a program gets, of the next of these tensors."""
        values = next(components)
        for _ in range(0 if self.width is not None else 2 if self.nested else 1):
            values = tf.RaggedTensor.from_row_splits(values, next(components), validate=False)
        return values


def make(
    files: Sequence[tuple[str, str]],
    schema: pa.Schema,
    batch_size: int,
    record_type: str,
    mode: str,
    drop_remainder: bool,
) -> tf.data.Dataset:
    """The dataset that :func:`tfos.node.files.tfrecords` describes, of paths and compressions."""
    columns = {field.name: _column(field) for field in schema}
    # Where nulls can't be, the reader says which record has one.
    strict = pa.schema([field.with_nullable(pa.types.is_list(field.type)) for field in schema])
    ops = ops_library.load()
    handle = _native.register_record_dataset(
        list(files), strict, record_type, mode, batch_size, drop_remainder, ops.add
    )
    size = batch_size if drop_remainder else None
    specs = [spec for column in columns.values() for spec in column.component_specs(size)]

    def assemble(*components: tf.Tensor) -> dict[str, Any]:
        left = iter(components)
        return {name: column.assemble(left) for name, column in columns.items()}

    batches = tf.data.experimental.from_variant(_batches(ops, handle, specs), tuple(specs))
    return batches.map(assemble).with_options(dataset_options.make())


def _batches(ops: ops_library.Ops, handle: int, specs: list[tf.TensorSpec]) -> tf.Tensor:
    """The variant of a dataset whose iterators each open a pass, take its batches until it says
    that it is over, and close it, also when they are dropped before."""
    scalar = tf.TensorSpec([], tf.int64)
    wait = ops_library.awaiting(ops)

    @tf.function(input_signature=[scalar])
    def begin(source: tf.Tensor) -> tf.Tensor:
        opened = ops.open_pass(source=source)
        opened.set_shape([])
        return opened

    @tf.function(input_signature=[scalar])
    def batch(opened: tf.Tensor) -> list[tf.Tensor]:
        awaited = wait(opened, tf.ones_like(opened))
        components = ops.next_batch(source=awaited, component_types=[spec.dtype for spec in specs])
        for component, spec in zip(components, specs, strict=True):
            component.set_shape(spec.shape)
        return components

    @tf.function(input_signature=[scalar])
    def end(opened: tf.Tensor) -> tf.Tensor:
        return ops.close_pass(source=opened)

    return tf.raw_ops.GeneratorDataset(
        init_func_other_args=[tf.constant(handle, tf.int64)],
        next_func_other_args=[],
        finalize_func_other_args=[],
        init_func=begin.get_concrete_function(),
        next_func=batch.get_concrete_function(),
        finalize_func=end.get_concrete_function(),
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
    )


def _column(field: pa.Field) -> _Column:
    kind, nested = field.type, False
    width: int | None = 0
    if pa.types.is_fixed_size_list(kind):
        kind, width = kind.value_type, kind.list_size
    elif pa.types.is_list(kind):
        kind, width = kind.value_type, None
        if nested := pa.types.is_list(kind):
            kind = kind.value_type
    if pa.types.is_nested(kind):
        raise BadInputError(
            f"column {field.name} is {field.type}; there are tensors of single values, lists, "
            "fixed-size lists, and lists of lists"
        )
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    return _Column(tf.string if is_text else tf.as_dtype(kind.to_pandas_dtype()), width, nested)
