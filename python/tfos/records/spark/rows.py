"""Rows of Spark and serialized tf.Examples, for programs that map over them in Python.

``format("tfrecord")`` is many times as fast, see :mod:`tfos.records.spark.sessions`; this is for
what needs objects. Threads: any. Errors: :class:`tfos.errors.BadInputError`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as sql

from tfos.base.arrow import pa
from tfos.errors import BadInputError
from tfos.records import files as record_files
from tfos.records import listing
from tfos.records.spark import sessions, types
from tfos.spark import versions

#: Rows that are encoded at a time.
_ROWS = 1_024


def parse_dtypes(dtypes: Sequence[tuple[str, str]]) -> sql.StructType:
    """The schema that ``DataFrame.dtypes`` describes; checked to fit into tf.Examples."""
    schema = sql.StructType(
        [sql.StructField(name, versions.type_from_ddl(kind)) for name, kind in dtypes]
    )
    types.check_schema(schema, "Example", "written")
    return schema


def encode_rows(rows: Iterable[Any], schema: sql.StructType) -> Iterator[bytes]:
    """Each row, whose values are in the order of the schema, as a serialized tf.Example."""
    columns = [
        (field.name, _python_values(field.dataType), types.codec_type(field.dataType))
        for field in schema
    ]
    iterator = iter(rows)
    while held := list(itertools.islice(iterator, _ROWS)):
        batch = pa.record_batch(
            {
                name: pa.array([values(row[position]) for row in held], kind)
                for position, (name, values, kind) in enumerate(columns)
            }
        )
        yield from record_files.encode(batch).to_pylist()


def _python_values(data_type: sql.DataType) -> Callable[[Any], Any]:
    """What makes of a value of that type one that pyarrow takes for the codec's."""
    if isinstance(data_type, sql.ArrayType):
        element = _python_values(data_type.elementType)
        return lambda values: None if values is None else [element(value) for value in values]
    if isinstance(data_type, sql.DecimalType):
        return lambda value: None if value is None else float(value)
    return lambda value: value


def decode_rows(serialized: Iterable[bytes], binary: Sequence[str] = ()) -> list[Row]:
    """The rows of tf.Examples, all with the columns that :func:`schema_of` finds in them
    together."""
    held = list(serialized)
    if not held:
        return []
    schema = schema_of(held, binary)
    if not schema.fields:
        return [Row() for _ in held]
    batch = record_files.decode(held, types.codec_schema(schema, schema.names))
    row = Row(*schema.names)
    return [
        row(*values)
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]


def schema_of(serialized: Iterable[bytes], binary: Sequence[str] = ()) -> sql.StructType:
    """The columns of tf.Examples in order of their names, with the types of
    :func:`legacy_schema`."""
    sample = record_files.SchemaSample()
    for record in serialized:
        sample.add_record(record)
    return legacy_schema(sample.schema(), binary)


def legacy_schema(schema: pa.Schema, binary: Sequence[str]) -> sql.StructType:
    """An inferred schema as tensorflowonspark gives it: floats are double, bytes are strings.

    ``binary`` names the columns that stay binary.
    """
    return sql.StructType(
        [
            sql.StructField(field.name, _legacy_type(field.dataType, field.name in binary))
            for field in types.spark_schema(schema)
        ]
    )


def _legacy_type(data_type: sql.DataType, is_binary: bool) -> sql.DataType:
    if isinstance(data_type, sql.ArrayType):
        return sql.ArrayType(_legacy_type(data_type.elementType, is_binary))
    if isinstance(data_type, sql.FloatType):
        return sql.DoubleType()
    if isinstance(data_type, sql.BinaryType) and not is_binary:
        return sql.StringType()
    return data_type


def load(spark: Any, path: str, binary: Sequence[str] = ()) -> Any:
    """A DataFrame of the tf.Examples at a path, with the types of :func:`legacy_schema`."""
    files = sessions.list_files(spark, path)
    inferred = listing.infer_schema(
        files,
        record_type="Example",
        compression=None,
        sample=record_files.SAMPLE_RECORDS,
        strings=False,
    )
    if not inferred.names:
        raise BadInputError(f"{path}: no record in it has a value, so it has no columns")
    return sessions.load(spark, path, legacy_schema(inferred, binary))
