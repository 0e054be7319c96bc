"""Tables in TFRecord, Parquet, CSV and JSON files, in record batches: memory does not grow with
files.

Threads: any; errors: :class:`tfos.errors.BadInputError` with the file, and :class:`OSError`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tfos.base.arrow import pa
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.files.interface import parent_of
from tfos.records import casts, formats, json_lines, listing
from tfos.records import files as record_files
from tfos.records.leaves import leaves_of

#: Of a batch, at least and at most: fewer take long to hand over.
_PARQUET_ROWS = 128, 8_192
#: The size of a row group in Parquet files that are written, in bytes before they are encoded.
_ROW_GROUP_BYTES = 32 << 20


def convert(
    sources: Sequence[str],
    target: str,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    record_type: str = "Example",
    compression: str | None = None,
    target_compression: str | None = None,
    overwrite: bool = False,
) -> int:
    """Writes the rows of all source files, one behind the other, into a file; how many there are.

    The target appears under its name only when it is complete. No column is left out: one that the
    first file does not have is an error.

    Args:
        overwrite: whether a file that is there already may be replaced.
        source_format, target_format: of formats.FORMATS; None for what the names say.
        compression, target_compression: "none", "gzip", "zlib" for TFRecords; None by the names.
    """
    if target_format is None:
        formats.check_suffix(target)
    from_format = formats.format_of_all(sources, source_format, "--from")
    to_format = formats.format_of(target, target_format)
    path = check_output(target, sources, overwrite)
    schema = schema_of(sources, from_format, record_type, compression, whole=True)
    check_target(schema, to_format, target, record_type)
    batches = read(sources, from_format, schema, record_type, compression, whole=True)
    with replacing(target) as temporary:
        rows = write(
            temporary,
            to_format,
            schema,
            batches,
            record_type,
            formats.compression_of(path, target_compression),
        )
        check_output(target, sources, overwrite)  # Somebody else may have been faster.
    return rows


def check_output(target: str, sources: Sequence[str], overwrite: bool) -> str:
    """The path of the file ``target``. Raises :class:`BadInputError` where it can't be written: it
    is one of ``sources``, a directory, in none, or, unless ``overwrite``, there already."""
    access, path = access_for(target)
    if path in (access_for(source)[1] for source in sources):
        raise BadInputError(f"{target} is read and written; give it another name")
    found = access.status(path)
    if found is None:
        above = access.status(parent_of(path))
        if above is None or not above.is_directory:
            raise BadInputError(f"{target}: there is no directory {parent_of(path)}")
    elif found.is_directory:
        raise BadInputError(f"{target} is a directory; name a file in it")
    elif not overwrite:
        raise BadInputError(f"{target} is there already; pass --overwrite to replace it")
    return path


@contextlib.contextmanager
def replacing(target: str) -> Iterator[str]:
    """A name for a new file, beside ``target``, that takes its place when the block is left without
    an error; otherwise it is deleted."""
    access, path = access_for(target)
    # No process's number: on shared storage two hosts may have the same one.
    name = f".{os.path.basename(path)}.{uuid.uuid4().hex}.tmp"
    temporary = os.path.join(parent_of(path), name)
    try:
        yield temporary
        access.rename(temporary, path)
    except BaseException:
        access.delete(temporary)
        raise


def schema_of(
    sources: Sequence[str],
    kind: str,
    record_type: str,
    compression: str | None,
    *,
    hints: Mapping[str, pa.DataType] | None = None,
    strings: bool = True,
    whole: bool = False,
) -> pa.Schema:
    """The columns of the files: as the first one that has columns (in CSV: rows, which tell their
    types), or a sample of the records.

    Args:
        whole: whether all records are the sample, so that no key is missed.
        hints: types of columns in CSV, which otherwise tells them by its values.
        strings: bytes in records are strings where all of the sample are UTF-8, else binary.
    """
    if kind != "tfrecord":
        untyped = None
        for source in sources:
            for schema, batches in _open(source, kind, hints or {}):
                if kind != "csv" or next(batches, None) is not None:
                    return schema
                untyped = untyped or schema
        if untyped is not None:
            return untyped
        others = " and others" if len(sources) > 1 else ""
        raise BadInputError(
            f"{sources[0]}{others}: there are no rows, so nothing says what the columns are"
        )
    listed = [listing.ListedFile(path, 0) for path in sources]
    inferred = listing.infer_schema(
        listed,
        record_type=record_type,
        compression=compression,
        sample=sys.maxsize if whole else record_files.SAMPLE_RECORDS,
        strings=strings,
    )
    return record_files.nullable(inferred)


def _open(
    path: str,
    kind: str,
    types: Mapping[str, pa.DataType],
    columns: list[str] | None = None,
    batch_rows: int | None = None,
    exact: bool = False,
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yields the schema and the batches of a Parquet, CSV or JSON file, and closes it afterwards;
    nothing for JSON without rows and for an empty file of CSV, which have no columns.

    ``types`` are of columns in CSV and JSON, ``columns`` those that are wanted, None for all: later
    batches of JSON may have more of them then. ``batch_rows``: as of :func:`read`.
    ``exact``: as of :func:`json_lines.batches`.
    """
    access, name = access_for(path)
    with access.open(name) as file, _naming(path, kind):
        if kind == "parquet":
            from pyarrow import parquet

            opened = parquet.ParquetFile(file)
            schema = opened.schema_arrow
            wanted = None if columns is None else [n for n in schema.names if n in columns]
            least, most = _PARQUET_ROWS
            rows = min(max(batch_rows or most, least), most)
            batches = opened.iter_batches(rows, columns=wanted)
        elif kind == "csv":
            from pyarrow import csv

            if not file.read(1):
                return
            file.seek(0)
            reader = csv.open_csv(
                file,
                # Otherwise Arrow cuts its blocks at any line break, also within quotes.
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(column_types=dict(types)),
            )
            schema, batches = reader.schema, iter(reader)
        else:
            later = "infer" if columns is None else "ignore"
            batches = json_lines.batches(file, types, later, exact)
            first = next(batches, None)
            if first is None:
                return
            schema, batches = first.schema, itertools.chain([first], batches)
        yield schema, _named(batches, path, kind)


