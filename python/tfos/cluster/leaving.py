"""Telling the nodes of a cluster whose executors Spark is about to take away."""

from __future__ import annotations

import logging
import threading
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES, Coordinator, node_name
from tfos.spark.connect import ConnectContext

logger = logging.getLogger(__name__)

_ENABLED = "spark.decommission.enabled"
#: An executor that runs no task ends a second after the notice, so nodes hear of it well before.
_INTERVAL_SECONDS = 0.2


class LeavingWatch:
    """Looks which executors Spark decommissions, and tells the coordinator the nodes beside them.

    The resource manager, the executor itself or dynamic allocation may ask for it, and Spark's
    driver knows in each case. It can't call Python, so Python asks it again and again.

    Owner and lifetime: a thread of its own that ends with the cluster. It is not started where
    Spark decommissions no executor (``spark.decommission.enabled``), nor with Spark Connect, whose
    server does not tell. Threads: any.
    Errors: none; what fails is logged, and asked again as long as there is a SparkContext.
    """

    def __init__(self, spark_context: Any, coordinator: Coordinator, ended: threading.Event):
        self._spark_context = spark_context
        self._coordinator = coordinator
        self._ended = ended
        #: Nodes with their executors and agents: one that is lost may come again on another, or on
        #: the same.
        self._told: set[tuple[int, str, int]] = set()
        enabled = spark_context.getConf().get(_ENABLED, "false").lower() == "true"
        if enabled and not isinstance(spark_context, ConnectContext):
            threading.Thread(target=self._run, name="tfos-leaving", daemon=True).start()

    def _run(self) -> None:
        answers = True
        while not self._ended.wait(_INTERVAL_SECONDS):
            try:
                self._look()
                answers = True
            except Exception as error:  # a thread's boundary: the next look may find all well
                if self._ended.is_set():
                    return
                if self._spark_context._jsc is None:
                    logger.warning(
                        "nodes are no longer told which executors Spark is taking away: its "
                        "SparkContext has ended"
                    )
                    return
                if answers:
                    logger.warning(
                        "Spark does not say which executors it is taking away; it is asked again "
                        "and again: %s",
                        error,
                    )
                answers = False

    def _look(self) -> None:
        decommissioned = self._decommissioned()
        if not decommissioned:
            return
        for node in self._coordinator.nodes():
            number, executor = node["node_id"], node["executor_id"]
            if executor not in decommissioned or node["state"] in FINAL_STATES:
                continue
            life = (number, executor, node["agent_pid"])
            if life in self._told:
                continue
            self._told.add(life)
            reason = f"executor {executor} is being decommissioned"
            logger.warning("%s will be lost: %s", node_name(node), reason)
            self._coordinator.send("leaving", node_id=number, reason=reason)

    def _decommissioned(self) -> set[str]:
        """The executors that Spark is about to take away. All are asked for at once, so that a look
        costs as much with a thousand executors as with two."""
        scheduler = self._spark_context._jsc.sc().taskScheduler()
        # Spark changes it meanwhile: what this look misses, the next one finds.
        executors = scheduler.executorsPendingDecommission().keySet().mkString(",")
        return set(filter(None, executors.split(",")))
