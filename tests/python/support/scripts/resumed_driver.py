"""A driver of test_resume.py: DIRECTORY EPOCHS [dies]. With ``dies`` a node kills it when the first
epoch is kept."""

from __future__ import annotations

import os
import pathlib
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession

import tfos
from support.programs import checkpoints as programs


def main(directory, epochs, dies=""):
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .getOrCreate()
    )
    args = {
        "resume": f"{directory}/run",
        "notes": directory,
        "epochs": int(epochs),
        "kill": os.getpid() if dies else None,
    }
    with tfos.run(
        spark, programs.fit_what_is_left, nodes=2, args=args, resume=args["resume"]
    ) as cluster:
        cluster.train(programs.rows_to_fit(spark), epochs=args["epochs"])
    print(cluster.ledger().delivered, flush=True)
    spark.stop()


main(*sys.argv[1:])
