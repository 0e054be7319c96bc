"""How Spark's tasks write TFRecords into a directory so that readers see all of it or nothing.

    DIRECTORY/_temporary/JOB/ATTEMPT-part-00000-JOB.tfrecord      while tasks run
    DIRECTORY/part-00000-JOB.tfrecord                             once the job is committed
    DIRECTORY/_SUCCESS                                            once all of them are there

Files of partitioned data lie in directories ``name=value`` below DIRECTORY.

Commit renames what the tasks that Spark counts have written; of others nothing becomes visible.
Overwriting deletes the files that were there only after that. Readers pass over ``_temporary``.
"""

from __future__ import annotations

import itertools
import logging
import os
import posixpath
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as sql

from tfos import _native
from tfos.base.arrow import pa
from tfos.base.choices import check_choice
from tfos.errors import BadInputError
from tfos.files import hadoop_settings
from tfos.files.access import access_for
from tfos.files.interface import FileAccess, parent_of
from tfos.records import files as record_files
from tfos.records import listing
from tfos.records.listing import INDEX_SUFFIX
from tfos.records.spark import types
from tfos.records.spark.datasource import (
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

logger = logging.getLogger(__name__)

TEMPORARY = "_temporary"
SUCCESS = "_SUCCESS"

#: What becomes of a directory that has files already, by the names of Spark's save modes.
IF_EXISTS = ("append", "overwrite", "error", "ignore")


@dataclass
class Written(WriterCommitMessage):
    """What a task has written: file names, in the job's temporary directory and where they go."""

    files: list[tuple[str, str]]
    rows: int


@dataclass(frozen=True)
class Layout:
    """What goes into the files of a job."""

    #: The schema of the rows that Spark hands over.
    schema: sql.StructType
    record_type: str
    compression: str
    level: int | None
    #: Each file gets an index beside it.
    index: bool
    #: Columns whose values become directories; rows with equal ones come one behind the other.
    partition_by: tuple[str, ...] = ()


def start(
    directory: str,
    layout: Layout,
    if_exists: str,
    hadoop_environment: Mapping[str, str],
    *,
    overwrites_all: bool = True,
) -> DataSourceWriter:
    """Looks at what is there, makes the job's temporary directory, and returns Spark's writer.

    Args:
        overwrites_all: overwriting replaces all that is there, and not only what the directories of
            columns hold that the job writes to.

    Raises :class:`BadInputError` for a directory that has files, if those are in the way.
    """
    check_choice("ifExists", if_exists, IF_EXISTS)
    _native.check_record_index(layout.index, layout.compression)
    access, path = access_for(directory)
    status = access.status(path)
    if status is not None and not status.is_directory:
        raise BadInputError(f"{path} is a file; TFRecords are written into a directory")
    exists = status is not None and _has_content(access, path)
    if exists and if_exists == "error":
        raise BadInputError(
            f'{path} is there already; choose mode("overwrite") or mode("append"), or another path'
        )
    output = Output(path, uuid.uuid4().hex)
    skips = exists and if_exists == "ignore"
    if not skips:
        access.mkdirs(output.temporary)
    return TFRecordWriter(
        output,
        layout,
        overwrite=if_exists == "overwrite",
        skips=skips,
        hadoop_environment=hadoop_environment,
        overwrites_all=overwrites_all or not layout.partition_by,
    )


def _files_below(access: FileAccess, directory: str) -> Iterator[str]:
    """The files in a directory to its depth, hidden ones too, except for those of running jobs. A
    link to a directory is one of them, as what it leads to belongs to others."""
    for found in access.list(directory):
        if os.path.basename(found.path) == TEMPORARY:
            continue
        if found.is_directory and not found.is_link:
            yield from _files_below(access, found.path)
        else:
            yield found.path


def _directories_of(written: Sequence[Written], directory: str) -> set[str]:
    """Where the files go to."""
    return {
        parent_of(posixpath.join(directory, final)) for task in written for _, final in task.files
    }


def _links_to(access: FileAccess, directories: set[str], top: str) -> dict[str, str]:
    """The links of this host by which files would get into these ``directories`` below ``top``, and
    what they lead to."""
    found = {}
    for path in directories:
        while path not in (top, parent_of(path)):
            status = access.status(path)
            if status is not None and status.is_link:
                found[path] = os.readlink(path)
            path = parent_of(path)
    return found


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

    def commit(
        self, written: Sequence[Written], overwrite: bool, *, overwrites_all: bool = True
    ) -> None:
        """Makes the files visible, then deletes those that they replace, if ``overwrite``: all that
        are there, or those in the directories that the files go to.

        When not all can be made visible, none is in the end, and what was there stays. Once all are
        visible, what can't be deleted of the temporary directory is only a warning.
        """
        access, directory = access_for(self.directory)
        success = posixpath.join(directory, SUCCESS)
        replaced: list[str] = []
        links: dict[str, str] = {}
        if overwrite:
            written_to = _directories_of(written, directory)
            links = _links_to(access, written_to, directory)
            for path in [directory] if overwrites_all else sorted(written_to):
                behind_link = any(f"{path}/".startswith(f"{link}/") for link in links)
                if not behind_link and access.status(path) is not None:
                    replaced.extend(_files_below(access, path))
        was_complete = access.status(success) is not None
        access.delete(success)
        for link in links:  # Directories take their places.
            access.delete(link)
        moved: list[str] = []
        try:
            for temporary, final in (pair for task in written for pair in task.files):
                target = posixpath.join(directory, final)
                if "/" in final:
                    access.mkdirs(parent_of(target))
                # First, as a rename whose answer got lost has happened.
                moved.append(target)
                access.rename(posixpath.join(self.temporary, temporary), target)
        except BaseException:
            for path in moved:
                access.delete(path)
                _delete_empty(access, parent_of(path), directory)
            for link, leads_to in links.items():
                os.symlink(leads_to, link)
            if was_complete:
                access.create(success).close()
            raise
        replaced = [old for old in replaced if old not in links]
        for old in replaced:
            access.delete(old)
        for old in sorted({parent_of(old) for old in replaced} - {directory}, reverse=True):
            _delete_empty(access, old, directory)
        access.create(success).close()
        try:
            self.abort()
        except OSError as error:
            # The job has succeeded: Spark must not run it again, as it would append its rows twice.
            logger.warning(
                "%s can't be deleted: %s. All rows are written, and readers pass over it; delete "
                "it yourself once no job writes there",
                self.temporary,
                error,
            )

    def abort(self) -> None:
        """Deletes all that is not visible yet, of every task of the job."""
        access, directory = access_for(self.directory)
        access.delete(self.temporary)
        access.delete_if_empty(posixpath.join(directory, TEMPORARY))


def write_task(
    output: Output, batches: Iterator[pa.RecordBatch], layout: Layout, *, task: int, attempt: int
) -> Written:
    """Writes what one attempt of a task gets: a file for each run of rows with the same values in
    the columns that make directories. Without such columns that is one file, and without rows there
    is none.
    """
    written = Written([], 0)
    with_rows = (batch for batch in batches if batch.num_rows)
    runs = itertools.groupby(_runs(with_rows, layout), key=lambda run: run[0])
    for number, (directory, run) in enumerate(runs):
        name = (
            f"part-{task:05}-{number:05}-{output.job}"
            if layout.partition_by
            else f"part-{task:05}-{output.job}"
        )
        _write_file(
            output,
            f"{attempt}-{name}",
            posixpath.join(directory, name),
            (batch for _, batch in run),
            layout,
            written,
        )
    return written


def _write_file(
    output: Output,
    temporary: str,
    final: str,
    batches: Iterator[pa.RecordBatch],
    layout: Layout,
    written: Written,
) -> None:
    """Writes a file, and its index if there is to be one, and counts it as written."""
    access, _ = access_for(output.directory)
    suffix = ".tfrecord" + _native.compression_suffix(layout.compression)
    temporary, final = temporary + suffix, final + suffix
    path = posixpath.join(output.temporary, temporary)
    try:
        rows = _write(output, path, batches, layout)
        if layout.index:
            record_files.make_index(access.native_path(path))
    except BaseException:
        access.delete(path)
        access.delete(path + INDEX_SUFFIX)
        raise
    if layout.index:
        # The index first: a reader that sees the file finds its index.
        written.files.append((temporary + INDEX_SUFFIX, final + INDEX_SUFFIX))
    written.files.append((temporary, final))
    written.rows += rows


def _write(output: Output, path: str, batches: Iterator[pa.RecordBatch], layout: Layout) -> int:
    access, _ = access_for(output.directory)
    schema = data_schema(layout.schema, layout.partition_by)
    # No directories: a task that Spark has yet to stop would make those of its failed job again.
    writer = _native.RecordWriter(
        access.native_path(path), layout.compression, layout.level, makes_directories=False
    )
    if layout.record_type == "ByteArray":
        for record in _records_of(batches, schema.names[0]):
            writer.write(record)
    else:
        for batch in batches:
            writer.write_examples(types.from_spark(batch, schema), layout.record_type)
    # Such stores make directories in any case, when the file appears.
    if access.creates_whole(path) and access.status(output.temporary) is None:
        raise FileNotFoundError(f"{output.temporary} is not there; the job has failed")
    writer.close()
    return writer.records


def data_schema(schema: sql.StructType, partition_by: Sequence[str]) -> sql.StructType:
    """The columns that go into records."""
    return sql.StructType([field for field in schema if field.name not in partition_by])


def _runs(
    batches: Iterator[pa.RecordBatch], layout: Layout
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batches, cut where the directory of their rows changes, with that directory ("":
    none)."""
    if not layout.partition_by:
        yield from (("", batch) for batch in batches)
        return
    import pyarrow.compute

    for batch in batches:
        keys = [
            pyarrow.compute.run_end_encode(batch.column(layout.schema.names.index(name)))
            for name in layout.partition_by
        ]
        data = batch.select(
            [
                number
                for number, name in enumerate(layout.schema.names)
                if name not in layout.partition_by
            ]
        )
        begin = 0
        for end in sorted({end for key in keys for end in key.run_ends.to_pylist()}):
            values = [
                batch.column(layout.schema.names.index(name))[begin].as_py()
                for name in layout.partition_by
            ]
            yield (
                listing.directory_of(zip(layout.partition_by, values, strict=True)),
                data.slice(begin, end - begin),
            )
            begin = end


def _records_of(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[bytes]:
    for batch in batches:
        column = batch.column(0)
        if column.null_count:
            raise BadInputError(f"column {name} has nulls, which are not records; filter them out")
        yield from column.cast(pa.binary()).to_pylist()


class TFRecordWriter(DataSourceArrowWriter):
    """Spark's writer. Owner: Spark; pickled from driver to tasks. Made by :func:`start`."""

    def __init__(
        self,
        output: Output,
        layout: Layout,
        *,
        overwrite: bool,
        skips: bool,
        hadoop_environment: Mapping[str, str],
        overwrites_all: bool,
    ):
        self._output = output
        self._layout = layout
        self._overwrite = overwrite
        #: As of :func:`start`.
        self._overwrites_all = overwrites_all
        #: There is data already, and it is to stay as it is.
        self._skips = skips
        self._hadoop_environment = hadoop_environment

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Runs in a task: writes its rows into files that nobody sees yet."""
        from pyspark import TaskContext

        if self._skips:
            return Written([], 0)
        hadoop_settings.adopt(self._hadoop_environment)
        context = TaskContext.get()
        return write_task(
            self._output,
            iterator,
            self._layout,
            task=context.partitionId(),
            attempt=context.taskAttemptId(),
        )

    def commit(self, messages: list[Any]) -> None:
        """Runs on the driver once every task has succeeded."""
        hadoop_settings.adopt(self._hadoop_environment)
        if not self._skips:
            self._output.commit(
                [message for message in messages if message],
                self._overwrite,
                overwrites_all=self._overwrites_all,
            )

    def abort(self, messages: list[Any]) -> None:
        """Runs on the driver when the job has failed."""
        hadoop_settings.adopt(self._hadoop_environment)
        if not self._skips:
            self._output.abort()


def _delete_empty(access: FileAccess, path: str, top: str) -> None:
    """Deletes a directory below ``top``, and those above it, as far as nothing is in them."""
    while path != top:
        access.delete_if_empty(path)
        if access.status(path) is not None:
            return
        path = parent_of(path)
