"""Stages of Spark ML whose files only the session's settings make known."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.waiting import BOUND_SECONDS

#: STAGE MODELS. A process of its own, as Hadoop's client takes its settings but once, and those of
#: its environment before all others: another test may have left some in this one.
DRIVER = """
import json, sys
from pyspark.sql import SparkSession
from tensorflowonspark import pipeline
import tfos.ml

stage, models = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.hadoop.fs.viewfs.mounttable.session.link./models", models)
    .getOrCreate()
)
directory = "viewfs://session/models/tf1"
if stage == "Model":
    model = tfos.ml.Model(modelDir=directory, tags="serve,old", signature="predict")
    model.setOutputMapping({"y": "found"}).setKeepInputs(False)
else:
    model = pipeline.TFModel({}).setModelDir(directory)
    model.setTagSet("serve,old").setSignatureDefKey("predict")
    model.setInputMapping({"x": "x"}).setOutputMapping({"y": "found"})
print(json.dumps(model.transform(spark.sql("SELECT array(1d, 1d) AS x")).columns))
"""


@pytest.mark.spark
@pytest.mark.parametrize("stage", ["Model", "TFModel"])
def test_the_driver_reaches_what_the_session_reaches(models, stage):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, stage, models.as_uri()],
        stdout=subprocess.PIPE,
        env={n: value for n, value in os.environ.items() if not n.startswith("TFOS_HADOOP_")},
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    assert json.loads(done.stdout) == ["found"]
