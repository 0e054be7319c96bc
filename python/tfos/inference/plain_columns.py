"""Outputs that have one element for each row, in a dimension of its own (the shape [?, 1]), as
columns of plain values. The engine gives lists of one value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfos.base.arrow import pa

_ONE_ELEMENT = re.compile(r"\w+\[(\?|\d+)(, 1)+\]")


def names(outputs: Mapping[str, str], columns: Mapping[str, str]) -> set[str]:
    """The columns of such outputs. ``outputs``: name -> type, as ``float32[?, 1]``; ``columns``:
    output -> column."""
    return {column for name, column in columns.items() if _ONE_ELEMENT.fullmatch(outputs[name])}


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
