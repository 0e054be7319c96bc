"""The process that runs a program of the user: what a traceback shows of it, and how it ends."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def from_the_program_on(error: BaseException, file: str) -> BaseException:
    """``error`` without the first frames of its traceback, as far as they are of ``file``: the
    module that called the program, which is the same every time."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename == file:
        first = first.tb_next
    return error if first is None else error.with_traceback(first)


def leave(code: int) -> NoReturn:
    """Ends the process after its exit handlers, without waiting for anything else.

    TensorFlow's servers and collectives have threads that a regular interpreter exit can hang on;
    a process that has handed over its result holds nothing that the exit handlers don't take care
    of.
    """
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also when the program has closed its streams
        os._exit(code)
