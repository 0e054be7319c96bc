"""What programs pass as ``spark``: a SparkSession or a SparkContext."""

from __future__ import annotations

from typing import Any

from tfos.errors import BadInputError
from tfos.spark.connect import STOPPED, ConnectContext, is_connect


def context_of(spark: Any) -> Any:
    """The SparkContext of ``spark``, or the :class:`tfos.spark.connect.ConnectContext` of a session
    of Spark Connect. Raises :class:`BadInputError` for what has none."""
    return ConnectContext(spark) if is_connect(spark) else spark_context_of(spark)


def case_matters(session: Any) -> bool:
    """Whether capital and small letters make different names of columns to a SparkSession."""
    return session.conf.get("spark.sql.caseSensitive", "false").lower() == "true"


def spark_context_of(spark: Any) -> Any:
    """The SparkContext of ``spark``. Raises :class:`BadInputError` for what has none."""
    if is_connect(spark):
        raise BadInputError(
            "this SparkSession is one of Spark Connect, which has no SparkContext: tfos.run, "
            "tfos.ml and TFRecords do without one, and this does not. Run the program "
            "where Spark's driver runs (tfos submit, or a session made with "
            '.config("spark.api.mode", "classic") and without SPARK_REMOTE)'
        )
    context = getattr(spark, "sparkContext", spark)
    if not hasattr(context, "getConf"):
        raise BadInputError(
            f"expected a SparkSession or a SparkContext, not a {type(spark).__name__}"
        )
    if context._jsc is None:
        raise BadInputError(STOPPED)
    return context
