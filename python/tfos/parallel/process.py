"""The process of an instance that has GPUs, as its Spark task sees it.

TensorFlow holds a GPU's memory until its process ends, and Spark keeps the process of a task for
the next one. So such an instance has a process that ends with it, and the GPU is free then.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfos.base import child, gpu
from tfos.base.environment import without_spark_secrets
from tfos.base.programs import program_result
from tfos.files import hadoop_settings
from tfos.parallel.outcome import Outcome
from tfos.spark import executor, task_state


@dataclasses.dataclass(frozen=True)
class Order:
    """What the process is to do, over its standard input."""

    #: Descriptors that it inherits, and holds until it ends.
    held: Sequence[int]
    task: task_state.TaskState
    #: Pickled by :mod:`tfos.base.programs.program_pickle`.
    program: bytes
    instance: Any


def run(
    program: bytes, instance: Any, held: Sequence[int], hadoop_environment: Mapping[str, str]
) -> Outcome:
    """Runs the pickled ``main(instance)`` in a fresh process, which sees ``instance.gpus`` alone.

    The process writes where this one does, and has ended when this returns or raises. It is killed
    when this one is. Until it has ended it holds the descriptors ``held``, too.

    ``hadoop_environment`` are variables for Hadoop's client, except for those that this process has
    of its own.
    """
    order = pickle.dumps(Order(held, task_state.of_this_task(), program, instance))
    with program_result.open_file() as result:
        environment = {
            **hadoop_environment,
            **hadoop_settings.without_adopted(without_spark_secrets(os.environ)),
            **gpu.environment(instance.gpus),
            "PYTHONPATH": executor.python_path(),
            program_result.VARIABLE: str(result.fileno()),
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tfos.parallel", str(os.getpid())],
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=(result.fileno(), *held),
        )
        try:
            process.communicate(order)
        finally:
            process.kill()  # It has ended, unless something interrupts this task.
            process.wait()
        content = program_result.read(result)
    if process.returncode != 0 or content is None:
        return Outcome(failure=_how_it_ended(process.returncode))
    outcome: Outcome = pickle.loads(content)
    return outcome


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return (
            f"its process ended with code {code} before it had handed over what the program "
            "returned; its output is in the executor's log\n"
        )
    hint = ", as on a host that runs out of memory" if code == -signal.SIGKILL else ""
    return f"its process was ended by {child.signal_name(-code)}{hint}\n"
