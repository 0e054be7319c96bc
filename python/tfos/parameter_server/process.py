"""A parameter server as a child process of this one, for programs without a cluster of nodes."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess

from tfos.base import child, executable, keys
from tfos.errors import TfosError
from tfos.parameter_server.connection import Server

_END_SECONDS = 10.0


class ParameterServerProcess:
    """``tfos parameter-server``, which listens on all interfaces of this host.

    Owner and lifetime: its maker calls ``close``; it ends with this process in any case.
    Errors: TfosError when it can't listen.
    """

    def __init__(self, address: str, port: int = 0, encrypt: str = "auto"):
        """``address``: where clients find this host. ``port``: 0 for a free one. ``encrypt``:
        "auto", "true" or "false", as ``spark.tfos.encrypt``."""
        #: What workers and the server know: its key for parameters, in hexadecimal.
        self.key = keys.key_for(keys.new_token(), "parameters")
        identity = secrets.token_hex(8)
        # A session of its own: Ctrl-C at a terminal is for the program to deal with.
        self._process, self._input, self._output = child.start(
            [executable.path(), "parameter-server"], own_session=True
        )
        first = {
            "key": self.key,
            "address": "0.0.0.0",
            "port": port,
            "id": identity,
            "encrypt": encrypt,
        }
        with contextlib.suppress(BrokenPipeError):  # It has ended, as its output shows.
            self._input.write(json.dumps(first).encode() + b"\n")
            self._input.flush()
        try:
            said = child.first_message(self._output.readline(), "the parameter server", self.pid)
            if said.get("type") != "listening":
                why = said.get("message", "it has ended, and `tfos doctor` may say why")
                raise TfosError(
                    f"the parameter server could not listen on port {port} of "
                    f"{socket.gethostname()}: {why}; choose another port, or 0 for a free one"
                )
        except BaseException:
            self.close()
            raise
        self.server = Server(
            f"on host {socket.gethostname()}", address, said["port"], identity, encrypt
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        child.end_input(self._input)
        self._output.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
