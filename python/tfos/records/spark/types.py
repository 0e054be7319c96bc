"""Spark SQL types and the columns of tf.Examples: what maps to what, and batches from one to the
other.

| Spark | Feature | how |
|---|---|---|
| boolean, byte, short, int, long | int64_list | |
| float, double, decimal | float_list | doubles and decimals are rounded to float32 |
| string, binary | bytes_list | |
| array of one of these | its values | |
| array of arrays of one of these | feature list | in a SequenceExample only |
| ML vector | float_list | written dense; read as array |

Anything else (date, timestamp, map, struct, ...) is refused by name before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import types as sql

from tfos import _native
from tfos.base.arrow import pa
from tfos.errors import BadInputError
from tfos.spark.arrow_types import arrow_type, single_types

#: The only column of record type ByteArray, as Spark's TFRecord connectors call it.
BYTE_ARRAY_COLUMN = "byteArray"

#: A float of a record, of 32 bits, times ten to this power is exact as a float of 64 bits.
_EXACT_SCALE = 12


def record_type_of(name: str) -> str:
    """The record type that an option names, whatever its case."""
    return _native.record_type_named(name)


def check_schema(schema: sql.StructType, record_type: str, action: str) -> None:
    """Raises :class:`BadInputError` naming each column that records can't hold, and what to do.

    ``action`` is "written" or "read", for the message.
    """
    _native.check_record_columns(schema.json(), record_type, action == "written")


def check_partition_columns(schema: sql.StructType, names: Sequence[str]) -> None:
    """Raises :class:`BadInputError` for columns whose values can't be names of directories."""
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise BadInputError(
            f"partition_by has {', '.join(missing)}; the columns are {', '.join(schema.names)}"
        )
    fitting = (sql.StringType, sql.IntegralType, sql.BooleanType, sql.DateType)
    for name in names:
        if name.startswith(("_", ".")):
            raise BadInputError(
                f"partition_by has {name}: Hadoop's readers pass over directories that begin "
                "with _ or a dot; give the column another name"
            )
        if not isinstance(schema[name].dataType, fitting):
            raise BadInputError(
                f"partition_by has {name}, which is "
                f"{schema[name].dataType.simpleString()}; directories "
                "are named after strings, integers, booleans and dates: cast it to one of them"
            )


def _element(data_type: sql.DataType) -> tuple[sql.DataType, int]:
    depth = 0
    while isinstance(data_type, sql.ArrayType):
        data_type = data_type.elementType
        depth += 1
    return data_type, depth


def _is_vector(data_type: sql.DataType) -> bool:
    return isinstance(data_type, sql.UserDefinedType) and type(data_type).__name__ == "VectorUDT"


def codec_type(data_type: sql.DataType) -> pa.DataType:
    """As what the native codec reads a column of that type, which :func:`check_schema` passed."""
    if isinstance(data_type, sql.ArrayType):
        return pa.list_(codec_type(data_type.elementType))
    if isinstance(data_type, sql.DecimalType):
        return pa.float64()
    if isinstance(data_type, sql.StringType):
        return pa.string()
    return single_types()[type(data_type)]


def codec_schema(schema: sql.StructType, columns: list[str]) -> pa.Schema:
    """The schema for the native reader: those columns."""
    return pa.schema(
        [
            pa.field(name, codec_type(schema[name].dataType), schema[name].nullable)
            for name in columns
        ]
    )


def spark_schema(schema: pa.Schema) -> sql.StructType:
    """The inferred schema in Spark: every column may be null, as later records may lack it."""
    return sql.StructType(
        [sql.StructField(field.name, _spark_type(field.type)) for field in schema]
    )


def _spark_type(arrow: pa.DataType) -> sql.DataType:
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return sql.ArrayType(_spark_type(arrow.value_type))
    return next(spark() for spark, one in single_types().items() if one == arrow)


def directory_scalar(name: str, value: str | None, data_type: sql.DataType) -> pa.Scalar:
    """The value of a directory ``name=value`` as a column of that type has it."""
    try:
        return pa.scalar(value, pa.string()).cast(arrow_type(data_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        raise BadInputError(
            f"the directory {name}={value} has no value for column {name}, which is "
            f"{data_type.simpleString()}: {error}"
        ) from error


def to_spark(
    schema: sql.StructType,
) -> Callable[[pa.RecordBatch, dict[str, pa.Scalar]], pa.RecordBatch]:
    """A function that makes what Spark takes of a batch of the codec and constant columns."""
    arrow = pa.schema(
        [pa.field(field.name, arrow_type(field.dataType), field.nullable) for field in schema]
    )

    def convert(batch: pa.RecordBatch, constants: dict[str, pa.Scalar]) -> pa.RecordBatch:
        columns = []
        for field in arrow:
            constant = constants.get(field.name)
            column = (
                batch.column(field.name)
                if constant is None
                else pa.repeat(constant, batch.num_rows)
            )
            if column.type != field.type:
                column = _rounded(column, field.type).cast(field.type)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    return convert


def _rounded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Floats, in lists perhaps, that are to be decimals: rounded as Spark does it, and the jar. A
    tie goes away from zero, and Arrow's cast would take the even neighbour."""
    if pa.types.is_list(kind):
        values = column.values
        rounded = _rounded(values, kind.value_type)
        if rounded is values:
            return column
        return pa.ListArray.from_buffers(
            pa.list_(rounded.type),
            len(column),
            column.buffers()[:2],  # Which are null, and where lists begin.
            offset=column.offset,
            children=[rounded],
        )
    if not pa.types.is_decimal(kind) or kind.scale > _EXACT_SCALE:
        return column
    import pyarrow.compute  # Slow to import, and Spark starts a process for each query.

    return pyarrow.compute.round(column, kind.scale, "half_towards_infinity")


def from_spark(batch: pa.RecordBatch, schema: sql.StructType) -> pa.RecordBatch:
    """What the native writer takes of a batch that Spark hands over."""
    columns = [
        _for_codec(column, field.dataType)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _for_codec(column: pa.Array, data_type: sql.DataType) -> pa.Array:
    if _is_vector(data_type):
        return _dense(column)
    element, depth = _element(data_type)
    if not isinstance(element, sql.DecimalType):
        return column
    kind = pa.float64()
    for _ in range(depth):
        kind = pa.list_(kind)
    return column.cast(kind)


def _dense(vectors: pa.StructArray) -> pa.Array:
    """Spark's vectors, structs of type (0 sparse, 1 dense), size, indices, values, as lists."""
    import pyarrow.compute  # Slow to import, and Spark starts a process for each query.

    values = pyarrow.compute.struct_field(vectors, "values")
    kinds = pyarrow.compute.struct_field(vectors, "type")
    if not pyarrow.compute.any(pyarrow.compute.equal(kinds, 0)).as_py():
        return values.cast(pa.list_(pa.float32()))
    return pa.array([_dense_row(vector) for vector in vectors.to_pylist()], pa.list_(pa.float32()))


def _dense_row(vector: dict[str, Any] | None) -> list[float] | None:
    if vector is None:
        return None
    if vector["type"] == 1:
        return vector["values"]
    size, indices, values = vector["size"], vector["indices"], vector["values"]
    fits = size >= 0 and len(indices) == len(values)
    if not fits or not all(0 <= position < size for position in indices):
        raise BadInputError(
            f"a sparse vector of size {size} has {len(indices)} indices, and {len(values)} values: "
            "it needs a value for each index, and indices from 0 to its size less 1"
        )
    row = [0.0] * size
    for position, value in zip(indices, values, strict=True):
        row[position] = value
    return row
