"""What Spark tells a Python worker of its task, for another process that runs the task's program.

Programs find it in classes of pyspark: ``TaskContext``, ``BarrierTaskContext``, ``SparkFiles`` and
broadcast variables. Accumulators are not among it: Spark asks only the worker for them.

Errors: none. Threads: the one that runs the task, or the program.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tfos.spark import versions


@dataclasses.dataclass(frozen=True)
class TaskState:
    """What one worker knows, to be pickled. Its repr has no secrets."""

    #: Attributes of the context.
    context: dict[str, Any] = dataclasses.field(repr=False)
    #: Where tasks of a barrier stage meet, and the secret for that; None in other stages.
    barrier: tuple[Any, Any] | None = dataclasses.field(repr=False)
    files: str | None
    #: Attributes of the broadcast variables, by their numbers.
    broadcasts: dict[int, dict[str, Any]] = dataclasses.field(repr=False)


def of_this_task() -> TaskState:
    """That of the task that this worker runs."""
    from pyspark import BarrierTaskContext, SparkFiles, TaskContext

    context = TaskContext.get()
    barrier = None
    if isinstance(context, BarrierTaskContext):
        barrier = (versions.place_of_barrier(), BarrierTaskContext._secret)
    return TaskState(
        vars(context),
        barrier,
        SparkFiles._root_directory,
        {number: _contents(one) for number, one in versions.broadcasts().items()},
    )


def adopt(state: TaskState) -> None:
    """Has programs in this process find that state, as pyspark's worker does at a task's begin."""
    from pyspark import BarrierTaskContext, Broadcast, SparkFiles, TaskContext

    if state.barrier is None:
        context = TaskContext._getOrCreate()
    else:
        context = BarrierTaskContext._getOrCreate()
        BarrierTaskContext._initialize(*state.barrier)
        TaskContext._setTaskContext(context)
    vars(context).update(state.context)
    SparkFiles._root_directory = state.files
    SparkFiles._is_running_on_worker = True
    for number, contents in state.broadcasts.items():
        broadcast = versions.broadcasts()[number] = object.__new__(Broadcast)
        vars(broadcast).update(contents)


def _contents(broadcast: Any) -> dict[str, Any]:
    """Its attributes, without a value that its file has, too."""
    contents = dict(vars(broadcast))
    if "_path" in contents:
        contents.pop("_value", None)
    return contents
