"""Spark's SQL types as Arrow has them, and DataFrames as ``mapInArrow`` takes them."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql import types as sql


def as_arrow_source(frame: Any) -> tuple[Any, list[str]]:
    """``frame`` as ``mapInArrow`` can take it, and the names of its columns.

    That method looks its columns up by name, so names with dots and equal ones are replaced.
    """
    names = frame.columns
    distinct = {name.lower() for name in names}
    if len(distinct) == len(names) and not any(set(name) & set(".`") for name in names):
        return frame, names
    return frame.toDF(*(f"c{position}" for position in range(len(names)))), names


@cache
def single_types() -> dict[type[sql.DataType], Any]:
    """What Arrow has for each type of single values, but decimals, of which each is a type of its
    own."""
    import pyarrow as pa

    return {
        sql.BooleanType: pa.bool_(),
        sql.ByteType: pa.int8(),
        sql.ShortType: pa.int16(),
        sql.IntegerType: pa.int32(),
        sql.LongType: pa.int64(),
        sql.FloatType: pa.float32(),
        sql.DoubleType: pa.float64(),
        sql.StringType: pa.string(),
        sql.BinaryType: pa.binary(),
        sql.DateType: pa.date32(),
        sql.TimestampType: pa.timestamp("us", "UTC"),
        sql.TimestampNTZType: pa.timestamp("us"),
    }


def arrow_type(data_type: sql.DataType) -> Any:
    """The Arrow type that Spark reads as ``data_type``; None for those that batches of ours never
    have."""
    import pyarrow as pa

    if isinstance(data_type, sql.ArrayType):
        element = arrow_type(data_type.elementType)
        if element is None:
            return None
        return pa.list_(pa.field("element", element, nullable=data_type.containsNull))
    if isinstance(data_type, sql.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    return single_types().get(type(data_type))
