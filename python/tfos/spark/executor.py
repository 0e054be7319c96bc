"""Which executor a Spark task runs in, as its Python worker can tell, and where Python finds
modules there."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def executor_id() -> str:
    """A name of this task's executor: the same in all its tasks, and another one in every other
    executor of the host.

    Spark tells its Python workers no executor id, but on Kubernetes, in SPARK_EXECUTOR_ID.
    Elsewhere it is the process of the JVM above the worker (and its daemon): ``process 1234``.
    """
    given = os.environ.get("SPARK_EXECUTOR_ID")
    return given or f"process {executor_pid()}"


def executor_pid() -> int:
    """The executor's JVM above this task's Python worker, on this host."""
    parent = os.getppid()
    pid = parent
    while pid > 1:
        # pid (command) state ppid ...; the command may hold spaces and parentheses.
        command, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        if command == "java":
            return pid
        pid = int(rest.split()[1])
    return parent


def python_path() -> str:
    """PYTHONPATH for a fresh interpreter that is to find what this worker finds: entries of a
    worker's sys.path are relative to directories of Spark's."""
    return os.pathsep.join(dict.fromkeys(os.path.abspath(entry) for entry in sys.path if entry))
