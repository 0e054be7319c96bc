"""The lives of nodes that are killed and come again. A life is one process of a node; a folder has
a file for each, and the process writes its number there when it is about to join the others.

Programs of nodes use it. All run on one host, so that one sees whether another's process lives.
"""

from __future__ import annotations

import os
import pathlib
import signal

import psutil

from support.waiting import wait_for


def begin_life(ctx):
    """How many lives this node has had before."""
    life = len(_lives_of(ctx, ctx.rank))
    _file_of(ctx, ctx.rank, life).touch()
    return life


def say_it_joins(ctx):
    """Called when the next thing that this node does is to join the others."""
    file = _file_of(ctx, ctx.rank, len(_lives_of(ctx, ctx.rank)) - 1)
    whole = file.with_name(f".{file.name}")
    whole.write_text(str(os.getpid()))
    whole.replace(file)


def wait_for_those_who_join(ctx):
    """Returns when each node that trains lives, and is with the others or about to join them."""
    wait_for(lambda: all(_is_with_others(ctx, rank) for rank in range(ctx.size)), "the other nodes")


def kill_after(spins):
    """Ends this process after some work of the processor."""
    for _ in range(spins):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def _is_with_others(ctx, rank):
    lives = len(_lives_of(ctx, rank))
    pid = _file_of(ctx, rank, lives - 1).read_text() if lives else ""
    return pid != "" and psutil.pid_exists(int(pid))


def _lives_of(ctx, rank):
    return list(pathlib.Path(ctx.args["dir"]).glob(f"{rank}-*"))


def _file_of(ctx, rank, life):
    return pathlib.Path(ctx.args["dir"]) / f"{rank}-{life}"
