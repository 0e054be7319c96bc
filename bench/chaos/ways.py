"""The ways in which something fails for a while: context managers, at whose end it is whole again.

What has ended meanwhile needs no mending. Those for disks and hosts need root.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import resource
import signal

import psutil


@contextlib.contextmanager
def stopped(process: psutil.Process):
    """It stands still."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def without_descriptors(process: psutil.Process):
    """It can't open a file or a connection, or hardly any. What is open stays so. The limit is not
    below the number of those, as ``poll`` refuses more descriptors than the limit."""
    with _limited(process, resource.RLIMIT_NOFILE, process.num_fds()):
        yield


@contextlib.contextmanager
def without_memory(process: psutil.Process):
    """It gets no more memory than it has."""
    with _limited(process, resource.RLIMIT_AS, process.memory_info().vms):
        yield


@contextlib.contextmanager
def full_disk(directory: pathlib.Path):
    """Nothing can be written on the file system of ``directory``."""
    filler = directory / "filler"
    with open(filler, "xb") as file:
        while free := os.statvfs(directory).f_bavail * os.statvfs(directory).f_frsize:
            with contextlib.suppress(OSError):  # Others have taken some of it.
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def _limited(process: psutil.Process, what: int, soft: int):
    before = process.rlimit(what)
    process.rlimit(what, (soft, before[1]))
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.rlimit(what, before)
