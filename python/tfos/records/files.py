"""TFRecord files and tf.Example as Arrow record batches, without TensorFlow.

    for batch in tfos.records.read("part-0.tfrecord"):
        ...                                  # a pyarrow.RecordBatch
    tfos.records.write("copy.tfrecord", batches, compression="gzip")

What becomes of which type, and what of damaged files, is in docs/formats/tfrecord.md. An argument
that is None is as the native side has it. Paths may be URIs of Hadoop's file systems
(docs/hdfs.md).

Errors: :class:`tfos.errors.BadInputError` naming file, record and offset; :class:`OSError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tfos import _native
from tfos.base.arrow import pa
from tfos.files.access import native_path
from tfos.records.formats import compression_of

#: Records that a schema is inferred from.
SAMPLE_RECORDS = 1_000


class Part(NamedTuple):
    """A part of an uncompressed file, as :func:`split` gives it. Offsets in bytes."""

    begin: int
    end: int
    first_record: int


class Reader:
    """Iterates over the record batches of a file.

    Owner and lifetime: keeps the file open until it is dropped. Threads: one at a time.

    Args:
        schema: a ``pyarrow.Schema``. Where None, the columns of the file's first records, as far
            as ``mode`` and ``validation`` let them pass; each may be null, as later records may
            lack it.
        record_type: "Example", "SequenceExample", or "ByteArray": each record is, as it is, the
            value of the only column of ``schema``, binary or string.
        compression: "none", "gzip", "zlib"; None takes it from the file's name.
        mode: how bad records are handled: "failfast", "dropmalformed", "permissive".
        validation: which CRCs are compared: "none", "lengths", "full".
        part: of :func:`split`.
        bad_column: a column of binary, the last one, that has the bytes of each record which
            became a row of nulls; none where None.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        record_type: str = "Example",
        compression: str | None = None,
        mode: str | None = None,
        validation: str | None = None,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        max_record_bytes: int | None = None,
        part: Part | None = None,
        bad_column: str | None = None,
    ):
        if schema is None:
            sample = SchemaSample(record_type)
            sample.add(
                path,
                SAMPLE_RECORDS,
                compression=compression,
                mode=mode,
                validation=validation,
                max_record_bytes=max_record_bytes,
            )
            schema = nullable(sample.schema())
        self.schema = (
            schema if bad_column is None else schema.append(pa.field(bad_column, pa.binary()))
        )
        self._bad_column = bad_column
        self._reader = _native.ExampleReader(
            _file(path, compression, validation, max_record_bytes, part),
            schema,
            record_type,
            mode,
            batch_rows,
            batch_bytes,
            bad_column is not None,
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._reader.next()) is not None:
            batch = pa.record_batch(batch)
            yield batch if self._bad_column is None else self._with_bad(batch)

    def _with_bad(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = dict(self._reader.take_bad())
        column = (
            pa.array([kept.get(row) for row in range(batch.num_rows)], pa.binary())
            if kept
            else pa.nulls(batch.num_rows, pa.binary())
        )
        return pa.RecordBatch.from_arrays([*batch.columns, column], schema=self.schema)

    @property
    def counts(self) -> dict[str, Any]:
        """Counts of what was read so far: records, bad_records, lost (a part), first_problem."""
        return self._reader.counts()


def read(
    path: str | os.PathLike[str], schema: pa.Schema | None = None, **options: Any
) -> Iterator[pa.RecordBatch]:
    """The record batches of a file; options as of :class:`Reader`."""
    return iter(Reader(path, schema, **options))


def write(
    path: str | os.PathLike[str],
    batches: Iterable[Any],
    *,
    record_type: str = "Example",
    compression: str | None = None,
    level: int | None = None,
) -> int:
    """Writes each row of each record batch (or table) as a record; how many there are.

    A file that is there already is overwritten; one that failed is incomplete. On s3a:// a failure
    leaves what was there.
    """
    writer = _native.RecordWriter(*_place(path, compression), level, True)
    for batch in batches:
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            writer.write_examples(part, record_type)
    writer.close()
    return writer.records


def write_records(
    path: str | os.PathLike[str],
    records: Iterable[bytes],
    *,
    compression: str | None = None,
    level: int | None = None,
) -> int:
    """Writes records of any content; how many there are."""
    writer = _native.RecordWriter(*_place(path, compression), level, True)
    for record in records:
        writer.write(record)
    writer.close()
    return writer.records


def read_records(
    path: str | os.PathLike[str],
    *,
    compression: str | None = None,
    validation: str | None = None,
    max_record_bytes: int | None = None,
    part: Part | None = None,
) -> Iterator[bytes]:
    """The records of a file, whatever they hold."""
    return _each(_native.RecordReader(_file(path, compression, validation, max_record_bytes, part)))


def records_of(content: bytes, *, validation: str | None = None) -> Iterator[bytes]:
    """The records of what a file contains, when that is in memory already."""
    return _each(_native.RecordReader.of_bytes(content, validation))


def _each(reader: Any) -> Iterator[bytes]:
    while (record := reader.next()) is not None:
        yield record


def infer_schema(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    record_type: str = "Example",
    compression: str | None = None,
    records: int = SAMPLE_RECORDS,
    strings: bool = False,
) -> pa.Schema:
    """The schema of the first ``records`` records of the files together, or of one file.

    Args:
        strings: bytes are strings where all of the sample are UTF-8, else binary.
    """
    sample = SchemaSample(record_type, strings=strings)
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        if sample.count >= records:
            break
        sample.add(path, records - sample.count, compression=compression)
    return sample.schema()


class SchemaSample:
    """Infers a schema of records from several files, which may be compressed differently.

    Threads: one at a time. Arguments as of :func:`infer_schema`.
    """

    def __init__(self, record_type: str = "Example", *, strings: bool = False):
        self._inference = _native.SchemaInference(record_type, strings)
        #: Records that were looked at.
        self.count = 0

    def add(
        self,
        path: str | os.PathLike[str],
        most: int,
        *,
        compression: str | None = None,
        mode: str | None = None,
        validation: str | None = None,
        max_record_bytes: int | None = None,
    ) -> None:
        """Looks at up to ``most`` records of a file. Options as of :class:`Reader`; in other modes
        than "failfast" bad records are passed over."""
        file = _file(path, compression, validation, max_record_bytes)
        self.count += self._inference.add(file, most, mode not in (None, "failfast"))

    def add_record(self, record: bytes) -> None:
        """Looks at a serialized tf.Example."""
        self._inference.add_record(record)
        self.count += 1

    def schema(self) -> pa.Schema:
        """What all of them have in common; an error names two records that contradict each
        other."""
        return pa.schema(self._inference.finish())


def nullable(schema: pa.Schema) -> pa.Schema:
    """An inferred schema for all records: those behind the sample may lack a key that all of it
    have."""
    return pa.schema([field.with_nullable(True) for field in schema])


def verify(
    path: str | os.PathLike[str], *, compression: str | None = None, validation: str | None = None
) -> dict[str, Any]:
    """Reads a file to its end, over what is damaged.

    Returns: records (that are sound), record_bytes, longest_bytes, bad_records, end_offset, lost
    (whether a part could not be read), and first_problem ("" for none).
    """
    return _native.RecordReader(_file(path, compression, validation)).survey()


def make_index(path: str | os.PathLike[str], *, interval_bytes: int | None = None) -> int:
    """Puts an index beside an uncompressed file, so that it can be split; the number of records."""
    return _native.make_record_index(native_path(path), interval_bytes)


def split(path: str | os.PathLike[str], part_bytes: int) -> list[Part]:
    """The parts, of at least so many bytes, of a file that has an index."""
    return [Part(*part) for part in _native.split_record_file(native_path(path), part_bytes)]


def decode(
    records: list[bytes], schema: pa.Schema, *, record_type: str = "Example"
) -> pa.RecordBatch:
    """Serialized tf.Examples as a record batch."""
    return pa.record_batch(_native.ExampleDecoder(schema, record_type).decode(records))


def encode(batch: pa.RecordBatch, *, record_type: str = "Example") -> pa.BinaryArray:
    """Each row as what ``SerializeToString(deterministic=True)`` of its tf.Example gives."""
    return pa.array(_native.encode_examples(batch, record_type))


def _file(
    path: str | os.PathLike[str],
    compression: str | None,
    validation: str | None = None,
    max_record_bytes: int | None = None,
    part: Part | None = None,
) -> Any:
    range_ = None if part is None else (part.begin, part.end, part.first_record)
    return _native.RecordFile(*_place(path, compression), validation, max_record_bytes, range_)


def _place(path: str | os.PathLike[str], compression: str | None) -> tuple[str, str]:
    """The path and the compression as the native side takes them."""
    native = native_path(path)
    return native, compression_of(native, compression)
