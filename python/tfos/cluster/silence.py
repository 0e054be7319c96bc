"""Coordinators that stand still: the process that has started one looks whether it still runs."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

#: How often within the limit it is looked whether the coordinator has given a sign of life.
_LOOKS = 10
_SWITCHES = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)$", re.MULTILINE)
#: The process has ended, and its parent has not waited for it yet.
_ENDED = re.compile(r"^State:\s*[ZX]", re.MULTILINE)
#: What /proc calls the states in which a process does nothing (proc_pid_stat(5)).
_STATES = {
    "T": "the process is stopped by SIGSTOP",
    "t": "a debugger holds the process",
    "D": "the process waits in the kernel, for a disk or a file system that does not answer",
}


@dataclass
class Silence:
    """How long somebody has given no sign of life. Threads: one.

    Only the time counts in which this process was awake itself: a host or a program that was
    suspended has lost nobody.

    Attributes:
        limit: seconds, from which on the silence is too long.
        look: seconds between two looks. If more have passed, this process was suspended, so at
            most two looks count.
    """

    limit: float
    look: float
    _seconds: float = field(default=0.0, init=False)

    def end(self) -> None:
        """There is a sign of life."""
        self._seconds = 0.0

    def goes_on(self, seconds: float) -> bool:
        """Adds ``seconds`` of silence. Returns whether it is too long now."""
        self._seconds += min(seconds, 2 * self.look)
        return self._seconds >= self.limit


class SilenceWatch:
    """Tells when a coordinator stands still. It looks at its deadlines in each heartbeat interval,
    so the kernel counts that its thread runs again and again. Where the kernel does not count that,
    nobody watches.

    Agents notice such a coordinator, and end their nodes. But its pipe stays open, so the driver
    would wait for its messages for ever.

    Owner and lifetime: the :class:`tfos.cluster.coordinator_process.CoordinatorProcess`, until
    ``stop``. Threads: one of its own. It ends with the first silence that is too long, and with
    the process.

    limit: seconds without a sign of life, more than a heartbeat interval. on_silence: called from
    the thread, once.
    """

    def __init__(self, pid: int, limit: float, on_silence: Callable[[], None]):
        self._pid = pid
        self._silence = Silence(limit, limit / _LOOKS)
        self._on_silence = on_silence
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="tfos-silence", daemon=True).start()

    def stop(self) -> None:
        """From now on silence is nothing to tell. May be called twice."""
        self._stopped.set()

    def _watch(self) -> None:
        """Body of the thread."""
        before, since = signs_of_life(self._pid), time.monotonic()
        while before is not None and not self._stopped.wait(self._silence.look):
            signs, now = signs_of_life(self._pid), time.monotonic()
            if signs == ():
                signs = before
            elif signs != before:
                self._silence.end()
            elif self._silence.goes_on(now - since):
                self._on_silence()
                return
            before, since = signs, now


def signs_of_life(pid: int) -> tuple[int, ...] | None:
    """What grows as long as the main thread of a process runs: its context switches and its
    processor time. None if the process has ended, or if the kernel does not count switches. Empty
    if the counts can't be read now, as no descriptor is left."""
    try:
        status, stat = _read(pid, "status"), _read(pid, "stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        logger.debug("whether the coordinator runs can't be seen: %s", error)
        return ()
    switches = tuple(map(int, _SWITCHES.findall(status)))
    if not switches or _ENDED.search(status):
        return None
    user, system = _fields(stat)[11:13]
    return (*switches, int(user), int(system))


def why_silent(pid: int) -> str:
    """What the kernel says of a process that does not answer, for people; "" where it runs."""
    try:
        state, *_ = _fields(_read(pid, "stat"))
    except OSError:
        return ""
    return _STATES.get(state, "")


def _read(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}") as file:
        return file.read()


def _fields(stat: str) -> list[str]:
    """Those behind the name of the program, which may be anything. The first one is the state."""
    return stat.rpartition(")")[2].split()
