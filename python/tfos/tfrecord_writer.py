"""How Spark's tasks write TFRecords into a directory so that readers see all of it or nothing.

    DIRECTORY/_temporary/JOB/part-00000-JOB-ATTEMPT.tfrecord      while tasks run
    DIRECTORY/part-00000-JOB.tfrecord                             once the job is committed
    DIRECTORY/_SUCCESS                                            last of all

Commit renames what the tasks that Spark counts have written; of others nothing becomes visible.
Overwriting deletes the files that were there only after that. Readers pass over ``_temporary``.
"""

from __future__ import annotations

import os
import posixpath
import uuid
from dataclasses import dataclass
from typing import Any, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql import types as sql
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage

from tfos import record_types, records
from tfos.errors import BadInputError
from tfos.file_access import FileAccess, access_for
from tfos.record_listing import INDEX_SUFFIX, SUFFIX_OF

TEMPORARY = "_temporary"
SUCCESS = "_SUCCESS"

#: What becomes of a directory that has files already, by the names of Spark's save modes.
IF_EXISTS = ("append", "overwrite", "error", "ignore")

#: Spark 4.1 and later hand over record batches.
_ArrowWriter = getattr(datasource, "DataSourceArrowWriter", None)


@dataclass
class Written(WriterCommitMessage):
    """What a task has written: file names, in the job's temporary directory and where they go."""

    files: list[tuple[str, str]]
    rows: int


def start(directory: str, schema: sql.StructType, record_type: str, *, compression: str,
          level: int | None, index: bool, if_exists: str) -> DataSourceWriter:
    """Looks at what is there, makes the job's temporary directory, and returns Spark's writer.

    Raises :class:`BadInputError` for a directory that has files, if those are in the way.
    """
    if _ArrowWriter is None:
        raise BadInputError("writing TFRecords needs Spark 4.1 or newer")
    if if_exists not in IF_EXISTS:
        raise BadInputError(f"ifExists={if_exists!r} is none of {', '.join(IF_EXISTS)}")
    if index and compression:
        raise BadInputError(f"index goes with uncompressed files only, and these are {compression}")
    access, path = access_for(directory)
    status = access.status(path)
    if status is not None and not status.is_directory:
        raise BadInputError(f"{path} is a file; TFRecords are written into a directory")
    exists = status is not None and _has_content(access, path)
    if exists and if_exists == "error":
        raise BadInputError(
            f'{path} is there already; choose mode("overwrite") or mode("append"), or another path')
    output = Output(path, uuid.uuid4().hex)
    skips = exists and if_exists == "ignore"
    if not skips:
        access.mkdirs(output.temporary)
    return TFRecordWriter(output, schema, record_type, compression, level, index,
                          overwrite=if_exists == "overwrite", skips=skips)


def _has_content(access: FileAccess, directory: str) -> bool:
    return any(os.path.basename(found.path) != TEMPORARY for found in access.list(directory))


class Output:
    """The directory of a job, and the steps by which its files become visible.

    Threads: each method from one. Errors: OSError naming the file.
    """

    def __init__(self, directory: str, job: str):
        self.directory = directory
        self.job = job
        #: The job's own directory.
        self.temporary = posixpath.join(directory, TEMPORARY, job)

    def commit(self, written: Sequence[Written], overwrite: bool) -> None:
        """Makes the files visible, then deletes those that they replace, if ``overwrite``.

        When not all can be made visible, none is in the end, and what was there stays.
        """
        access, directory = access_for(self.directory)
        success = posixpath.join(directory, SUCCESS)
        replaced = list(access.list(directory)) if overwrite else []
        was_complete = access.status(success) is not None
        access.delete(success)
        moved: list[str] = []
        try:
            for temporary, final in (pair for task in written for pair in task.files):
                # First, as a rename whose answer got lost has happened.
                moved.append(posixpath.join(directory, final))
                access.rename(posixpath.join(self.temporary, temporary), moved[-1])
        except BaseException:
            for path in moved:
                access.delete(path)
            if was_complete:
                access.create(success).close()
            raise
        for old in replaced:
            if os.path.basename(old.path) != TEMPORARY:
                access.delete(old.path)
        self.abort()
        access.create(success).close()

    def abort(self) -> None:
        """Deletes all that is not visible yet, of every task of the job."""
        access, directory = access_for(self.directory)
        access.delete(self.temporary)
        access.delete_if_empty(posixpath.join(directory, TEMPORARY))


def write_task(output: Output, batches: Iterator[pa.RecordBatch], schema: sql.StructType,
               record_type: str, compression: str, level: int | None, index: bool, *, task: int,
               attempt: int) -> Written:
    """Writes what one attempt of a task gets into a file; none where it gets no row."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Written([], 0)
    access, _ = access_for(output.directory)
    suffix = ".tfrecord" + SUFFIX_OF[compression]
    final = f"part-{task:05}-{output.job}{suffix}"
    temporary = f"part-{task:05}-{output.job}-{attempt}{suffix}"
    path = posixpath.join(output.temporary, temporary)
    try:
        rows = _write(access.native_path(path), _chain(first, batches), schema, record_type,
                      compression, level)
        files = [(temporary, final)]
        if index:
            records.make_index(access.native_path(path))
            # The index first: a reader that sees the file finds its index.
            files.insert(0, (temporary + INDEX_SUFFIX, final + INDEX_SUFFIX))
    except BaseException:
        access.delete(path)
        access.delete(path + INDEX_SUFFIX)
        raise
    return Written(files, rows)


def _write(path: str, batches: Iterator[pa.RecordBatch], schema: sql.StructType, record_type: str,
           compression: str, level: int | None) -> int:
    if record_type == "ByteArray":
        return records.write_records(path, _records_of(batches, schema.names[0]),
                                     compression=compression, level=level)
    return records.write(path, (record_types.from_spark(batch, schema) for batch in batches),
                         record_type=record_type, compression=compression, level=level)


def _records_of(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[bytes]:
    for batch in batches:
        column = batch.column(0)
        if column.null_count:
            raise BadInputError(f"column {name} has nulls, which are no records; filter them out")
        yield from column.cast(pa.binary()).to_pylist()


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


class TFRecordWriter(_ArrowWriter or DataSourceWriter):  # type: ignore[misc]
    """Spark's writer. Owner: Spark; pickled from driver to tasks. Made by :func:`start`."""

    def __init__(self, output: Output, schema: sql.StructType, record_type: str, compression: str,
                 level: int | None, index: bool, *, overwrite: bool, skips: bool):
        self._output = output
        self._arguments = (schema, record_type, compression, level, index)
        self._overwrite = overwrite
        #: There is data already, and it is to stay as it is.
        self._skips = skips

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Runs in a task: writes its rows into a file that nobody sees yet."""
        from pyspark import TaskContext

        if self._skips:
            return Written([], 0)
        context = TaskContext.get()
        return write_task(self._output, iterator, *self._arguments, task=context.partitionId(),
                          attempt=context.taskAttemptId())

    def commit(self, messages: list[Any]) -> None:
        """Runs on the driver once every task has succeeded."""
        if not self._skips:
            self._output.commit([message for message in messages if message], self._overwrite)

    def abort(self, messages: list[Any]) -> None:
        """Runs on the driver when the job has failed."""
        if not self._skips:
            self._output.abort()
