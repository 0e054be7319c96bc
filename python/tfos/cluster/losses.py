"""What Spark says of an executor that a node has failed or was lost with: where its log is, and
that YARN preempted its container, or ended it for its memory."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from tfos.spark.connect import ConnectContext

logger = logging.getLogger(__name__)

#: The end of a node is known before YARN has told Spark of its container's.
_PATIENCE_SECONDS = 5.0
_POLL_SECONDS = 0.1
#: Steps of a failure that an executor which ends may be behind. YARN sends TERM to all processes of
#: the container, so that the task may have gone before its executor.
_STEPS = frozenset({"watch the executor", "follow the launch task", "watch the node"})

_OF_MEMORY = (
    "The memory of nodes counts for their container, beside that of Java: raise "
    "spark.executor.memoryOverhead"
)
#: What to do about a reason of Spark's that has one of these in it.
_ADVICE = (
    (
        "was preempted",
        "YARN gave its room to another queue. Submit to a queue with a larger share of its own "
        "(--queue), or start the cluster with nodes=(least, most): the others go on then",
    ),
    ("exceeding physical memory limits", _OF_MEMORY),
    ("exceeding virtual memory limits", _OF_MEMORY),
    (
        "Exit status: 143",
        f"Its NodeManager's log says who ended it. If that was for its memory: {_OF_MEMORY}",
    ),
    (
        "Exit status: 137",
        f"Its NodeManager's log says who ended it. If that was for its memory: {_OF_MEMORY}",
    ),
)


class ExecutorLosses:
    """Asks Spark's driver where an executor's log is, and why it has lost an executor.

    The latter only on YARN, which ends containers for reasons of its own. A server of Spark Connect
    tells neither.
    Owner and lifetime: the cluster, as long as it runs. Threads: any.
    Errors: none; what Spark does not tell is left out.
    """

    def __init__(self, spark_context: Any):
        told = not isinstance(spark_context, ConnectContext)
        self._of_logs = spark_context if told else None
        self._spark_context = spark_context if told and spark_context.master == "yarn" else None

    def may_explain(self, failure: dict[str, Any]) -> bool:
        """Whether Spark may have more to say of the failure of a cluster, be it after a while."""
        return self._of_logs is not None and failure.get("executor_id", "").isdigit()

    def explained(self, failure: dict[str, Any]) -> dict[str, Any]:
        """The failure with Spark's reason in its message, if it has one, and with `output_url`,
        where Spark shows all that the executor has written."""
        if not self.may_explain(failure):
            return failure
        executor_id = failure["executor_id"]
        reason = self._reason(executor_id) if failure["step"] in _STEPS else ""
        url = self._output_url(executor_id)
        return (
            failure
            | ({"message": f"{failure['message']}. {reason}"} if reason else {})
            | ({"output_url": url} if url else {})
        )

    def tell(self, node: dict[str, Any]) -> None:
        """Logs why a node is lost, once Spark knows that."""

        def log() -> None:
            if reason := self._reason(node["executor_id"]):
                logger.warning("%s", reason)

        if self._spark_context is not None:
            threading.Thread(target=log, name="tfos-why-lost", daemon=True).start()

    def _output_url(self, executor_id: str) -> str:
        try:
            return output_url(self._of_logs, executor_id)
        except Exception as error:  # the session may end meanwhile
            logger.info("Spark does not say where the log of %s is: %s", executor_id, error)
            return ""

    def _reason(self, executor_id: str) -> str:
        """A sentence of Spark's and what to do about it; empty if Spark still has the executor."""
        if self._spark_context is None or not executor_id.isdigit():
            return ""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        try:
            while not (reason := why_removed(self._spark_context, executor_id)):
                if time.monotonic() >= deadline:
                    return ""
                time.sleep(_POLL_SECONDS)
        except Exception as error:  # the session may end meanwhile
            logger.info("Spark does not say what became of executor %s: %s", executor_id, error)
            return ""
        said = f"Spark says of executor {executor_id}: {reason}"
        advice = next((advice for part, advice in _ADVICE if part in reason), "")
        return f"{said}. {advice}" if advice else said


def output_url(spark_context: Any, executor_id: str) -> str:
    """Where Spark shows the standard error of an executor; empty where it does not."""
    summary = spark_context._jsc.sc().statusStore().executorSummary(executor_id)
    url = summary.executorLogs().get("stderr")
    return str(url.get()) if url.isDefined() else ""


def why_removed(spark_context: Any, executor_id: str) -> str:
    """Why Spark's driver has removed an executor, in its words; empty if it has not."""
    summary = spark_context._jsc.sc().statusStore().executorSummary(executor_id)
    reason = summary.removeReason()
    # The lines below it are YARN's, of the shell in the container.
    text = str(reason.get()).partition("\n")[0] if reason.isDefined() else ""
    return text.strip().rstrip(".")
