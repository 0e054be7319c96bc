"""DataFrames through a SavedModel in the executors' JVMs, without Python workers.

The jar does it (:mod:`tfos.spark.jar`, tfos.internal.inference.FrameInference), with the engine of
:mod:`tfos.inference`; here is what the driver needs to know of it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from tfos.errors import BadInputError
from tfos.files.access import scheme_of
from tfos.inference import model
from tfos.settings import INFERENCE_JVM
from tfos.spark import jar
from tfos.spark.sessions import context_of


def why_unused(frame: Any) -> str:
    """Why Python workers must run a model over ``frame``; "" when executors' JVMs do. Raises
    :class:`BadInputError` when the session wants JVMs, which can't."""
    spark = frame.sparkSession
    wanted = INFERENCE_JVM.of(spark)
    unused = jar.why_unused(context_of(spark), INFERENCE_JVM.key, wanted)
    if unused:
        return unused
    if frame.isStreaming:
        unused = "the DataFrame is a stream"
        hint = "which only Python workers read: set it to auto, or call transform in foreachBatch"
    elif spark.sparkContext._jvm.tfos.internal.spark.Sql.isObserved(frame._jdf):
        unused = "the DataFrame has metrics of observe"
        hint = "which only arrive with Python workers: set it to auto, or observe the result"
    if unused and wanted == "on":
        raise BadInputError(f"{INFERENCE_JVM.key} is on, and {unused}, {hint}")
    return unused


def transform(frame: Any, plan: model.Inference) -> DataFrame:
    """A lazy DataFrame of what ``plan`` makes of the rows."""
    spark = frame.sparkSession
    path = plan.model.path
    if not scheme_of(path):
        path = f"file://{path}"  # Hadoop would look for it on the default file system.
    runner = spark.sparkContext._jvm.tfos.internal.inference.FrameInference
    result = runner.transform(frame._jdf, plan.to_json(), path, spark.sparkContext.pythonExec)
    return DataFrame(result, spark)
