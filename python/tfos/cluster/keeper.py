"""Keeps a coordinator on an executor, for a driver program that reaches neither: the other end of
:mod:`tfos.cluster.connect` (docs/formats/control-protocol.md, "Keeper").

A Spark task starts it as a process of its own and ends. The keeper is what the coordinator takes
for its driver: it holds both ends of its pipes, and hands messages and events on over HTTPS. It
ends the cluster when the executor dies, or when the client was silent for the time of its lease.

Its certificate is made for this one keeper, and reaches the client through Spark. So the client's
end on Spark's server, which may lack tfos, needs nothing but Python's own TLS.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hmac
import http.server
import itertools
import json
import os
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from typing import Any

from tfos import _native
from tfos.base import child, keys, quantities
from tfos.base.environment import without_spark_secrets
from tfos.base.network import both_families, network_and_host
from tfos.cluster.coordinator_process import CoordinatorProcess
from tfos.errors import TfosError
from tfos.spark import executor

PATH = "/v1/driver"
#: On top of the lease, for the client to hear of the keeper and for the server to start Python.
FIRST_CALL_SECONDS = 60.0
#: The most bytes of a request.
_MOST_BYTES = 8 << 20
#: Characters of events that wait for the client. Beyond that no more are read, so that an answer
#: goes through Spark's server.
_MOST_WAITING = 4 << 20
#: Of a stranger's request, before it has shown the key: as the coordinator takes.
_MOST_HEAD_BYTES = 8 << 10
#: One that comes more costs another its place.
_MOST_STRANGERS = 64
#: For a stranger to show a key, and for each step of what follows.
_CONNECTION_SECONDS = 10.0
_LONGEST_WAIT_SECONDS = 10.0
#: For the coordinator to stop all nodes at the end of its input, beyond their grace.
_END_SECONDS = 15.0
#: For the client to hear of the end.
_LINGER_SECONDS = 15.0


def start(bootstrap: dict[str, Any]) -> dict[str, Any]:
    """What a Spark task does: starts a keeper beside its executor, and returns what it said first,
    ``listening`` or ``fatal``."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tfos.cluster.keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**without_spark_secrets(os.environ), "PYTHONPATH": executor.python_path()},
    )
    watched = {"watch_pid": executor.executor_pid(), "executor": executor.executor_id()}
    answer, _ = process.communicate(json.dumps({**bootstrap, **watched}).encode() + b"\n")
    try:
        first = child.first_message(answer, "the coordinator's keeper", process.pid)
    except TfosError as error:  # The client raises it.
        first = {"type": "fatal", "message": str(error)}
    return first or {"type": "fatal", "message": "its keeper ended at once"}


