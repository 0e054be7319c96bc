"""Child processes that this one talks to over their standard input and output."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any

from tfos.base.environment import without_spark_secrets
from tfos.errors import TfosError

#: Of messages that children begin with.
_FIRST_TYPES = ("listening", "fatal", "failed")
#: Bytes of a line that isn't such a message, in an error.
_MOST_QUOTED = 200
_PR_SET_PDEATHSIG = 1


def start(
    command: Sequence[str],
    *,
    own_session: bool = False,
    keep_fds: Sequence[int] = (),
    environment: Mapping[str, str] = os.environ,
) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
    """A child, what it reads, and what it writes. With ``own_session`` Ctrl-C at a terminal is for
    this process to deal with, not for the child. It inherits the descriptors ``keep_fds``, under
    their numbers, and of ``environment`` all but Spark's secrets."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=without_spark_secrets(environment),
        start_new_session=own_session,
        pass_fds=keep_fds,
    )
    assert process.stdin is not None and process.stdout is not None  # As was asked for.
    return process, process.stdin, process.stdout


def end_with(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, or the parent's thread that started
    it. ``parent`` is the parent's number: where it has ended already, this process ends here."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
    if os.getppid() != parent:
        os._exit(1)


def signal_name(number: int) -> str:
    """The name of a signal: ``SIGKILL``, or ``signal 35``, as most of those for real-time use have
    none."""
    known = number in list(signal.Signals)
    return signal.Signals(number).name if known else f"signal {number}"


def end_input(to_child: IO[bytes]) -> None:
    """Closes what a child reads. That the child ended before it read everything is not an error
    here: its exit code and its output tell."""
    with contextlib.suppress(BrokenPipeError):
        to_child.close()


def first_message(line: bytes, who: str, pid: int) -> dict[str, Any]:
    """What a child begins with: that it listens, or why it can't; ``{}`` if it ended before the
    line was whole. Raises :class:`TfosError`, which calls the child ``who``, for other lines."""
    if not line.endswith(b"\n"):
        return {}
    with contextlib.suppress(ValueError):  # Neither JSON nor UTF-8.
        message = json.loads(line)
        if isinstance(message, dict) and message.get("type") in _FIRST_TYPES:
            return message
    raise TfosError(
        f"{who} (process {pid} on {socket.gethostname()}) said {line[:_MOST_QUOTED]!r} in place of "
        "where it listens: something else writes to its standard output, such as a script that "
        "stands for its program, or a library in LD_PRELOAD. Remove that; `tfos doctor` checks the "
        "installation"
    )