@contextlib.contextmanager
def _naming(path: str, kind: str) -> Iterator[None]:
    """Errors of Arrow in the block are :class:`BadInputError` with the file."""
    try:
        yield
    except BadInputError:
        raise  # It has the file.
    except (pa.ArrowException, ValueError, KeyError) as error:
        said = " ".join(str(error).split())  # In one line.
        raise BadInputError(f"{path} can't be read as {kind}: {said}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        # Of Arrow, for a damaged file.
        raise BadInputError(f"{path} can't be read as {kind}: {error}") from error


def _named(batches: Iterator[pa.RecordBatch], path: str, kind: str) -> Iterator[pa.RecordBatch]:
    with _naming(path, kind):
        yield from batches


def read(
    sources: Sequence[str],
    kind: str,
    schema: pa.Schema,
    record_type: str,
    compression: str | None,
    batch_rows: int | None = None,
    whole: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of all files, in batches with the columns of ``schema``: those that
    :func:`schema_of` has found, or some of them.

    Args:
        batch_rows: at most so many rows of TFRecords in a batch, and about as many of Parquet.
        whole: whether a column that ``schema`` does not have is an error, else it is left out, and
            whether a number of JSON is one that would lose digits.
            Of TFRecords ``schema`` has all then.
    """
    first = ""
    for source in sources:
        if kind == "tfrecord":
            access, path = access_for(source)
            yield from record_files.read(
                access.native_path(path),
                schema,
                record_type=record_type,
                compression=compression,
                batch_rows=batch_rows,
            )
            continue
        # So 007 stays text, and a date is an error where the first file has floats. Whole numbers
        # are found out: a file in which some are missing may have 1.0 for 1.
        types = {field.name: field.type for field in schema if not pa.types.is_integer(field.type)}
        for found, batches in _open(
            source, kind, types, None if whole else schema.names, batch_rows, exact=whole
        ):
            if kind == "csv":
                some = next(batches, None)
                if some is None:  # A header alone has given no types, and has no rows to check.
                    continue
                batches = itertools.chain([some], batches)
            first = first or source  # It has given the schema.
            missing = [name for name in schema.names if name not in found.names]
            if missing:
                raise BadInputError(
                    f"{source} has the columns {', '.join(found.names)}, and {first} has "
                    f"{', '.join(missing)} too"
                )
            for batch in batches:
                more = leaves_of(batch.schema).keys() - leaves_of(schema).keys() if whole else ()
                if more:
                    raise BadInputError(_too_many(source, sorted(more), first))
                with _naming(source, kind):
                    batch = batch.select(schema.names)
                    if batch.schema != schema:
                        _check_casts(batch.schema, schema, source, first)
                        batch = batch.cast(schema)
                yield batch


def _check_casts(found: pa.Schema, wanted: pa.Schema, source: str, first: str) -> None:
    """Raises :class:`BadInputError` for a column of ``source`` that a cast would change."""
    types = leaves_of(wanted)
    for name, kind in leaves_of(found).items():
        if name in types and not casts.keeps_values(kind, types[name]):
            raise BadInputError(
                f"{source} has the column {name} of {kind}, and {first} has it of {types[name]}: "
                "give both the same type"
            )


def _too_many(source: str, names: Sequence[str], first: str) -> str:
    found = f"{source} has the column {', '.join(names)}, which "
    if source == first:
        return found + "its first rows do not have; put a row that has it first"
    return found + f"{first} does not have; convert {source} by itself"


def check_target(schema: pa.Schema, kind: str, target: str, record_type: str) -> None:
    """Raises :class:`BadInputError` for columns that a file of the format can't have."""
    if kind == "tfrecord":
        try:
            record_files.encode(pa.RecordBatch.from_pylist([], schema), record_type=record_type)
        except BadInputError as error:
            raise BadInputError(f"{target}: {error}; or write Parquet or JSON Lines") from error
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if kind == "csv" and nested:
        raise BadInputError(
            f"{target}: CSV has no lists, and {', '.join(nested)} would be one; convert to Parquet"
        )
    # Of any kind: pyarrow has large_binary, fixed_size_binary[4] and others.
    binary = [name for name, leaf in leaves_of(schema).items() if "binary" in str(leaf)]
    if kind in ("csv", "jsonl") and binary:
        raise BadInputError(
            f"{target}: {formats.TITLES[kind]} has no binary columns, and "
            f"{', '.join(binary)} would be one; convert to Parquet"
        )


def write(
    path: str,
    kind: str,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    record_type: str,
    compression: str,
    distinct: Collection[str] = (),
) -> int:
    """Writes the rows into a new file; how many there are. Columns whose values are mostly
    ``distinct`` get no dictionary in Parquet: looking them up costs more than writing them."""
    access, _ = access_for(path)
    if kind == "tfrecord":
        return record_files.write(
            access.native_path(path), batches, record_type=record_type, compression=compression
        )
    rows = 0
    with access.create(path) as file, _table_writer(file, kind, schema, distinct) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _table_writer(file: Any, kind: str, schema: pa.Schema, distinct: Collection[str]) -> Any:
    if kind == "parquet":
        return _ParquetWriter(file, schema, distinct)
    if kind == "csv":
        from pyarrow import csv

        return csv.CSVWriter(file, schema)
    return json_lines.Writer(file)


class _ParquetWriter:
    """Writes row groups that are worth reading, however small the batches are.

    Owner and lifetime: borrows the file; a context manager, whose end writes what is left. Threads:
    one at a time.
    """

    def __init__(self, file: Any, schema: pa.Schema, distinct: Collection[str]):
        from pyarrow import parquet

        self._schema = schema
        self._writer = parquet.ParquetWriter(
            file, schema, use_dictionary=_leaves_besides(schema, distinct)
        )
        self._group: list[pa.RecordBatch] = []
        self._bytes = 0

    def __enter__(self) -> _ParquetWriter:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._group.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._group, self._schema))
        self._group, self._bytes = [], 0


def _leaves_besides(schema: pa.Schema, columns: Collection[str]) -> list[str]:
    """What Parquet calls the leaves of all but these columns."""
    from pyarrow import parquet

    file = pa.BufferOutputStream()
    parquet.write_table(schema.empty_table(), file)
    leaves = parquet.ParquetFile(pa.BufferReader(file.getvalue())).schema
    paths = (leaves.column(number).path for number in range(len(leaves)))
    return [
        path
        for path in paths
        if not any(path == column or path.startswith(f"{column}.") for column in columns)
    ]
