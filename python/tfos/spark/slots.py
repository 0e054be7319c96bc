"""How many tasks a Spark application can run at once, compared with what a cluster needs.

A node holds a task slot while it starts. When there are too few, Spark would keep the rest waiting
silently, so the shortage is said before anything starts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfos.errors import BadInputError
from tfos.spark import allocation, profiles
from tfos.spark.connect import ConnectContext

_POLL_SECONDS = 0.1


def available_slots(spark_context: Any, profile: Any = None) -> int:
    """Tasks that the executors registered so far can run at the same time, busy ones included.
    ``profile`` is Spark's own, of Java, of these tasks; None: the default."""
    context = spark_context._jsc.sc()
    if profile is None:
        profile = context.resourceProfileManager().defaultResourceProfile()
    return context.maxNumConcurrentTasks(profile)


def expected_slots(master: str, task_cpus: int = 1) -> int | None:
    """What a master URL of fixed size promises once it is up; None when the URL does not say."""
    match = re.match(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]$", master)
    if match:
        executors, cores = int(match.group(1)), int(match.group(2))
        return executors * (cores // task_cpus)
    if master == "local":
        return 1
    match = re.match(r"local\[\s*(\d+)\s*(,\s*\d+\s*)?\]$", master)
    return int(match.group(1)) // task_cpus if match else None


def wait_for_slots(
    spark_context: Any,
    needed: int,
    timeout: float,
    *,
    first_executor_timeout: float = 600,
    while_waiting: Callable[[str], None] = lambda doing: None,
    what: str = "nodes",
    profile: Any = None,
) -> None:
    """Returns once ``needed`` tasks can run at the same time, waiting for executors to register.

    Raises BadInputError, with the numbers and what to change, at once when the master's size cannot
    suffice. Otherwise when no executor has registered for ``timeout`` seconds after the one before
    it. The first one may take ``first_executor_timeout``, as a resource manager must start
    it. With dynamic allocation Spark asks for executors only when tasks wait, so only the most that
    it may ask for is checked. ``while_waiting`` is called again and again with what is waited for.
    ``what`` each of them runs is for messages. ``profile``: the ResourceProfile of these tasks;
    None: Spark's default.
    """
    conf = spark_context.getConf()
    dynamic = allocation.is_dynamic(spark_context)
    if profile is None and not dynamic:  # Of a profile, only Spark itself knows what it takes.
        expected = expected_slots(spark_context.master, int(conf.get("spark.task.cpus", "1")))
        if expected is not None and expected < needed:
            raise _shortage(spark_context, conf, expected, needed, what)
    if isinstance(spark_context, ConnectContext):
        return  # Its server does not tell. A launch that lacks slots says so.
    of_java = profiles.java_profile(spark_context, profile)
    if dynamic:
        allocation.check_most_executors(spark_context, of_java, needed, what)
        return
    before = 0
    deadline = time.monotonic() + max(timeout, first_executor_timeout)
    # Spark's handler of Ctrl-C calls the JVM from the main thread. If that were calling it just
    # then, the Ctrl-C would be lost.
    with ThreadPoolExecutor(1, "tfos-slots") as asker:
        while (slots := asker.submit(available_slots, spark_context, of_java).result()) < needed:
            if slots > before:
                before = slots
                deadline = time.monotonic() + timeout
            # The threads of a local master are there from the start; executors may still register.
            if spark_context.master.startswith("local[") or time.monotonic() >= deadline:
                raise _shortage(spark_context, conf, slots, needed, what)
            while_waiting(f"waiting for executors: {slots} of {needed} task slots")
            time.sleep(_POLL_SECONDS)


def _shortage(spark_context: Any, conf: Any, slots: int, needed: int, what: str) -> BadInputError:
    cores = conf.get("spark.executor.cores", "not set")
    cpus = conf.get("spark.task.cpus", "1")
    if slots == 0:
        return BadInputError(
            f"{needed} {what} were asked for and no executor of Spark ({spark_context.master}) has "
            "registered: its resource manager may have no free cores or memory, or its hosts can't "
            "reach this driver"
        )
    if spark_context.master.startswith("local"):
        # Its size is in its URL, and nothing else changes it.
        more = "give the master a larger size: local[CORES] or local-cluster[EXECUTORS,CORES,MB]"
        later = ""
    else:
        more = (
            "give the application more executors or cores (--num-executors, --executor-cores, "
            "spark.cores.max)"
        )
        later = ". If more executors are about to register, raise spark.tfos.slots.timeout"
    return BadInputError(
        f"{needed} {what} were asked for and Spark ({spark_context.master}) has {slots} task "
        f"slot(s) (spark.executor.cores: {cores}, spark.task.cpus: {cpus}). Ask for at most "
        f"{slots} {what}, or {more}, or lower spark.task.cpus{later}"
    )
