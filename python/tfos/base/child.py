"""Child processes that this one talks to over their standard input and output."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from typing import IO

from tfos.base.environment import without_spark_secrets


def start(
    command: Sequence[str], *, own_session: bool = False, keep_fds: Sequence[int] = ()
) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
    """A child, what it reads, and what it writes. With ``own_session`` Ctrl-C at a terminal is for
    this process to deal with, not for the child. It inherits the descriptors ``keep_fds``, under
    their numbers, and none of Spark's secrets."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=without_spark_secrets(os.environ),
        start_new_session=own_session,
        pass_fds=keep_fds,
    )
    assert process.stdin is not None and process.stdout is not None  # As was asked for.
    return process, process.stdin, process.stdout


def end_input(to_child: IO[bytes]) -> None:
    """Closes what a child reads. That the child ended before it read everything is not an error
    here: its exit code and its output tell."""
    with contextlib.suppress(BrokenPipeError):
        to_child.close()