class Keeper:
    """A coordinator and its events, for the client that has the key to steer it.

    Owner and lifetime: its process. Threads: one reads events, one serves each connection, the
    main one watches. Errors: told to the client as failures of the cluster.
    """

    def __init__(self, bootstrap: dict[str, Any]):
        self._start = bootstrap["start"]
        self._ports = bootstrap["ports"]
        self._lease = bootstrap["lease"]
        self._authorization = f"Bearer {keys.key_for(self._start['token'], 'steer')}"
        self._executor_id = bootstrap["executor"]
        self._place = f"executor {self._executor_id} on {socket.gethostname()}"
        self._executor = os.pidfd_open(bootstrap["watch_pid"])
        self._changed = threading.Condition()
        self._events: list[str] = []
        self._first = 0  # number of the first of them
        self._size = 0  # of all of them, in characters
        self._urgent = 0  # so many events, up to the last that must not wait
        self._taking = threading.Lock()
        self._taken = 0  # number of the next message of the client
        self._ends = False  # all its events are read, however many wait
        self._end: str | None = None
        self._end_was_told = threading.Event()
        self._heard = time.monotonic() + FIRST_CALL_SECONDS
        self._awake, self._wake = os.pipe()
        self._coordinator = CoordinatorProcess()

    def listen(self) -> dict[str, Any]:
        """Starts all; the message ``listening``."""
        first = self._coordinator.listen(self._start)
        try:
            certificate, private_key = _native.new_certificate()
            tls = _tls(certificate, private_key)
            server = _serve(self._start["bind_address"], self._ports, self, tls)
        except BaseException:
            self._coordinator.kill()
            raise
        threading.Thread(target=server.serve_forever, name="requests", daemon=True).start()
        threading.Thread(target=self._read, name="events", daemon=True).start()
        return {
            **first,
            "executor": self._executor_id,
            "place": self._place,
            "pid": self._coordinator.pid,
            "keeper_port": server.server_address[1],
            "certificate": certificate,
        }

    def watch(self) -> None:
        """Returns when the coordinator and all nodes have ended."""
        poll = select.poll()
        for descriptor in (self._executor, self._awake):
            poll.register(descriptor, select.POLLIN)
        reason = ""
        while not reason:
            # The first call shortens what is left, so it is looked at again after a lease.
            left = min(self._heard + self._lease - time.monotonic(), self._lease)
            ready = {descriptor for descriptor, _ in poll.poll(max(0, left * 1000))}
            if self._awake in ready:
                break
            if self._executor in ready:
                reason = (
                    f"{self._place}, which the coordinator runs beside, has ended. All nodes stop "
                    "with it. Start the cluster again from the last checkpoint"
                )
            elif time.monotonic() - self._heard >= self._lease:
                reason = (
                    f"the program that started the cluster over Spark Connect was silent for "
                    f"{self._lease:g} s (spark.tfos.connect.lease): it has died, or can't reach "
                    "Spark's server"
                )
        if reason:
            failure = {"type": "fail", "node": -1, "step": "coordinate the cluster"}
            self._coordinator.send(json.dumps({**failure, "message": reason, "traceback": ""}))
            self._coordinator.end_input()
            with self._changed:
                self._ends = True
                self._changed.notify_all()
            _log(f"the cluster ends: {reason}")
        grace = self._start.get("stop_grace_ms", 0) / 1000
        self._coordinator.await_end(grace + _END_SECONDS)
        if time.monotonic() - self._heard < self._lease:
            self._end_was_told.wait(_LINGER_SECONDS)

    def is_allowed(self, authorization: str) -> bool:
        """Whether a request has the key."""
        return hmac.compare_digest(authorization.encode(), self._authorization.encode())

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Hands the messages of a request on, and returns the events that it asks for."""
        self._heard = time.monotonic()
        self._take(request["lines"], request.get("first", 0))
        after = request.get("after")
        if after is None:
            return {}
        wait = min(request["wait_ms"] / 1000, _LONGEST_WAIT_SECONDS)
        with self._changed:
            taken = self._events[: max(0, after - self._first)]
            del self._events[: len(taken)]
            self._first = max(self._first, after)
            self._size -= sum(map(len, taken))
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._urgent > after or self._end is not None, wait)
            self._heard = time.monotonic()
            return {
                "events": list(self._events),
                "next": self._first + len(self._events),
                "end": self._end,
            }

    def _take(self, lines: list[str], first: int) -> None:
        """Hands messages on, of which each is taken once: a client that did not get the answer
        sends them again, also while an earlier request is still on its way."""
        with self._taking:
            for number, line in enumerate(lines, first):
                if number >= self._taken:
                    self._taken = number + 1
                    self._coordinator.send(line)

    def was_sent(self, answer: dict[str, Any]) -> None:
        """An answer has left this process, which may end once it told of the coordinator's end."""
        if answer.get("end") is not None:
            self._end_was_told.set()

    def _read(self) -> None:
        """Body of the thread that takes the coordinator's events. However it ends, the client and
        :meth:`watch` hear of it: nothing else tells them that no event comes any more."""
        end = "the keeper failed to read the coordinator's events"
        try:
            self._take_events()
            end = self._coordinator.how_it_ended()
        except Exception as error:
            traceback.print_exc()  # into the executor's log
            end = f"{end}: {type(error).__name__}: {error}"
        finally:
            with self._changed:
                self._end = end
                self._changed.notify_all()
            os.write(self._wake, b"\n")

    def _take_events(self) -> None:
        for line in self._coordinator.lines():
            with self._changed:
                # The coordinator bounds what it can't hand over, and has better ways than to keep
                # all: of metrics it keeps the latest.
                self._changed.wait_for(lambda: self._size < _MOST_WAITING or self._ends)
                self._events.append(line.decode())
                self._size += len(self._events[-1])
                if json.loads(line)["type"] != "metrics":
                    self._urgent = self._first + len(self._events)
                    self._changed.notify_all()


