"""A driver of test_resume.py: DIRECTORY RUN KIND REMAINDER [AFTER]. It feeds three epochs of rows
of that kind. With AFTER, a node kills it in the second epoch, when there is a checkpoint of so many
steps."""

from __future__ import annotations

import os
import pathlib
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession

import tfos
from support.programs import checkpoints as programs

EPOCHS = 3


def main(directory, run, kind, remainder, after=""):
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .getOrCreate()
    )
    args = {
        "resume": f"{directory}/run",
        "notes": directory,
        "run": int(run),
        "kind": kind,
        "remainder": remainder or None,
        "epochs": EPOCHS,
        "kill": os.getpid() if after else None,
        "after": int(after or 0),
    }
    with tfos.run(
        spark,
        programs.fit_and_note_rows,
        nodes=2,
        args=args,
        resume=args["resume"],
        progress=True,
    ) as cluster:
        cluster.train(programs.numbered_rows(spark, kind), epochs=EPOCHS)
    complaint = cluster.ledger().complaint()
    print(cluster.ledger().lines(), complaint, flush=True)
    assert complaint is None and not cluster.ledger().ended_early
    spark.stop()


main(*sys.argv[1:])
