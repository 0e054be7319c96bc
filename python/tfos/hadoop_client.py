"""Hadoop's client of this process: which schemes it serves, and where it finds its jars.

docs/hdfs.md has the settings. Java starts with the first path that is used, not here.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
from pathlib import Path

from tfos import _native

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
    return _native.HadoopClient(_pyspark_home())


def _pyspark_home() -> str:
    """Where the installed pyspark keeps its jars, for a process without SPARK_HOME; else "".

    On YARN Spark puts a pyspark of its own, in a zip file and without jars, in front of it.
    """
    directories = [entry for entry in sys.path if os.path.isdir(entry)]
    spec = importlib.machinery.PathFinder.find_spec("pyspark", directories)
    return str(Path(spec.origin).parent) if spec is not None and spec.origin else ""