@dataclasses.dataclass
class _Stranger:
    connection: socket.socket
    origin: tuple[bytes, bytes]
    until: float  # when its time is over


class _Strangers:
    """Connections that have not shown a key. The rules are those of the acceptor that guards the
    other ports (src/net/handshake/acceptor.h), which can't be used here: its handshake needs tfos
    at both ends, and Spark's server may lack it. One too many costs the oldest of the busiest host
    its place, and each has a deadline, however slowly it speaks: so strangers of a few addresses
    keep no client of another one out.

    Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, _Stranger] = {}  # by number, the oldest first
        self._numbers = itertools.count()

    def enter(self, connection: socket.socket, address: str) -> int:
        """Returns its number."""
        until = time.monotonic() + _CONNECTION_SECONDS
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = _Stranger(connection, network_and_host(address), until)
            if len(self._waiting) > _MOST_STRANGERS:
                self._cut(self._first_to_go())
            return number

    def _first_to_go(self) -> int:
        """The oldest of the busiest host in the busiest network."""
        hosts = Counter(stranger.origin for stranger in self._waiting.values())
        networks = Counter(stranger.origin[0] for stranger in self._waiting.values())

        def how_busy(number: int) -> tuple[int, int]:
            origin = self._waiting[number].origin
            return networks[origin[0]], hosts[origin]

        return max(self._waiting, key=how_busy)

    def became(self, number: int, connection: socket.socket) -> None:
        """TLS took the socket over."""
        with self._lock:
            if number in self._waiting:
                self._waiting[number].connection = connection
            else:
                _hang_up(connection)

    def leave(self, number: int) -> bool:
        """It has shown the key, or closes. Whether it still had its place."""
        with self._lock:
            return self._waiting.pop(number, None) is not None

    def cut_late(self) -> None:
        """Cuts those whose time is over."""
        now = time.monotonic()
        with self._lock:
            for number in [n for n, who in self._waiting.items() if who.until <= now]:
                self._cut(number)

    def _cut(self, number: int) -> None:
        _hang_up(self._waiting.pop(number).connection)


def _log(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # The executor that reads this may be gone.
        print(f"tfos: {text}", file=sys.stderr, flush=True)


def _hang_up(connection: socket.socket) -> None:
    """Its thread, which waits for it, closes it."""
    with contextlib.suppress(OSError):  # The other end may have gone.
        # An SSLSocket's own would take TLS from under that thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Server(http.server.ThreadingHTTPServer):
    """Serves each connection in a thread of its own."""

    daemon_threads = True
    #: As the other ports of tfos: a client that finds no room must try again a second later. A
    #: burst of strangers fills a short queue before a thread of Python can take one of them.
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], keeper: Keeper, tls: ssl.SSLContext):
        host, port = both_families(address[0]), address[1]
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.keeper = keeper
        self.strangers = _Strangers()
        self._tls = tls
        self._told_of_alteration = False
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def service_actions(self) -> None:
        """Comes between connections, twice a second at least."""
        self.strangers.cut_late()

    def process_request(self, request: Any, client_address: Any) -> None:
        number = self.strangers.enter(request, client_address[0])
        serve = threading.Thread(
            target=self._serve, args=(request, client_address, number), daemon=True
        )
        serve.start()

    def _serve(self, request: Any, client_address: Any, number: int) -> None:
        connection = request
        try:
            request.settimeout(_CONNECTION_SECONDS)
            # It detaches the socket that it is given. So the handshake, which may take long, comes
            # only when the new one can be cut.
            connection = self._tls.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            )
            self.strangers.became(number, connection)
            connection.do_handshake()
            _Handler(number, connection, client_address, self)
        except ssl.SSLError as error:
            self._tell_of_alteration(error, client_address[0])
        except OSError:
            pass  # A stranger without TLS, without end or too slow, or a client that has gone.
        finally:
            self.strangers.leave(number)
            self.shutdown_request(connection)

    def _tell_of_alteration(self, error: ssl.SSLError, address: str) -> None:
        """Once, as a stranger may do the same as often as he likes."""
        if "BAD_RECORD_MAC" in str(error.reason) and not self._told_of_alteration:
            self._told_of_alteration = True
            _log(
                f"data between {address} and the keeper on {socket.gethostname()} was altered in "
                "transit and is refused, with all that follows it in its connection. This is said "
                "once"
            )


class _HeadTooLongError(OSError):
    """A stranger sends more than any client does."""


class _Input:
    """What a connection sends: lines up to a limit, for the head, and then a body of any length."""

    def __init__(self, file: Any):
        self._file = file
        self._left = _MOST_HEAD_BYTES

    def readline(self, size: int) -> bytes:
        line = self._file.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise _HeadTooLongError(f"a head of more than {_MOST_HEAD_BYTES} bytes")
        return line

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def close(self) -> None:
        self._file.close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """One request of a connection."""

    timeout = _CONNECTION_SECONDS
    server: _Server

    def __init__(self, number: int, *arguments: Any):
        self._number = number
        super().__init__(*arguments)

    def setup(self) -> None:
        super().setup()
        self.rfile = _Input(self.rfile)  # type: ignore[assignment]

    def do_POST(self) -> None:
        if not self.server.keeper.is_allowed(self.headers.get("Authorization", "")):
            self.send_error(401)
            return
        if not self.server.strangers.leave(self._number):
            return  # It was cut, so its client asks again.
        size = int(self.headers.get("Content-Length", "0"))
        if self.path != PATH or size > _MOST_BYTES:
            self.send_error(404 if self.path != PATH else 413)
            return
        request = self.rfile.read(size)
        if len(request) < size:
            return  # Its connection was cut.
        answer = self.server.keeper.answer(json.loads(request))
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.keeper.was_sent(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests come every second or so: not for the log."""


