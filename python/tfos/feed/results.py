"""Results of inference as Arrow record batches of the schema that the driver declared.

Used by feed tasks in Spark's Python workers; the native side hands the columns over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfos.base.arrow import pa
from tfos.errors import BadInputError, FeedError

#: Results are gathered into record batches of at least one of these. Each batch costs Spark about
#: as much as a thousand small rows do; copying large ones together costs more than it saves.
_BATCH_BYTES = 1 << 18
_BATCH_ROWS = 10_000
#: How much of a value an error message shows.
_SHOWN_CHARACTERS = 100


class ResultField(NamedTuple):
    """A declared column of the results."""

    name: str
    type: pa.DataType
    #: Arrow's field of each list says likewise whether its elements may be null.
    nullable: bool
    #: As SQL has it, for messages.
    declared: str


class ResultAssembler:
    """Turns the results of one partition into record batches: its key columns, then its results.

    Owner and lifetime: one feed task. Threads: one at a time.
    Errors: :class:`BadInputError` for a result that does not fit what was declared, naming
    partition, column, and what was expected and found.
    """

    def __init__(self, partition: int, keys: list[str], fields: list[ResultField]):
        self._partition = partition
        self._fields = fields
        self._names = keys + [field.name for field in fields]
        #: Then a list is the value of that column, else the columns of a row.
        self._one_list = len(fields) == 1 and _is_list(fields[0].type)
        self._keys: deque[Any] = deque()  # record batches whose rows wait for their results
        self._gathered: list[Any] = []  # of one form and schema
        self._form = ""
        self._gathered_rows = self._gathered_bytes = 0
        self._assembled_rows = 0

    def hold_keys(self, keys: Any) -> None:
        """Keeps the key columns (a record batch) of rows that are about to be fed."""
        if keys.num_rows:
            self._keys.append(keys)

    def add(self, results: Any) -> Iterator[Any]:
        """Takes a native ``ResultBatch`` and gives the record batches that are complete now."""
        if results.form == "object" or (results.form == "list" and self._one_list):
            yield from self.rest()
            yield from self._emit(self._columns_of_objects(results.objects()))
            return
        try:
            batch = pa.record_batch(results)
        except FeedError as error:
            raise self._error(str(error)) from error
        kind = (results.form, batch.schema)
        if self._gathered and kind != (self._form, self._gathered[0].schema):
            yield from self.rest()
        self._form = results.form
        self._gathered.append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_bytes >= _BATCH_BYTES or self._gathered_rows >= _BATCH_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """The record batches of what was gathered."""
        gathered, self._gathered = self._gathered, []
        self._gathered_rows = self._gathered_bytes = 0
        if len(gathered) > 1:
            gathered = pa.Table.from_batches(gathered).combine_chunks().to_batches()
        for batch in gathered:
            yield from self._emit(self._columns_of(batch))

    def _emit(self, columns: list[Any]) -> Iterator[Any]:
        fitting = [
            self._fit(field, column) for field, column in zip(self._fields, columns, strict=True)
        ]
        rows, done = len(fitting[0]), 0
        while done < rows:
            keys = self._keys.popleft()
            some = min(keys.num_rows, rows - done)
            if some < keys.num_rows:
                self._keys.appendleft(keys.slice(some))
                keys = keys.slice(0, some)
            results = [column.slice(done, some) for column in fitting]
            yield pa.RecordBatch.from_arrays([*keys.columns, *results], names=self._names)
            done += some
        self._assembled_rows += rows

    # -- which column of the results is which

    def _columns_of(self, batch: Any) -> list[Any]:
        if self._form == "mapping":
            self._check_names(batch.schema.names)
            return [batch.column(field.name) for field in self._fields]
        if self._form != "value":
            self._check_count(batch.num_columns)
            return batch.columns
        only = batch.column(0)
        if not _is_list(only.type) or self._one_list:
            self._check_count(1)
            return [only]
        # Rows of numbers, or of an array of strings: each is a list.
        import pyarrow.compute as pc

        lengths = set(pc.min_max(pc.list_value_length(only)).as_py().values())
        if len(self._fields) == 1 and lengths != {1}:
            return [only]  # no value for the column, as will be said of its type
        for length in lengths:
            self._check_count(length)
        return [pc.list_element(only, position) for position in range(len(self._fields))]

    def _columns_of_objects(self, rows: list[Any]) -> list[Any]:
        values = [self._values_of(row) for row in rows]
        return [
            self._array(field, [row[position] for row in values])
            for position, field in enumerate(self._fields)
        ]

    def _values_of(self, row: Any) -> Any:
        """The values of a result in the order of the schema."""
        if isinstance(row, dict):
            self._check_names(list(row))
            return [row[field.name] for field in self._fields]
        if isinstance(row, tuple) and hasattr(row, "__fields__"):
            names = list(row.__fields__)
            self._check_names(names)
            return [row[names.index(field.name)] for field in self._fields]
        if len(self._fields) == 1 and not (isinstance(row, tuple) and len(row) == 1):
            return [row]
        if not isinstance(row, (tuple, list)) and getattr(row, "ndim", 0) == 0:
            raise self._error(f"a result is {_show(row)}, one value, and {self._declared()}")
        self._check_count(len(row))
        return row

    def _check_names(self, names: list[str]) -> None:
        if sorted(names, key=str) != sorted(field.name for field in self._fields):
            found = ", ".join(map(str, names))
            raise self._error(f"the results have the columns {found}, and {self._declared()}")

    def _check_count(self, count: int) -> None:
        if count != len(self._fields):
            raise self._error(
                f"a result has {count} column{'' if count == 1 else 's'}, and {self._declared()}"
            )

    def _declared(self) -> str:
        return "the schema declares " + ", ".join(
            f"{field.name} {field.declared}" for field in self._fields
        )

    # -- types

    def _array(self, field: ResultField, values: list[Any]) -> Any:
        values = [value.tolist() if getattr(value, "ndim", 0) > 1 else value for value in values]
        try:
            return pa.array(values)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            types = sorted({type(value).__name__ for value in values if value is not None})
            raise self._misfit(field, f"values of {', '.join(types)} ({error})") from error

    def _fit(self, field: ResultField, column: Any) -> Any:
        """``column`` in the declared type."""
        if _is_list(field.type) and _is_positional(column.type):
            column = self._array(field, [_as_list(value) for value in column.to_pylist()])
        if column.type != field.type:
            if not _convertible(column.type, field.type):
                raise self._misfit(field, sql_name(column.type))
            try:
                column = _cast(column, field.type)
            except pa.ArrowException as error:
                raise self._misfit(field, f"{sql_name(column.type)} ({error})") from error
        if not field.nullable and column.null_count:
            row = column.is_null().index(True).as_py() + self._assembled_rows
            raise self._misfit(field, f"a null for row {row}, where the schema allows none")
        if _has_forbidden_null(column, field.type):
            raise self._misfit(field, "a null in an array, where the schema allows none")
        return column

    def _misfit(self, field: ResultField, found: str) -> BadInputError:
        return self._error(
            f"column {field.name}: expected {field.declared}, and the results hold {found}"
        )

    def _error(self, text: str) -> BadInputError:
        return BadInputError(f"inference, partition {self._partition}: {text}")


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _is_text(arrow: Any) -> bool:
    return pa.types.is_string(arrow) or pa.types.is_large_string(arrow)


def _is_bytes(arrow: Any) -> bool:
    return pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow)


def _is_list(arrow: Any) -> bool:
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def _is_positional(arrow: Any) -> bool:
    """Whether it is what lists become that hold other lists, or nothing: a struct of positions."""
    return pa.types.is_struct(arrow) and [field.name for field in arrow] == [
        str(position) for position in range(arrow.num_fields)
    ]


def _as_list(value: Any) -> Any:
    return [_as_list(item) for item in value.values()] if isinstance(value, dict) else value


def _convertible(found: Any, wanted: Any) -> bool:
    """Whether values of one type may stand for those of another, as far as they fit in: numbers for
    wider and narrower ones, whole ones for times too, UTF-8 for text."""
    is_of = pa.types
    if is_of.is_null(found):
        return True
    if _is_list(wanted):
        return _is_list(found) and _convertible(found.value_type, wanted.value_type)
    if is_of.is_integer(wanted):
        return is_of.is_integer(found)
    if is_of.is_floating(wanted):
        return is_of.is_integer(found) or is_of.is_floating(found)
    if is_of.is_date(wanted):
        return is_of.is_integer(found) or is_of.is_date32(found)
    if is_of.is_timestamp(wanted):
        # Without a time zone it is another kind of time, and which zone was meant is not known.
        same_kind = is_of.is_timestamp(found) and (found.tz is None) == (wanted.tz is None)
        return same_kind or is_of.is_integer(found)
    if is_of.is_decimal(wanted):
        return is_of.is_decimal(found)
    if is_of.is_string(wanted):
        return _is_text(found) or _is_bytes(found)
    if is_of.is_binary(wanted):
        return _is_bytes(found)
    return is_of.is_boolean(wanted) and is_of.is_boolean(found)


def _cast(column: Any, wanted: Any) -> Any:
    """``column`` in a type that it is convertible to; fails where a value does not fit."""
    found_leaf, wanted_leaf = _leaf(column.type), _leaf(wanted)
    if pa.types.is_integer(found_leaf) and pa.types.is_temporal(wanted_leaf):
        # Arrow takes only a number of the same width for a time.
        width = pa.int32() if pa.types.is_date32(wanted_leaf) else pa.int64()
        column = column.cast(_with_leaf(wanted, width))
    return column.cast(wanted)


def _leaf(arrow: Any) -> Any:
    return _leaf(arrow.value_type) if _is_list(arrow) else arrow


def _with_leaf(arrow: Any, leaf: Any) -> Any:
    return pa.list_(_with_leaf(arrow.value_type, leaf)) if _is_list(arrow) else leaf


def _has_forbidden_null(column: Any, arrow: Any) -> bool:
    if not _is_list(arrow):
        return False
    elements = column.flatten()
    forbidden = not arrow.value_field.nullable and elements.null_count != 0
    return forbidden or _has_forbidden_null(elements, arrow.value_type)


_SQL_NAMES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "halffloat": "float16",
    "large_string": "string",
    "large_binary": "binary",
    "date32[day]": "date",
    "null": "only None",
}


def sql_name(arrow: Any) -> str:
    """The SQL type that an Arrow type is, or Arrow's name where SQL has none."""
    if _is_list(arrow):
        return f"array<{sql_name(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        fields = ", ".join(f"{field.name}: {sql_name(field.type)}" for field in arrow)
        return f"struct<{fields}>"
    if pa.types.is_timestamp(arrow):
        return "timestamp_ntz" if arrow.tz is None else "timestamp"
    return _SQL_NAMES.get(str(arrow), str(arrow))
