#!/usr/bin/env python3
"""Archives the classes that Spark loads at its start, for Java to map instead of reading and
verifying them each time: a JVM of Spark's then takes two thirds of the CPU to start.

    tools/archive_spark_classes.py ARCHIVE

Does nothing where the archive is there already. For `java -XX:SharedArchiveFile=ARCHIVE`, which
goes without it where it does not fit: another Java, Spark or garbage collector.
"""

import os
import pathlib
import sys

_END_TIMEOUT_S = 300
#: What uses the archive must use the same collector.
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable -XX:ArchiveClassesAtExit={}"


def _use_spark():
    """What most programs do, with the executor's part in the same JVM, for the classes that this
    needs."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    spark.sparkContext.parallelize(range(4), 2).map(lambda n: n + 1).sum()
    frame = spark.range(4).selectExpr("id", "id * 2 AS twice")
    frame.repartition(2).mapInArrow(lambda batches: batches, frame.schema).collect()
    spark.stop()


def main():
    archive = pathlib.Path(sys.argv[1]).resolve()
    if archive.exists():
        return
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-java-options '{_JVM.format(unfinished)}' pyspark-shell"
    )
    from pyspark import SparkContext

    _use_spark()
    java = SparkContext._gateway.proc
    java.stdin.close()  # It ends with its standard input, and writes the archive then.
    java.wait(_END_TIMEOUT_S)
    unfinished.rename(archive)


if __name__ == "__main__":
    main()
