"""Lines of JSON as record batches, and the other way. Threads: any.

Errors: :class:`ValueError`, of Arrow too, for what is not JSON or does not fit;
:class:`tfos.errors.BadInputError` for values that JSON does not have; :class:`OSError`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tfos.base.arrow import pa
from tfos.errors import BadInputError
from tfos.records.leaves import leaves_of

_BLOCK_BYTES = 4 << 20
#: Floats hold each whole number below it.
_EXACT = 1 << 53


def batches(
    file: Any, types: Mapping[str, pa.DataType], later: str, exact: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of lines of JSON. Columns and types are those of the first block, and of ``types``.

    Args:
        later: what becomes of keys that come after it, "infer" or "ignore".
        exact: whether a whole number is an error that loses digits among floats.
    """
    schema = pa.schema(list(types.items()))
    unexpected = "infer"
    for block in _blocks_of_lines(file):
        try:
            table = _read(block, schema, unexpected)
            if (text := _with_text(table.schema)) != table.schema:
                table = _read(block, text, unexpected)
        except pa.ArrowInvalid as error:
            empty = [name for name, leaf in leaves_of(schema).items() if pa.types.is_null(leaf)]
            # Arrow says "to null" or "from null to", and mostly no column.
            if empty and " null " in str(error):
                raise ValueError(
                    f"the first rows have no value of {', '.join(empty)}, so nothing says of what "
                    "type these are; put a row that has them first"
                ) from error
            raise
        if unexpected == "infer":
            schema, unexpected = table.schema, later
        if exact:
            _check_digits(block, table)
        yield from table.to_batches()


def _read(block: bytes, schema: pa.Schema, unexpected: str) -> pa.Table:
    from pyarrow import json as arrow_json

    return arrow_json.read_json(
        io.BytesIO(block),
        read_options=arrow_json.ReadOptions(block_size=len(block) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior=unexpected
        ),
    )


def _with_text(schema: pa.Schema) -> pa.Schema:
    """The schema with strings for timestamps: JSON has none, and Arrow finds them in strings."""
    return pa.schema([field.with_type(_as_text(field.type)) for field in schema])


def _as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _check_digits(block: bytes, table: pa.Table) -> None:
    """Raises ValueError for a whole number that a column of floats does not hold exactly."""
    large = {
        name
        for batch in table.to_batches()
        for field, column in zip(batch.schema, batch.columns, strict=True)
        for name, floats in _floats(field.name, column)
        if _has_large(floats)
    }
    if not large:
        return  # All whole numbers of such a size are exact.
    for line in filter(bytes.strip, block.splitlines()):
        for key, value in json.loads(line).items():
            for name, number in _whole_numbers(key, value):
                if name in large and not _is_float(number):
                    raise ValueError(
                        f"the column {name} is one of floats, for others of its values, and "
                        f"{number} would lose digits as one; write the numbers as text"
                    )


def _floats(name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The floats of a column, by names as of :func:`leaves_of`."""
    if pa.types.is_struct(column.type):
        for number, field in enumerate(column.type):
            yield from _floats(f"{name}.{field.name}", column.field(number))
    elif pa.types.is_list(column.type):
        yield from _floats(name, column.flatten())
    elif pa.types.is_floating(column.type):
        yield name, column


def _has_large(floats: pa.Array) -> bool:
    import pyarrow.compute

    ends = pyarrow.compute.min_max(floats).as_py().values()
    return any(end is not None and abs(end) >= _EXACT for end in ends)


def _whole_numbers(name: str, value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _whole_numbers(f"{name}.{key}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _whole_numbers(name, inner)
    elif isinstance(value, int):
        yield name, value


def _is_float(number: int) -> bool:
    try:
        return float(number) == number
    except OverflowError:
        return False


def _blocks_of_lines(file: Any) -> Iterator[bytes]:
    """Blocks of whole lines. The last line, which may have no end, goes with those before it."""
    ready = rest = b""
    while block := file.read(_BLOCK_BYTES):
        whole, newline, after = block.rpartition(b"\n")
        if not newline:
            rest += block
            continue
        if ready:
            yield ready
        ready, rest = rest + whole + newline, after
    if (last := ready + rest).strip():
        yield last


class Writer:
    """Writes lines of JSON; numbers that are none are NaN, Infinity, -Infinity, as Spark reads
    them.

    Owner and lifetime: borrows the file. Threads: one at a time.
    """

    def __init__(self, file: Any):
        self._file = file

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def write_batch(self, batch: pa.RecordBatch) -> None:
        lines = [json.dumps(row, ensure_ascii=False, default=_text) for row in batch.to_pylist()]
        self._file.write("".join(f"{line}\n" for line in lines).encode())


def _text(value: Any) -> str:
    """A value that JSON has no kind for, such as a date."""
    if isinstance(value, bytes):
        raise BadInputError("JSON has no binary values; convert to Parquet")
    return str(value)
