"""How large a cluster the Spark session was made for: ``tfos.util.num_executors(spark)``.

For programs, such as notebooks, whose session is configured elsewhere:

    nodes = util.num_executors(spark)
    tfos.run(spark, train, nodes=nodes, parameter_servers=util.num_param_servers(spark))
"""

from __future__ import annotations

from typing import Any

from tfos.errors import BadInputError
from tfos.settings import PARAMETER_SERVERS
from tfos.spark.sessions import context_of, spark_context_of

_DYNAMIC = "spark.dynamicAllocation.enabled"
_MOST_EXECUTORS = "spark.dynamicAllocation.maxExecutors"


def num_executors(spark: Any) -> int:
    """How many executors the session asks for: ``spark.executor.instances``, or with dynamic
    allocation ``spark.dynamicAllocation.maxExecutors``; else how many there are at the moment."""
    configuration = context_of(spark).getConf()
    dynamic = configuration.get(_DYNAMIC, "false").lower() == "true"
    key = _MOST_EXECUTORS if dynamic else "spark.executor.instances"
    if configuration.contains(key):
        return _count(configuration, key, "executors")
    if dynamic:
        raise BadInputError(
            f"with dynamic allocation the number of executors is {key}, which this "
            "session does not set"
        )
    # All but the driver.
    return max(1, len(spark_context_of(spark)._jsc.sc().statusTracker().getExecutorInfos()) - 1)


def num_param_servers(spark: Any) -> int:
    """How many parameter servers the session asks for, with ``spark.tfos.parameterServers``; else
    none. They count among the executors."""
    configuration = context_of(spark).getConf()
    for key in PARAMETER_SERVERS:
        if configuration.contains(key):
            return _count(configuration, key, "parameter servers")
    return 0


def _count(configuration: Any, key: str, what: str) -> int:
    text = configuration.get(key)
    if not text.isdigit():
        raise BadInputError(f"{key}={text} is not a number of {what}")
    return int(text)
