"""TFRecords in Spark as tests use them: with the format of the jar, and with the one in Python."""

from __future__ import annotations

import tfos
from tfos.records.spark import sessions

#: What the format that is written in Python is called beside that of the jar.
PYTHON_FORMAT = "tfrecord_python"


class Source:
    """The format of the jar ("jvm"), or the one in Python, under a name of its own beside the other."""

    def __init__(self, spark, kind):
        self.spark = spark
        self.is_jvm = kind == "jvm"
        self._format = "tfrecord" if self.is_jvm else PYTHON_FORMAT

    def read(self, path, schema=None, **options):
        reader = self.spark.read.format(self._format).options(**options)
        return (reader.schema(schema) if schema else reader).load(
            path if isinstance(path, list) else str(path)
        )

    def write(self, frame, path, mode="append", **options):
        frame.write.format(self._format).mode(mode).options(**options).save(str(path))

    def save(self, frame, path, mode="error", partition_by=(), **options):
        """``tfos.save_tfrecords``."""
        if self.is_jvm:
            tfos.save_tfrecords(frame, str(path), mode, partition_by, **options)
            return
        columns = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        sessions.check_writable(frame, mode, columns, options)
        sessions.save_by_python(frame, str(path), mode, columns, self._format, options)


def ids(frame):
    return sorted(row["id"] for row in frame.collect())
