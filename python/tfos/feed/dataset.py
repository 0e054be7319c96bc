"""The feed as a ``tf.data.Dataset``: what is behind ``ctx.dataset``."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfos.base import ops_library
from tfos.base.quantities import whole_number
from tfos.errors import BadInputError
from tfos.feed import keras_epochs

_DENSE, _RAGGED, _STRINGS, _RAGGED_STRINGS = "dense", "ragged", "strings", "ragged strings"
#: How a column comes that is declared ragged.
_AS_RAGGED = {
    _DENSE: _RAGGED,
    _RAGGED: _RAGGED,
    _STRINGS: _RAGGED_STRINGS,
    _RAGGED_STRINGS: _RAGGED_STRINGS,
}
#: Stands for the mask of padded batches where an element's structure has names of columns.
_MASK = "tfos mask"


class Column(NamedTuple):
    """A column of the feed, as the native side describes it."""

    name: str
    encoding: str
    #: NumPy's name; empty for strings.
    dtype: str
    #: Of one value; empty for ragged columns.
    shape: Sequence[int]

    @property
    def is_ragged(self) -> bool:
        return self.encoding == _AS_RAGGED[self.encoding]

    def as_ragged(self) -> Column:
        return self._replace(encoding=_AS_RAGGED[self.encoding], shape=[])

    def component_specs(self, batch: int | None) -> list[tf.TensorSpec]:
        """The tensors that the op gives for this column."""
        dtype = self.dtype or tf.string
        if self.is_ragged:
            splits = None if batch is None else batch + 1
            return [tf.TensorSpec([None], dtype), tf.TensorSpec([splits], tf.int64)]
        return [tf.TensorSpec([batch, *self.shape], dtype)]


def make_dataset(
    source: Any,
    batch_size: int,
    *,
    features: Any,
    label: Any,
    drop_remainder: bool,
    remainder: str | None,
    ragged: Any,
    spec: Any,
    like: Any = None,
) -> tf.data.Dataset:
    """The dataset that ``NodeContext.dataset`` describes, of a native ``BatchSource``. ``like`` is
    the source whose first rows say what the columns hold, if not ``source`` itself."""
    batch_size = whole_number("batch_size", batch_size)
    if batch_size < 1:
        raise BadInputError(f"batch_size is {batch_size}; a batch has at least one row")
    all_full = remainder in ("drop", "pad")
    if drop_remainder and all_full:
        raise BadInputError(
            f"drop_remainder does not go with remainder={remainder!r}, with which every batch is "
            f"full"
        )
    columns = _declare_ragged(
        _columns_of(like or source, spec, known=like is not None), _names(ragged)
    )
    structure = _structure(list(columns), features, label)
    chosen = [columns[name] for name in tf.nest.flatten(structure)]
    keras_epochs.prepare()
    ops = ops_library.load()
    # TensorFlow ends after this and waits for its threads, one of which may be waiting for rows.
    atexit.register(source.close)
    handle = source.register(
        [tuple(column) for column in chosen],
        batch_size,
        drop_remainder,
        remainder or "none",
        ops.add,
        ops.remove,
    )
    batch = batch_size if drop_remainder or all_full else None
    if remainder == "pad":  # the mask, as the native side adds it
        structure = (*structure, _MASK) if label is not None else (structure, _MASK)
        chosen.append(Column(_MASK, _DENSE, "float32", []))
    specs = [column.component_specs(batch) for column in chosen]
    dataset = _batches(ops, handle, [s for parts in specs for s in parts])

    # The same rows for every worker and replica to choose from: there are no files to shard.
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # Else it prefetches by itself, and a pass that is left early would lose rows that nobody has
    # seen. Programs can call prefetch().
    options.experimental_optimization.inject_prefetch = False
    if all(len(parts) == 1 for parts in specs):
        element = tf.nest.pack_sequence_as(structure, [part for (part,) in specs])
        return tf.data.experimental.from_variant(dataset, element).with_options(options)

    def assemble(*components: tf.Tensor) -> Any:
        left = iter(components)
        values = [
            tf.RaggedTensor.from_row_splits(next(left), next(left), validate=False)
            if column.is_ragged
            else next(left)
            for column in chosen
        ]
        return tf.nest.pack_sequence_as(structure, values)

    flat = tuple(part for parts in specs for part in parts)
    return tf.data.experimental.from_variant(dataset, flat).map(assemble).with_options(options)


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
    )


def _columns_of(source: Any, spec: Any, known: bool) -> dict[str, Column]:
    """The columns by name: as ``spec`` has them, else as the next rows do; with ``known`` those of
    the last rows will do, so that nothing is waited for that comes later than what is read now."""
    if spec is not None:
        columns = [_column_of_spec(name, given) for name, given in _named_specs(spec).items()]
    else:
        peeked = source.peek(known)
        if peeked is None:
            raise BadInputError(
                "the feed ended before this node got a row, so nothing says what a dataset of it "
                "would hold: pass spec= to ctx.dataset, and it will be empty"
            )
        columns = [Column(*column) for column in peeked]
    return {column.name: column for column in columns}


def _named_specs(spec: Any) -> dict[str, Any]:
    if isinstance(spec, dict):
        return {str(name): given for name, given in spec.items()}
    by_position = spec if isinstance(spec, (list, tuple)) else [spec]
    return {str(position): given for position, given in enumerate(by_position)}


def _column_of_spec(name: str, spec: Any) -> Column:
    if not isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec)):
        raise BadInputError(
            f"spec of column {name!r} is {spec!r}; it must be a tf.TensorSpec or a "
            "tf.RaggedTensorSpec of one row's value"
        )
    encoding, dtype = (_STRINGS, "") if spec.dtype == tf.string else (_DENSE, spec.dtype.name)
    if isinstance(spec, tf.RaggedTensorSpec):
        return Column(name, encoding, dtype, []).as_ragged()
    if not spec.shape.is_fully_defined():
        raise BadInputError(
            f"spec of column {name!r} has the shape {spec.shape}: the shape of one row's value "
            f"must be known; if it varies, pass ragged=[{name!r}] or a tf.RaggedTensorSpec"
        )
    return Column(name, encoding, dtype, spec.shape.as_list())


def _declare_ragged(columns: dict[str, Column], ragged: list[str]) -> dict[str, Column]:
    declared = dict(columns)
    for name in ragged:
        _check_known(name, list(columns))
        column = columns[name]
        if not column.is_ragged and len(column.shape) != 1:
            values = (
                "single strings"
                if not column.dtype and not column.shape
                else (f"of the shape {column.shape}")
            )
            raise BadInputError(
                f"column {name!r} cannot be ragged: its values are {values}, and only "
                "one-dimensional ones may vary in length"
            )
        declared[name] = column.as_ragged()
    return declared


def _structure(names: list[str], features: Any, label: Any) -> Any:
    """An element of the dataset, with names of columns in place of tensors."""
    if features is None and label is None:
        return names[0] if len(names) == 1 else tuple(names) if len(names) == 2 else _dict(names)
    labels = [] if label is None else _names(label)
    chosen = _names(features) if features is not None else [n for n in names if n not in labels]
    if not chosen:
        raise BadInputError(f"no features are left besides the label {label!r}")
    for name in chosen + labels:
        _check_known(name, names)
    return _one_or_dict(chosen) if label is None else (_one_or_dict(chosen), _one_or_dict(labels))


def _one_or_dict(names: list[str]) -> Any:
    return names[0] if len(names) == 1 else _dict(names)


def _dict(names: list[str]) -> dict[str, str]:
    return {name: name for name in names}


def _names(given: Any) -> list[str]:
    """Names of columns, of one or several names or positions."""
    return [str(name) for name in ([given] if isinstance(given, (str, int)) else given)]


def _check_known(name: str, names: list[str]) -> None:
    if name not in names:
        raise BadInputError(f"the rows have no column {name!r}; they have {', '.join(names)}")
