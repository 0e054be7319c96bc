"""What programs pass as ``spark``: a SparkSession or a SparkContext."""

from __future__ import annotations

from typing import Any

from tfos.errors import BadInputError


def context_of(spark: Any) -> Any:
    """The SparkContext of ``spark``. Raises :class:`BadInputError` for what has none."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise BadInputError(
            "this SparkSession is one of Spark Connect, which has no SparkContext to start nodes "
            "with: run the program where Spark's driver runs (tfos submit, or a session made with "
            '.config("spark.api.mode", "classic") and without SPARK_REMOTE)'
        )
    context = getattr(spark, "sparkContext", spark)
    if not hasattr(context, "getConf"):
        raise BadInputError(
            f"expected a SparkSession or a SparkContext, not a {type(spark).__name__}"
        )
    return context
