"""The process that runs a program of the user: what a traceback shows of it, and how it ends."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn


def from_the_program_on(error: BaseException, file: str) -> BaseException:
    """``error`` without the first frames of its traceback, as far as they are of ``file``: the
    module that called the program, which is the same every time."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename == file:
        first = first.tb_next
    return error if first is None else error.with_traceback(first)


def finish(say: Callable[[str], None] = lambda doing: None) -> None:
    """Waits for the threads of a program that has returned, except daemons, and runs its exit
    handlers, as Python does at its end. ``say`` hears what it waits for.

    What a program has begun may end there, such as the writing of a checkpoint. So this comes
    before the process says that it is done. Called from the main thread.
    """
    left = [thread.name for thread in threading.enumerate() if _holds_up_the_end(thread)]
    if left:
        say(f"the program has returned; waiting for its threads: {', '.join(left)}")
    threading._shutdown()  # type: ignore[attr-defined]  # Only the interpreter calls it else.
    processes = multiprocessing.active_children()  # An exit handler waits for them.
    own = f", which has processes: {', '.join(one.name for one in processes)}" if processes else ""
    say(f"running the exit handlers of the program{own}")
    atexit._run_exitfuncs()
    say("")


def _holds_up_the_end(thread: threading.Thread) -> bool:
    return not thread.daemon and thread is not threading.main_thread()


def leave(code: int) -> NoReturn:
    """Ends the process after its exit handlers, without waiting for anything else.

    TensorFlow's servers and collectives have threads that a regular interpreter exit can hang on.
    They are native: :func:`finish` does not wait for them.
    """
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:  # also when the program has closed its streams
        os._exit(code)
