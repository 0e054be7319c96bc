"""Tables between TFRecord, Parquet and CSV files, in record batches: memory does not grow with files.

Which format a file has its name says, unless it is told. Threads: any; errors:
:class:`tfos.errors.BadInputError` with the file, and :class:`OSError`.
"""

from __future__ import annotations

import os
from typing import Any, Iterator, Sequence

import pyarrow as pa

from tfos import record_listing, records
from tfos.errors import BadInputError
from tfos.file_access import access_for

FORMATS = ("tfrecord", "parquet", "csv")

_BY_SUFFIX = {".parquet": "parquet", ".csv": "csv"}
_PARQUET_ROWS = 8_192


def format_of(path: str, told: str | None) -> str:
    """The format of a file: as told, else by its name; TFRecord where that does not say."""
    return told or _BY_SUFFIX.get(os.path.splitext(path)[1].lower(), "tfrecord")


def convert(sources: Sequence[str], target: str, *, source_format: str | None = None,
            target_format: str | None = None, record_type: str = "Example",
            compression: str | None = None, target_compression: str | None = None) -> int:
    """Writes the rows of all source files, one behind the other, into a file; how many there are.

    The target appears under its name only when it is complete.

    Args:
        source_format, target_format: of FORMATS; None for what the names say.
        compression, target_compression: "none", "gzip", "zlib" for TFRecords; None by the names.
    """
    from_format, to_format = format_of(sources[0], source_format), format_of(target, target_format)
    access, path = access_for(target)
    if path in (access_for(source)[1] for source in sources):
        raise BadInputError(f"{target} is read and written; give it another name")
    schema = _schema(sources, from_format, record_type, compression)
    _check(schema, to_format, target)
    batches = _read(sources, from_format, schema, record_type, compression)
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}.tmp")
    try:
        rows = _write(temporary, to_format, schema, batches, record_type,
                      record_listing.compression_of(path, target_compression))
        access.rename(temporary, path)
    except BaseException:
        access.delete(temporary)
        raise
    return rows


def _schema(sources: Sequence[str], kind: str, record_type: str, compression: str | None) -> pa.Schema:
    if kind != "tfrecord":
        return next(iter(_open(sources[0], kind)))[0]
    listed = [record_listing.ListedFile(path, 0) for path in sources]
    inferred = record_listing.infer_schema(listed, record_type=record_type, compression=compression,
                                           sample=records.SAMPLE_RECORDS, strings=True)
    return nullable(inferred)


def nullable(schema: pa.Schema) -> pa.Schema:
    """An inferred schema for all records: those behind the sample may lack a key that all of it
    have."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _open(path: str, kind: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yields the schema and the batches of a Parquet or CSV file, and closes it afterwards."""
    access, name = access_for(path)
    with access.open(name) as file:
        try:
            if kind == "parquet":
                from pyarrow import parquet

                opened = parquet.ParquetFile(file)
                yield opened.schema_arrow, opened.iter_batches(_PARQUET_ROWS)
            else:
                from pyarrow import csv

                reader = csv.open_csv(file)
                yield reader.schema, iter(reader)
        except pa.ArrowInvalid as error:
            raise BadInputError(f"{path} can't be read as {kind}: {error}") from error


def _read(sources: Sequence[str], kind: str, schema: pa.Schema, record_type: str,
          compression: str | None) -> Iterator[pa.RecordBatch]:
    for source in sources:
        if kind == "tfrecord":
            access, path = access_for(source)
            yield from records.read(access.native_path(path), schema, record_type=record_type,
                                    compression=record_listing.compression_of(path, compression))
            continue
        for found, batches in _open(source, kind):
            if found.names != schema.names:
                raise BadInputError(
                    f"{source} has the columns {', '.join(found.names)}, and {sources[0]} has "
                    f"{', '.join(schema.names)}")
            for batch in batches:
                yield batch if batch.schema == schema else batch.cast(schema)


def _check(schema: pa.Schema, kind: str, target: str) -> None:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if kind == "csv" and nested:
        raise BadInputError(f"{target}: CSV has no lists, and {', '.join(nested)} would be one; "
                            "convert to Parquet")
    if kind == "csv" and (binary := [field.name for field in schema if pa.types.is_binary(field.type)]):
        raise BadInputError(f"{target}: CSV has no binary columns, and {', '.join(binary)} would be "
                            "one; convert to Parquet")


def _write(path: str, kind: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch],
           record_type: str, compression: str) -> int:
    access, _ = access_for(path)
    if kind == "tfrecord":
        return records.write(access.native_path(path), batches, record_type=record_type,
                             compression=compression)
    rows = 0
    with access.create(path) as file, _table_writer(file, kind, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _table_writer(file: Any, kind: str, schema: pa.Schema) -> Any:
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    from pyarrow import csv

    return csv.CSVWriter(file, schema)
