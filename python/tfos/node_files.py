"""Files that nodes read themselves: which node gets which, and TFRecords as ``tf.data``.

Nodes do not talk about it: each sees the same files, and computes the same shares.
Errors: :class:`tfos.errors.BadInputError`; :class:`OSError` naming the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Sequence

import pyarrow as pa

from tfos import record_listing, records
from tfos.errors import BadInputError
from tfos.file_access import access_for

if TYPE_CHECKING:
    import tensorflow as tf

#: The jobs whose nodes train, and so share the files.
TRAINING_JOBS = ("chief", "master", "worker")

#: How many rows the reader decodes at a time, at least; batches are cut from these.
_READ_ROWS = 8_192


def share(patterns: Sequence[str], nodes: Sequence[dict[str, Any]], node_id: int) -> list[str]:
    """The files that this node is to read, in order of their names; none for a node that does not
    train (ps, evaluator).

    Args:
        patterns: as :func:`tfos.record_listing.list_files` takes them.
        nodes: every node of the cluster, as ``ctx.nodes``.
    """
    training = sorted(node["node_id"] for node in nodes if node["job_name"] in TRAINING_JOBS)
    files = record_listing.list_files(patterns)
    if not files:
        raise BadInputError(f"{', '.join(patterns)}: there is no file in it")
    if node_id not in training:
        return []
    sizes = [(file.path, file.size) for file in files]
    return record_listing.share_of(sizes, training.index(node_id), len(training))


def tfrecords(files: Sequence[str], schema: pa.Schema, batch_size: int, *, record_type: str = "Example",
              compression: str | None = None, mode: str = "failfast",
              drop_remainder: bool = False) -> "tf.data.Dataset":
    """The tf.Examples of files as a dataset of whole batches, a dict of tensors by column.

    Records are parsed by the native codec; Python runs once a batch. A fixed-size list is a matrix,
    a list of any length a ``tf.RaggedTensor``, bytes and strings are ``tf.string``.

    Args:
        schema: a ``pyarrow.Schema`` of single values, lists and fixed-size lists. A value that is
            missing in a record is an error, as a tensor has no null; a missing list is empty.
        compression: "none", "gzip", "zlib"; None takes it from the files' names.
        mode: what becomes of bad records, "failfast" or "dropmalformed".
        drop_remainder: leave out the last batch if it is not full.
    """
    import tensorflow as tf

    if batch_size < 1:
        raise BadInputError(f"batch_size={batch_size} is no positive number")
    if mode == "permissive":
        raise BadInputError("mode 'permissive' makes nulls, which tensors do not have; there are "
                            "failfast and dropmalformed")
    columns = {field.name: _column(field) for field in schema}
    # Where nulls can't be, the reader says which record has one.
    strict = pa.schema([field.with_nullable(pa.types.is_list(field.type)) for field in schema])
    size = batch_size if drop_remainder else None

    def batches() -> Iterator[dict[str, Any]]:
        for batch in _rebatched(_read(files, strict, record_type, compression, mode, batch_size),
                                batch_size, drop_remainder):
            yield {name: _tensor(batch.column(name)) for name in columns}

    spec = {name: _spec(kind, width, size) for name, (kind, width) in columns.items()}
    options = tf.data.Options()
    # These are this node's files already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.from_generator(batches, output_signature=spec).with_options(options)


def _column(field: pa.Field) -> tuple[Any, int | None]:
    """A column's tensor type, and the length of its lists: 0 for single values, None if it varies."""
    import tensorflow as tf

    kind, width = field.type, 0
    if pa.types.is_fixed_size_list(kind):
        kind, width = kind.value_type, kind.list_size
    elif pa.types.is_list(kind):
        kind, width = kind.value_type, None
    if pa.types.is_nested(kind):
        raise BadInputError(f"column {field.name} is {field.type}; lists of lists can't be tensors yet")
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return tf.string, width
    return tf.as_dtype(kind.to_pandas_dtype()), width


def _spec(kind: Any, width: int | None, size: int | None) -> Any:
    import tensorflow as tf

    if width is None:
        return tf.RaggedTensorSpec([size, None], kind, 1, tf.int64)
    return tf.TensorSpec([size] if width == 0 else [size, width], kind)


def _tensor(column: pa.Array) -> Any:
    import tensorflow as tf

    if pa.types.is_list(column.type):
        lengths = column.value_lengths().fill_null(0).cast(pa.int64()).to_numpy()
        return tf.RaggedTensor.from_row_lengths(_values(column.flatten()), lengths, validate=False)
    if pa.types.is_fixed_size_list(column.type):
        return _values(column.flatten()).reshape(-1, column.type.list_size)
    return _values(column)


def _values(column: pa.Array) -> Any:
    import numpy as np

    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    if pa.types.is_binary(column.type):
        return np.array(column.to_pylist(), object)
    return column.to_numpy(zero_copy_only=False)


def _read(files: Sequence[str], schema: pa.Schema, record_type: str, compression: str | None, mode: str,
          batch_size: int) -> Iterator[pa.RecordBatch]:
    for file in files:
        access, path = access_for(file)
        yield from records.read(
            access.native_path(path), schema, record_type=record_type, mode=mode,
            compression=record_listing.compression_of(path, compression),
            batch_rows=max(batch_size, _READ_ROWS // batch_size * batch_size))


def _rebatched(batches: Iterator[pa.RecordBatch], size: int, drop_remainder: bool) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly ``size``, but for the last one."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        begin = 0
        while rows + batch.num_rows - begin >= size:
            taken = batch.slice(begin, size - rows)
            begin += taken.num_rows
            yield pa.concat_batches([*held, taken]) if held else taken
            held, rows = [], 0
        if begin < batch.num_rows:
            held.append(batch.slice(begin))
            rows += batch.num_rows - begin
    if held and not drop_remainder:
        yield pa.concat_batches(held)
