"""Hadoop's client of this process: which schemes it serves, and where it finds its jars.

docs/hdfs.md has the settings. Java starts with the first path that is used, not here.
"""

from __future__ import annotations

import functools
import os

from tfos import _native
from tfos.spark import installation

DEFAULT_SCHEMES = ("hdfs", "viewfs")
#: Environment variable with further schemes, separated by commas, such as ``s3a,abfs``.
SCHEMES_VARIABLE = "TFOS_HADOOP_SCHEMES"


def schemes() -> list[str]:
    """``hdfs``, ``viewfs`` and those of the environment."""
    more = os.environ.get(SCHEMES_VARIABLE, "").split(",")
    stripped = [name.strip().removesuffix("://") for name in more]
    return list(dict.fromkeys([*DEFAULT_SCHEMES, *filter(None, stripped)]))


@functools.cache
def client() -> _native.HadoopClient:
    """The client. Threads: any. Errors of its methods: OSError; BadInputError where a setting or a
    part of the installation is missing."""
    return _native.HadoopClient(str(installation.pyspark_home() or ""))
