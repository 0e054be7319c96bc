"""Dynamic allocation: whether Spark brings and removes executors as tasks come and go, and what
follows from that for nodes, which are not tasks.

Errors: none but those that a function names. Threads: any.
"""

from __future__ import annotations

import logging
from typing import Any

from tfos.errors import BadInputError
from tfos.spark.connect import ConnectContext

logger = logging.getLogger(__name__)

_PREFIX = "spark.dynamicAllocation."
_MOST_EXECUTORS = f"{_PREFIX}maxExecutors"
_CACHED_IDLE_TIMEOUT = f"{_PREFIX}cachedExecutorIdleTimeout"


def is_dynamic(spark_context: Any) -> bool:
    """Whether Spark chooses the number of executors. Local masters have none to choose."""
    conf = spark_context.getConf()
    master = spark_context.master
    is_local = master == "local" or master.startswith("local[")
    return not is_local and conf.get(f"{_PREFIX}enabled", "false").lower() == "true"


def check_most_executors(spark_context: Any, profile: Any, needed: int, what: str) -> None:
    """Raises BadInputError when all executors that Spark may bring have too few slots.

    ``profile`` is Spark's own, of Java, of the tasks that take the slots. Where its executors have
    as many cores as their host, nobody knows the number of slots, and nothing is checked.
    """
    conf = spark_context.getConf()
    most = conf.get(_MOST_EXECUTORS)
    if most is None:
        return
    slots = profile.maxTasksPerExecutor(spark_context._jsc.sc().conf())
    if not profile.isCoresLimitKnown() or int(most) * slots >= needed:
        return
    raise BadInputError(
        f"{needed} {what} were asked for and dynamic allocation may bring {most} executor(s) "
        f"({_MOST_EXECUTORS}) of {slots} task slot(s) each. Ask for at most {int(most) * slots} "
        f"{what}, or raise {_MOST_EXECUTORS} or spark.executor.cores"
    )


def executors_for_people(spark_context: Any) -> str:
    """How many executors there are of those that Spark may bring, as far as its driver tells."""
    if isinstance(spark_context, ConnectContext):
        return "dynamic allocation brings executors"
    count = spark_context._jsc.sc().schedulerBackend().getExecutorIds().size()
    most = spark_context.getConf().get(_MOST_EXECUTORS, "no limit")
    return (
        f"dynamic allocation has brought {count} executor(s) ({_MOST_EXECUTORS}: {most}): the "
        "resource manager may have no free cores or memory for more"
    )


def warn_of_idle_executors(spark_context: Any) -> None:
    """Warns if Spark may remove idle executors with nodes that are fed, or with a coordinator.

    Cached data keeps them (:class:`tfos.cluster.launcher.Launcher`), unless such executors have a
    timeout, too.
    """
    if not is_dynamic(spark_context):
        return
    timeout = spark_context.getConf().get(_CACHED_IDLE_TIMEOUT)
    if timeout is None:
        return
    logger.warning(
        "%s is %s: an executor that runs no task for that long is removed with its nodes, or with "
        "the coordinator of Spark Connect, which fails the cluster. Leave it out (then Spark keeps "
        "such executors), or raise it above the longest time that such an executor has no task",
        _CACHED_IDLE_TIMEOUT,
        timeout,
    )
