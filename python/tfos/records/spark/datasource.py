"""Spark's interface for data sources in Python, which Spark has from 4.0 on.

For Spark 3.5 there are classes of the same names, which Spark does not know. So the reader and the
writer of TFRecords load there too, and :mod:`tfos.records.spark.jobs` calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceWriter,
        InputPartition,
        WriterCommitMessage,
    )
except ImportError:

    class DataSource:  # type: ignore[no-redef]
        """What is asked for readers and writers."""

        def __init__(self, options: Mapping[str, str]):
            self.options = options

    class DataSourceReader:  # type: ignore[no-redef]
        """What reads in tasks."""

    class DataSourceWriter:  # type: ignore[no-redef]
        """What writes in tasks, and commits on the driver."""

    class DataSourceArrowWriter(DataSourceWriter):  # type: ignore[no-redef]
        """One that takes record batches."""

    class InputPartition:  # type: ignore[no-redef]
        """What one task reads."""

        def __init__(self, value: Any):
            self.value = value

    class WriterCommitMessage:  # type: ignore[no-redef]
        """What a task tells the driver that it has written."""


__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceWriter",
    "InputPartition",
    "WriterCommitMessage",
]