def _tls(certificate: str, private_key: str) -> ssl.SSLContext:
    """A server's. The key lies in memory only, under a name of this process."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    descriptor = os.memfd_create("tfos-keeper")
    with open(descriptor, "w") as file:
        file.write(certificate + private_key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    return context


def _serve(address: str, ports: str, keeper: Keeper, tls: ssl.SSLContext) -> _Server:
    """A server on the first free port of a range."""
    first, last = quantities.port_range(ports)
    for port in range(first, last + 1):
        try:
            return _Server((address, port), keeper, tls)
        except OSError as error:
            trouble = error
    raise TfosError(
        f"no port of spark.tfos.coordinator.port={ports} is free on {socket.gethostname()} for the "
        f"coordinator's keeper, which Spark Connect needs: {trouble}. Give a range of two or more"
    )


def main() -> None:
    """Reads the bootstrap from standard input, leaves the Spark task, and says on standard output
    where it listens."""
    bootstrap = json.loads(sys.stdin.readline())
    if os.fork():
        os._exit(0)  # The task reaps this one.
    try:
        keeper = Keeper(bootstrap)
        said = keeper.listen()
    except Exception as error:  # a process's boundary: the task tells the client
        said = {"type": "fatal", "message": f"{type(error).__name__}: {error}"}
    print(json.dumps(said), flush=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (sys.stdin.fileno(), sys.stdout.fileno()):
        os.dup2(nothing, descriptor)
    if said["type"] == "listening":
        keeper.watch()


if __name__ == "__main__":
    main()
