"""The feed as a ``tf.data.Dataset``: what is behind ``ctx.dataset``."""

from __future__ import annotations

import atexit
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.dataset_metadata_pb2 import Metadata

from tfos.base.libraries import dataset_options, ops_library
from tfos.errors import BadInputError
from tfos.feed import columns, keras_epochs
from tfos.feed.columns import Column


def make_dataset(source: Any, request: columns.Request, like: Any = None) -> tf.data.Dataset:
    """The dataset that ``NodeContext.dataset`` describes, of a native ``BatchSource``. ``like`` is
    the source whose first rows say what the columns hold, if not ``source`` itself."""
    selection = columns.select(source, request, _column_of_spec, like)
    keras_epochs.prepare()
    ops = ops_library.load()
    # TensorFlow ends after this and waits for its threads, one of which may be waiting for rows.
    atexit.register(source.close)
    handle = source.register(*selection.native, ops.add, ops.remove)
    batch = selection.rows if selection.all_full else None
    specs = [_component_specs(column, batch) for column in selection.columns]
    dataset = _batches(ops, handle, [s for parts in specs for s in parts])

    options = dataset_options.make()
    # Else it prefetches by itself, and a pass that is left early would lose rows that nobody has
    # seen. Programs can call prefetch().
    options.experimental_optimization.inject_prefetch = False
    if all(len(parts) == 1 for parts in specs):
        element = columns.pack(selection.structure, [part for (part,) in specs])
        return _marked(tf.data.experimental.from_variant(dataset, element).with_options(options))

    def assemble(*components: tf.Tensor) -> Any:
        left = iter(components)
        values = [
            tf.RaggedTensor.from_row_splits(next(left), next(left), validate=False)
            if column.is_ragged
            else next(left)
            for column in selection.columns
        ]
        return columns.pack(selection.structure, values)

    flat = tuple(part for parts in specs for part in parts)
    assembled = tf.data.experimental.from_variant(dataset, flat).map(assemble)
    return _marked(assembled.with_options(options))


def _marked(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Known to tfos.keras.position as one whose elements are the batches of the feed."""
    dataset.is_of_tfos_feed = True
    return dataset


def _component_specs(column: Column, batch: int | None) -> list[tf.TensorSpec]:
    """The tensors that the op gives for a column."""
    dtype = column.dtype or tf.string
    if column.is_ragged:
        splits = None if batch is None else batch + 1
        return [tf.TensorSpec([None], dtype), tf.TensorSpec([splits], tf.int64)]
    return [tf.TensorSpec([batch, *column.shape], dtype)]


def _batches(ops: ops_library.Ops, handle: int, specs: list[tf.TensorSpec]) -> tf.Tensor:
    """The variant of a dataset whose elements are what the op gives, until it says that the pass
    is over."""
    scalar = tf.TensorSpec([], tf.int64)

    wait = ops_library.awaiting(ops)

    @tf.function(input_signature=[scalar])
    def batch(index: tf.Tensor) -> list[tf.Tensor]:
        source = wait(tf.constant(handle, tf.int64), index)
        components = ops.next_batch(source=source, component_types=[spec.dtype for spec in specs])
        for component, spec in zip(components, specs, strict=True):
            component.set_shape(spec.shape)
        return components

    forever = tf.raw_ops.RangeDataset(
        start=0, stop=scalar.dtype.max, step=1, output_types=[scalar.dtype], output_shapes=[[]]
    )
    # A GeneratorDataset, too, would end when the function says so, but that would run on a pool of
    # threads: handing it over costs more than all it does, and idle threads spin.
    return tf.raw_ops.MapDataset(
        input_dataset=forever,
        other_arguments=[],
        f=batch.get_concrete_function(),
        output_types=[spec.dtype for spec in specs],
        output_shapes=[spec.shape for spec in specs],
        use_inter_op_parallelism=False,
        preserve_cardinality=False,
        # What TensorFlow's profiler calls it.
        metadata=Metadata(name=b"TfosFeed").SerializeToString(),
    )


def _column_of_spec(name: str, spec: Any, _ragged: bool) -> Column:
    if not isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec)):
        raise BadInputError(
            f"spec of column {name!r} is {spec!r}; it must be a tf.TensorSpec or a "
            "tf.RaggedTensorSpec of one row's value"
        )
    is_text = spec.dtype == tf.string
    encoding, dtype = (columns.STRINGS, "") if is_text else (columns.DENSE, spec.dtype.name)
    if isinstance(spec, tf.RaggedTensorSpec):
        return Column(name, encoding, dtype, []).as_ragged()
    if not spec.shape.is_fully_defined():
        raise BadInputError(
            f"spec of column {name!r} has the shape {spec.shape}: the shape of one row's value "
            f"must be known; if it varies, pass ragged=[{name!r}] or a tf.RaggedTensorSpec"
        )
    return Column(name, encoding, dtype, spec.shape.as_list())
