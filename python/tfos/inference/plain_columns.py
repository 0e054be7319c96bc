"""Outputs that have one element for each row, in dimensions of its own (such as the shapes [?, 1],
[32, 1] and [?, 1, 1]), as columns of plain values. The engine gives lists of one value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfos.base.arrow import pa

_ONE_ELEMENT = re.compile(r"\w+\[(\?|\d+)(, 1)+\]")


def names(outputs: Mapping[str, str], columns: Mapping[str, str]) -> set[str]:
    """The columns of such outputs. ``outputs``: name -> type, as ``float32[?, 1]``; ``columns``:
    output -> column."""
    return {column for name, column in columns.items() if lists_around_one(outputs[name])}


def lists_around_one(output: str) -> int:
    """How many lists are around the one element that an output of this type has for each row; 0 if
    it has others, or no lists."""
    return output.count(", 1") if _ONE_ELEMENT.fullmatch(output) else 0


def schema(of_lists: pa.Schema, plain: set[str]) -> pa.Schema:
    """The same with these columns as plain ones."""
    return pa.schema(
        pa.field(field.name, _leaf(field.type)) if field.name in plain else field
        for field in of_lists
    )


def batch(of_lists: pa.RecordBatch, plain: pa.Schema) -> pa.RecordBatch:
    """The same with the columns that ``plain`` has."""
    columns = [
        _elements(column, field.type) for column, field in zip(of_lists.columns, plain, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=plain)


def _leaf(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_nested(kind):
        kind = kind.value_type
    return kind


def _elements(column: pa.Array, kind: pa.DataType) -> pa.Array:
    while column.type != kind and pa.types.is_nested(column.type):
        column = column.flatten()
    return column
