"""The Spark session of an example: a cluster's if one is given, else an embedded one."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

# Executors of one core each, every one a process of its own.
_EMBEDDED_MASTER = "local-cluster[{cores},1,2048]"


def add_master_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--master``, for :func:`session`."""
    parser.add_argument(
        "--master",
        help="Spark master (default: what spark-submit says, else an embedded cluster)",
    )


def add_directory_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--directory``, for what a program keeps."""
    parser.add_argument(
        "--directory", type=full_path, help="that all hosts reach; default: a temporary one"
    )


def full_path(path: str) -> str:
    """A path of the command line as nodes are to be told it: they have working directories of
    their own. A URI stays as it is."""
    return path if ":/" in path else os.path.abspath(path)


def submitted(key: str, default: Any) -> Any:
    """What spark-submit was told by --conf or an option of its own, else ``default``."""
    if not _under_spark_submit():
        return default
    from pyspark import SparkConf, SparkContext

    # Without a link to the JVM a SparkConf does not know what spark-submit was told.
    SparkContext._ensure_initialized()
    return SparkConf().get(key, str(default))


def session(name: str, master: str | None = None, cores: int = 2) -> Any:
    """Starts a SparkSession called ``name`` with ``cores`` task slots, an executor for each.

    Where spark-submit was told how many cores an executor, a task or the application has, that
    counts.
    """
    # Nodes have the environment of the Spark workers, and these the driver's.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from pyspark.sql import SparkSession

    of_task = int(submitted("spark.task.cpus", 1))
    builder = (
        SparkSession.builder.appName(name)
        .config("spark.executor.cores", submitted("spark.executor.cores", of_task))
        .config("spark.cores.max", submitted("spark.cores.max", cores * of_task))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.TF_CPP_MIN_LOG_LEVEL", os.environ["TF_CPP_MIN_LOG_LEVEL"])
    )
    # spark-submit's JVM knows the master.
    if master or not _under_spark_submit():
        builder = builder.master(master or _EMBEDDED_MASTER.format(cores=cores))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _under_spark_submit() -> bool:
    """Whether spark-submit has started the program: with a gateway to its JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
