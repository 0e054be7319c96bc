"""How the value that a program returns gets from its node to the launch task, and to the driver.

The task opens a file in memory, which its agent hands on to the node. The node writes it when
the program has returned, and the task reads it when the node has ended. So no file is left when one
of them is killed, and no disk can be full. Spark carries the value to the driver as the task's own
result.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import IO, Any

from tfos.errors import BadInputError

#: The number of the file's descriptor, in the environment of a node.
VARIABLE = "TFOS_RESULT_FD"

#: What a pickled value may have. Larger ones belong in files.
MOST_BYTES = 1 << 20


class _TooLarge(Exception):
    """The value has more bytes than may be sent."""


class _Bounded(io.BytesIO):
    """Takes no more than may be sent, so that a large value is not pickled to its end."""

    def write(self, data: Any) -> int:
        # A large array comes as a buffer, which has no length of its own.
        if self.tell() + memoryview(data).nbytes > MOST_BYTES:
            raise _TooLarge
        return super().write(data)


def open_file() -> IO[bytes]:
    """An empty file in this host's memory. It ends with the last descriptor of it."""
    return open(os.memfd_create("tfos-result"), "w+b")


def inherited() -> int | None:
    """The descriptor of the file in a node; None where nobody asks for the value. Called once,
    before the program, whose own processes get neither the variable nor the file."""
    number = os.environ.pop(VARIABLE, None)
    if number is None:
        return None
    os.set_inheritable(int(number), False)
    return int(number)


def write(descriptor: int, value: Any) -> None:
    """Leaves ``value`` in the file, or why it can't be sent: that fails who asks for it, not the
    program."""
    from tfos.base.programs import program_pickle

    content = _Bounded()
    try:
        program_pickle.dump(value, content)
        outcome = (content.getvalue(), "")
    except _TooLarge:
        outcome = (b"", f"it has more than {MOST_BYTES >> 20} MiB: write it to a file instead")
    except Exception as error:  # whatever pickling runs into
        outcome = (b"", f"it can't be pickled ({type(error).__name__}: {error})")
    with open(descriptor, "wb", closefd=False) as file:
        pickle.dump(outcome, file)


def read(file: IO[bytes]) -> bytes | None:
    """What a node left in the file; None where its program did not return."""
    file.seek(0)
    return file.read() or None


def value_of(content: bytes | None, who: str) -> Any:
    """The value in what ``read`` found; None where there is none. BadInputError where it can't be
    sent."""
    if content is None:
        return None
    pickled, why = pickle.loads(content)
    if why:
        raise BadInputError(f"what the program of {who} returned can't be sent: {why}")
    return pickle.loads(pickled)
