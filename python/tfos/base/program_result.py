"""How the value that a program returns gets from its node to the launch task, and to the driver.

The task names a file; the node writes it when the program has returned, and the task reads it when
the node has ended. Spark carries it to the driver as the task's own result.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import secrets
import tempfile
from typing import Any

from tfos.errors import BadInputError

#: Names the file in the environment of a node.
VARIABLE = "TFOS_RESULT_FILE"

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


def new_path() -> str:
    """A file that nobody else knows, on the host of this process. It is not made yet."""
    return os.path.join(tempfile.gettempdir(), f"tfos-result-{secrets.token_hex(16)}")


def write(path: str, value: Any) -> None:
    """Leaves ``value`` in a new file, or why it can't be sent: that fails who asks for it, not the
    program."""
    import cloudpickle

    content = _Bounded()
    try:
        cloudpickle.dump(value, content)
        outcome = (content.getvalue(), "")
    except _TooLarge:
        outcome = (b"", f"it has more than {MOST_BYTES >> 20} MiB: write it to a file instead")
    except Exception as error:  # whatever pickling runs into
        outcome = (b"", f"it can't be pickled ({type(error).__name__}: {error})")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        pickle.dump(outcome, file)


def take(path: str) -> bytes | None:
    """What a node left in the file, which is deleted; None where its program did not return."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def value_of(content: bytes | None, who: str) -> Any:
    """The value that ``take`` took; None where there is none. BadInputError where it can't be
    sent."""
    if content is None:
        return None
    pickled, why = pickle.loads(content)
    if why:
        raise BadInputError(f"what the program of {who} returned can't be sent: {why}")
    return pickle.loads(pickled)
