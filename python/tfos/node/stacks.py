"""What the threads of a node are doing, for people who ask with ``tfos stack``.

The native side asks for it, on a thread of its own: with Python's lock :func:`text`, and without it
faulthandler where a thread does not let go of the lock. The agent adds the threads' native calls.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from types import FrameType

from tfos.node.agent_link import AgentLink

#: By which the native side finds faulthandler. Nobody sends it to the process. Not SIGUSR1, which
#: programs use, nor SIGUSR2, which Java does.
SIGNAL = signal.SIGRTMIN + 9
#: The most frames of one thread, the innermost ones.
_MOST_FRAMES = 100


def serve(link: AgentLink) -> None:
    """From now on people may ask. Call it on the main thread."""
    file = os.memfd_create("tfos-stacks")
    faulthandler.register(SIGNAL, file=file, all_threads=True)
    link.native.serve_stacks(SIGNAL, file)  # Both have it open from here on.


def text() -> str:
    """The stacks of all threads of Python, each with the latest call last."""
    own, main = threading.get_ident(), threading.main_thread().ident
    names = {thread.ident: _name(thread) for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)
    return "\n".join(
        _stack(names.get(ident, f"thread {ident:#x}"), frame)
        for ident, frame in frames
        if ident != own
    )


def _name(thread: threading.Thread) -> str:
    kind = " (daemon)" if thread.daemon else ""
    return f"thread {thread.native_id} {thread.name!r}{kind}"


def _stack(name: str, frame: FrameType) -> str:
    lines = traceback.format_stack(frame)
    left_out = len(lines) - _MOST_FRAMES
    if left_out > 0:
        lines = [f"  ... {left_out} calls are left out ...\n", *lines[left_out:]]
    return f"{name}, the latest call last:\n{''.join(lines)}"
