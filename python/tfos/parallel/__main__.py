"""The process of an instance that has GPUs: ``python -m tfos.parallel``, started by the instance's
Spark task and by nobody else."""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
import traceback

from tfos.base import child
from tfos.base.programs import program_process, program_result
from tfos.files import hadoop_settings
from tfos.parallel import outcome, process
from tfos.spark import task_state


def main() -> int:
    faulthandler.enable()  # a crash in native code shows where the program was
    child.end_with(int(sys.argv.pop()))
    result = program_result.inherited()
    assert result is not None  # As the task has asked.
    with open(0, "rb", closefd=False) as pipe:
        order: process.Order = pickle.load(pipe)
    # The program finds nothing to read, as in the task.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor in order.held:
        os.set_inheritable(descriptor, False)
    task_state.adopt(order.task)
    hadoop_settings.hide_secrets()
    found = outcome.outcome_of(order.program, order.instance)
    with open(result, "wb") as file:
        pickle.dump(found, file)
    if not found.failure:
        program_process.finish(_say)
    return 0


def _say(doing: str) -> None:
    """In the executor's log."""
    if doing:
        print(f"tfos: {doing}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except BaseException:  # Leaving so, Python does not print it.
        traceback.print_exc()
    finally:
        program_process.leave(code)
