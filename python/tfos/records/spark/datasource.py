"""Spark's interface for data sources in Python, all of which Spark has from 4.1 on."""

from __future__ import annotations

import pyspark

from tfos.errors import TfosError

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceWriter,
        InputPartition,
        WriterCommitMessage,
    )
except ImportError as error:
    raise TfosError(
        f"the format tfrecord needs Spark 4.1 or newer, and this is PySpark {pyspark.__version__}: "
        'install "pyspark>=4.1,<5"'
    ) from error

__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceWriter",
    "InputPartition",
    "WriterCommitMessage",
]
