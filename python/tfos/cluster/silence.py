"""Coordinators that stand still: the process that has started one asks it whether it answers."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tfos.base.network import host_and_port

logger = logging.getLogger(__name__)

#: How often within the limit it is looked whether the coordinator has given a sign of life.
_LOOKS = 10
#: What /proc calls the states in which a process does nothing (proc_pid_stat(5)).
_STATES = {
    "T": "the process is stopped by SIGSTOP",
    "t": "a debugger holds the process",
    "D": "the process waits in the kernel, for a disk or a file system that does not answer",
}


@dataclass
class Silence:
    """How long somebody has not answered. Threads: one.

    Only the time counts in which this process was awake itself: a host or a program that was
    suspended has lost nobody.

    Attributes:
        limit: seconds, from which on the silence is too long.
        look: seconds between two looks. More than two of them were not spent awake.
        has_answered: whether an answer can come at all. A coordinator that can't be reached is not
            silent.
    """

    limit: float
    look: float
    has_answered: bool = False
    _seconds: float = field(default=0.0, init=False)

    def end(self) -> None:
        """There is a sign of life."""
        self._seconds = 0.0

    def answer(self) -> None:
        """As ``end``, by an answer."""
        self.has_answered = True
        self.end()

    def goes_on(self, seconds: float) -> bool:
        """Nothing has come for so long. Whether that is too long now."""
        if self.has_answered:
            self._seconds += min(seconds, 2 * self.look)
        return self._seconds >= self.limit


class SilenceWatch:
    """Asks a coordinator for a page of its HTTP server whenever it says nothing by itself, and
    tells when it does not answer.

    Agents notice a coordinator that stands still, and end their nodes. But its pipe stays open, so
    the driver would wait for its messages for ever.

    Owner and lifetime: the :class:`tfos.cluster.coordinator_process.CoordinatorProcess`, until
    ``stop``. Threads: one of its own, which ends with the first silence that is too long.

    limit: seconds in which it must answer. said: how many messages it has sent by itself.
    on_silence: called from the thread, once.
    """

    def __init__(
        self,
        address: str,
        port: int,
        limit: float,
        said: Callable[[], int],
        on_silence: Callable[[], None],
    ):
        self._address = (address, port)
        # The answer needs no key: another program may have the port once the coordinator has died.
        host = host_and_port(address, port)
        self._request = f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        self._silence = Silence(limit, limit / _LOOKS)
        self._said = said
        self._on_silence = on_silence
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="tfos-silence", daemon=True).start()

    def stop(self) -> None:
        """From now on silence is nothing to tell. May be called twice."""
        self._stopped.set()

    def _watch(self) -> None:
        """Body of the thread."""
        heard = self._said()
        while not self._stopped.is_set():
            # The first look asks in any case: else nobody knows that an answer can come.
            before, heard = heard, self._said()
            if heard != before and self._silence.has_answered:
                self._silence.end()
            elif self._is_silent(heard):
                if not self._stopped.is_set():
                    self._on_silence()
                return
            self._stopped.wait(self._silence.look)

    def _is_silent(self, heard: int) -> bool:
        """Asks once. False as soon as there is a sign of life, or nobody listens: then it has
        ended, which its pipe tells."""
        silence, began = self._silence, time.monotonic()
        connection = None
        try:
            while not self._stopped.is_set():
                try:
                    if connection is None:
                        connection = socket.create_connection(self._address, silence.look)
                        connection.sendall(self._request)
                    connection.recv(1)
                    silence.answer()
                    return False
                except TimeoutError:
                    if self._said() != heard:
                        silence.end()
                        return False
                    now = time.monotonic()
                    if silence.goes_on(now - began):
                        return True
                    began = now
        except OSError as error:
            logger.debug("the coordinator can't be asked whether it answers: %s", error)
            silence.end()
        finally:
            if connection is not None:
                connection.close()
        return False


def why_silent(pid: int) -> str:
    """What the kernel says of a process that does not answer, for people; "" where it runs."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return _STATES.get(state, "")
