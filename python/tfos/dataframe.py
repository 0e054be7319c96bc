"""DataFrames as input: which SQL types travel as columns, and what to do about the others."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as sql

from tfos.errors import BadInputError

DECIMALS = (None, "float64")

_NUMBERS = (
    sql.BooleanType, sql.ByteType, sql.ShortType, sql.IntegerType, sql.LongType, sql.FloatType,
    sql.DoubleType, sql.DateType, sql.TimestampType, sql.TimestampNTZType,
)


def check_schema(schema: sql.StructType, decimals: str | None) -> None:
    """Raises :class:`BadInputError` naming every column that can't be fed, and what to do.

    ``decimals`` says what becomes of decimals: None (refuse them) or ``"float64"``.
    """
    if decimals not in DECIMALS:
        raise BadInputError(f"decimals={decimals!r} is neither None nor 'float64'")
    if not schema.fields:
        raise BadInputError("the DataFrame has no columns, so there is nothing to feed")
    refused = [
        f"column {field.name} is {field.dataType.simpleString()}: {advice}"
        for field in schema if (advice := _advice(field.dataType, decimals))
    ]
    if refused:
        raise BadInputError(
            "this DataFrame can't be fed: " + "; ".join(refused)
            + ". Or feed its rdd, whose rows may hold any object."
        )


def _advice(data_type: sql.DataType, decimals: str | None) -> str | None:
    """What to do about a column of this type; None when it can be fed."""
    if isinstance(data_type, (sql.StringType, sql.BinaryType)):
        return None
    if isinstance(data_type, sql.UserDefinedType):
        is_vector = type(data_type).__name__ == "VectorUDT"
        return None if is_vector else "convert it to an array of numbers"
    if isinstance(data_type, sql.MapType):
        return "make columns of its values, as in m['key'] AS key"
    if isinstance(data_type, sql.StructType):
        return "select its fields as columns, as in s.*"
    element = data_type
    while isinstance(element, sql.ArrayType):
        element = element.elementType
    if isinstance(element, sql.DecimalType):
        return None if decimals else 'cast it or pass decimals="float64"'
    if isinstance(element, _NUMBERS):
        return None
    if element is not data_type:
        return "only arrays of numbers can be fed; explode or encode it"
    return "cast it to a number, a string or binary"


def as_arrow_source(frame: Any) -> tuple[Any, list[str]]:
    """``frame`` as ``mapInArrow`` can take it, and the names of its columns.

    That method looks its columns up by name, so names with dots and equal ones are replaced.
    """
    names = frame.columns
    distinct = {name.lower() for name in names}
    if len(distinct) == len(names) and not any(set(name) & set(".`") for name in names):
        return frame, names
    return frame.toDF(*(f"c{position}" for position in range(len(names)))), names
