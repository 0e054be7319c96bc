"""The coordinator as a child process of the driver."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

from tfos.base import child, control_message, executable
from tfos.cluster.silence import SilenceWatch, why_silent
from tfos.errors import TfosError

logger = logging.getLogger(__name__)

#: One that says nothing any more ends by then, or never.
_END_SECONDS = 5.0


class CoordinatorProcess:
    """A ``tfos coordinator`` on this host, and both ends of its pipes.

    Owner and lifetime: the :class:`tfos.cluster.coordinator.Coordinator`, which closes it. When
    this process dies instead, the coordinator sees the end of its input, stops every node and
    exits. One that stands still for the cluster's ``heartbeat_timeout`` is killed, so that its
    ``lines`` end. Threads: one reads ``lines``; the rest may be called from any thread.
    """

    def __init__(self) -> None:
        # A session of its own: Ctrl-C in the driver's terminal must not end the coordinator before
        # the driver has decided what to do.
        self._process, self._input, self._output = child.start(
            [executable.path(), "coordinator"], own_session=True
        )
        self._send_lock = threading.Lock()
        self._watch: SilenceWatch | None = None
        self._silence = ""  # why it was killed

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str:
        """For messages."""
        return f"process {self.pid} on the driver's host"

    def listen(self, start: dict[str, Any]) -> dict[str, Any]:
        """Hands it the message ``start`` and returns its ``listening``. Raises
        :class:`TfosError` with its reason if it could not start."""
        self.send(control_message.encode("start", **start))
        try:
            first = child.first_message(self._output.readline(), "the coordinator", self.pid)
            if first.get("type") != "listening":
                why = first.get("message") or f"it exited with code {self._process.wait()}"
                raise TfosError(f"the coordinator did not start: {why}")
        except BaseException:
            self._process.kill()
            self._process.wait()
            self.close()
            raise
        if limit := start.get("heartbeat_timeout_ms", 0) / 1000:
            self._watch = SilenceWatch(self.pid, limit, lambda: self._end_silence(limit))
        return first

    def _end_silence(self, limit: float) -> None:
        """It does nothing any more. Its nodes are about to end, as their agents hear nothing."""
        why = why_silent(self.pid)
        self._silence = (
            f"has stood still for {limit:g} s (spark.tfos.heartbeat.timeout)"
            f"{why and ': '}{why}. It was killed"
        )
        logger.warning("the coordinator (%s) %s", self.name, self._silence)
        self._process.kill()

    def _watch_no_more(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def send(self, line: str) -> None:
        """Sends a message. That it is gone is not an error here: ``lines`` end."""
        with self._send_lock:
            try:
                self._input.write(line.encode() + b"\n")
                self._input.flush()
            except (BrokenPipeError, ValueError) as error:
                logger.debug("the coordinator is gone, a message was not sent: %s", error)

    def lines(self) -> Iterator[bytes]:
        """What it says, until it ends."""
        try:
            for line in self._output:
                if not line.endswith(b"\n"):
                    return  # It ended in the middle of it.
                yield line
        finally:
            self._watch_no_more()

    def kill(self) -> None:
        """Ends it at once."""
        self._watch_no_more()
        self._process.kill()

    def how_it_ended(self) -> str:
        """For people; waits for its end. One that has closed its output and goes on is killed."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return "has closed its output, which its log may explain, and was killed"
        return self._silence or _how_it_ended(code)

    def await_end(self, timeout: float) -> None:
        """Waits until it has ended, as it was told; after ``timeout`` seconds kills it."""
        self._watch_no_more()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            logger.warning("coordinator %d did not exit within %s s; killing it", self.pid, timeout)
            self._process.kill()
            self._process.wait()

    def end_input(self) -> None:
        """Closes its input: it stops every node and exits, if it has not yet."""
        child.end_input(self._input)

    def close(self) -> None:
        """Once it has ended and everything was read."""
        self.end_input()
        self._output.close()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}, which its log may explain"
    name = child.signal_name(-code)
    killer = (
        ": the kernel does that when the host runs out of memory (see dmesg)"
        if name == "SIGKILL"
        else ""
    )
    return f"was killed by {name}{killer}"
