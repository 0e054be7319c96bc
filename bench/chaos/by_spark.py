"""What Spark itself kills, as its users, its dynamic allocation and its speculation have it do."""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.protocol import Py4JJavaError

#: More than a stage has tasks here.
_MOST_TASKS = 1000


class Executor:
    """Another one comes in place of the one that was killed."""

    def __init__(self, spark_context: Any, executor_id: str):
        self._spark = spark_context._jsc.sc()
        self._id = executor_id

    def kill(self) -> None:
        self._spark.killAndReplaceExecutor(self._id)


class Task:
    """Spark starts another attempt of one that was killed."""

    def __init__(self, spark_context: Any, task_id: int):
        self._spark = spark_context._jsc.sc()
        self._id = task_id

    def kill(self) -> None:
        self._spark.killTaskAttempt(self._id, True, "killed by bench/chaos")


def running_task(spark_context: Any, executor_id: str) -> Task | None:
    """One that runs on the executor; None where there is none."""
    tracker, store = spark_context.statusTracker(), spark_context._jsc.sc().statusStore()
    for stage_id in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(stage_id)
        if stage is None:
            continue
        with contextlib.suppress(Py4JJavaError):  # The stage has ended meanwhile.
            tasks = store.taskList(stage_id, stage.currentAttemptId, _MOST_TASKS)
            for place in range(tasks.size()):
                task = tasks.apply(place)
                if task.status() == "RUNNING" and task.executorId() == executor_id:
                    return Task(spark_context, task.taskId())
    return None
