"""DataFrames: which SQL types travel as columns to nodes and back, and what to do about others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as sql

from tfos.errors import BadInputError
from tfos.spark import versions
from tfos.spark.arrow_types import arrow_type, as_arrow_source
from tfos.spark.sessions import case_matters

if TYPE_CHECKING:
    from tfos.feed.results import ResultField

DECIMALS = (None, "float64")

_NUMBERS = (
    sql.BooleanType,
    sql.ByteType,
    sql.ShortType,
    sql.IntegerType,
    sql.LongType,
    sql.FloatType,
    sql.DoubleType,
    sql.DateType,
    sql.TimestampType,
    sql.TimestampNTZType,
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
        for field in schema
        if (advice := _advice(field.dataType, decimals))
    ]
    if refused:
        raise BadInputError(
            "this DataFrame can't be fed: "
            + "; ".join(refused)
            + ". Or, without Spark Connect, feed its rdd, whose rows may hold any object."
        )


def _advice(data_type: sql.DataType, decimals: str | None) -> str | None:
    """What to do about a column of this type; None when it can be fed."""
    if isinstance(data_type, sql.UserDefinedType):
        is_vector = type(data_type).__name__ == "VectorUDT"
        return None if is_vector else "convert it to an array of numbers or strings"
    if isinstance(data_type, sql.MapType):
        return "make columns of its values, as in m['key'] AS key"
    if isinstance(data_type, sql.StructType):
        return "select its fields as columns, as in s.*"
    element = data_type
    while isinstance(element, sql.ArrayType):
        element = element.elementType
    if isinstance(element, sql.DecimalType):
        return None if decimals else 'cast it or pass decimals="float64"'
    if isinstance(element, (*_NUMBERS, sql.StringType, sql.BinaryType)):
        return None
    if element is not data_type:
        return "only arrays of numbers, strings and binary can be fed; explode or encode it"
    return "cast it to a number, a string or binary"


class Inference(NamedTuple):
    """What ``Cluster.inference`` is to do with a DataFrame."""

    #: As ``mapInArrow`` takes it.
    source: Any
    #: The names of its columns, as the rows have them.
    names: list[str]
    #: Positions of the columns that are kept, and of those that are fed.
    keys: list[int]
    fed: list[int]
    fields: list[ResultField]
    #: The schema of what comes out.
    schema: sql.StructType


def plan_inference(frame: Any, schema: Any, keys: Sequence[str], decimals: str | None) -> Inference:
    """Raises :class:`BadInputError` for all that can be known to fail before anything runs.

    ``schema`` declares the results, ``keys`` names columns of ``frame`` to carry through.
    """
    if schema is None:
        raise BadInputError(
            "inference of a DataFrame needs to know what the results hold: pass schema=, as in "
            'schema="score float", or feed its rdd, which gives an RDD of the results'
        )
    declared = _parse_schema(schema)
    names = frame.columns
    key_positions = [_position(names, key) for key in ([keys] if isinstance(keys, str) else keys)]
    fed = [position for position in range(len(names)) if position not in key_positions]
    if not fed:
        raise BadInputError(
            f"all columns ({', '.join(names)}) are keys, so there is nothing to feed"
            if names
            else "the DataFrame has no columns, so there is nothing to feed"
        )
    key_fields = [frame.schema.fields[position] for position in key_positions]
    result_fields = _result_fields(declared)
    combined = sql.StructType(key_fields + declared.fields)
    _check_distinct(combined.names, frame.sparkSession)
    _check_keys(key_fields)
    check_schema(sql.StructType([frame.schema.fields[position] for position in fed]), decimals)
    source, _ = as_arrow_source(frame)
    return Inference(source, names, key_positions, fed, result_fields, combined)


def _parse_schema(schema: Any) -> sql.StructType:
    if isinstance(schema, str):
        from pyspark.errors import PySparkException

        try:
            schema = versions.type_from_ddl(schema)
        except PySparkException as error:
            raise BadInputError(f"schema={schema!r} is not a schema: {error}") from error
    if not isinstance(schema, sql.StructType):
        shown = schema.simpleString() if isinstance(schema, sql.DataType) else repr(schema)
        raise BadInputError(
            f"schema={shown} names no columns; it must be a StructType or as in "
            '"label int, score float"'
        )
    if not schema.fields:
        raise BadInputError("schema has no columns; a result has at least one")
    return schema


def _position(names: list[str], key: str) -> int:
    found = [position for position, name in enumerate(names) if name == key]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInputError(
            f"the DataFrame has {len(found)} columns {key!r}: rename the one that is a key"
        )
    raise BadInputError(f"keys names {key!r}, and the DataFrame has the columns {', '.join(names)}")


def _check_distinct(names: list[str], spark: Any) -> None:
    compared = names if case_matters(spark) else [name.lower() for name in names]
    twice = sorted(
        {name for name, same in zip(names, compared, strict=True) if compared.count(same) > 1}
    )
    if twice:
        raise BadInputError(
            f"column {', '.join(twice)} would appear twice: key columns and results need names "
            "of their own"
        )


#: That Spark does not hand over to Python through Arrow.
_NOT_IN_ARROW = versions.types_named("CalendarIntervalType", "YearMonthIntervalType")


def _check_keys(fields: list[sql.StructField]) -> None:
    for field in fields:
        if any(isinstance(part, _NOT_IN_ARROW) for part in _parts(field.dataType)):
            raise BadInputError(
                f"key column {field.name} is {field.dataType.simpleString()}, which Spark cannot "
                "hand over to Python as columns; cast it, to a string for one"
            )


def _parts(data_type: sql.DataType) -> list[sql.DataType]:
    """The type and all types inside it."""
    if isinstance(data_type, sql.UserDefinedType):
        inside = [data_type.sqlType()]
    elif isinstance(data_type, sql.ArrayType):
        inside = [data_type.elementType]
    elif isinstance(data_type, sql.MapType):
        inside = [data_type.keyType, data_type.valueType]
    else:
        inside = [field.dataType for field in getattr(data_type, "fields", [])]
    return [data_type, *(part for one in inside for part in _parts(one))]


def _result_fields(schema: sql.StructType) -> list[ResultField]:
    from tfos.feed.results import ResultField

    fields, refused = [], []
    for field in schema:
        arrow = arrow_type(field.dataType)
        if arrow is None:
            refused.append(
                f"column {field.name} is {field.dataType.simpleString()}: "
                f"{_result_advice(field.dataType)}"
            )
        fields.append(ResultField(field.name, arrow, field.nullable, field.dataType.simpleString()))
    if refused:
        raise BadInputError("results can't have this schema: " + "; ".join(refused))
    return fields


def _result_advice(data_type: sql.DataType) -> str:
    if type(data_type).__name__ == "VectorUDT":
        return "declare array<double> and use pyspark.ml.functions.array_to_vector on it"
    if isinstance(data_type, sql.StructType):
        return "declare its fields as columns"
    if isinstance(data_type, sql.MapType):
        return "declare an array of its keys and one of its values"
    return "declare a number, a string, binary, a date, a timestamp, a decimal, or arrays of those"
