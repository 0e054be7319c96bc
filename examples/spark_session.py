"""The Spark session of an example: a cluster's if one is given, else an embedded one."""

import os
import sys

# Executors of one core each, every one a process of its own.
EMBEDDED_MASTER = "local-cluster[{cores},1,2048]"


def add_master_argument(parser):
    parser.add_argument(
        "--master",
        help="Spark master (default: what spark-submit says, else an embedded cluster)",
    )


def session(name, master=None, cores=2):
    """Starts a SparkSession called `name` with `cores` cores in executors of one core each."""
    # Nodes have the environment of the Spark workers, and these the driver's.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.appName(name)
        .config("spark.executor.cores", 1)
        .config("spark.cores.max", cores)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.TF_CPP_MIN_LOG_LEVEL", os.environ["TF_CPP_MIN_LOG_LEVEL"])
    )
    # spark-submit runs the program with a gateway to its JVM, which knows the master.
    if master or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or EMBEDDED_MASTER.format(cores=cores))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
