"""Opens silent connections to a port of this host, or is a port that tfos has nothing to do with.

    python strangers.py PORT [--count 10000] [--patience 15] [--tell]
    python strangers.py --listen

The first one opens them as fast as it can, from several addresses of the loopback interface. It
says nothing over them and closes none: it waits until the other end has closed all, or for so many
seconds after the last one. Its last line of output is JSON with what came of them. With --tell
there is another line once all have come.

The second one prints its port, and closes all but the latest 256 until its standard input ends. So
it shows what as many connections cost this host by themselves. For silent_connections.py.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import resource
import select
import socket
import sys
import time

#: From which of them a connection comes, so that local ports don't run out.
_ADDRESSES = 100
#: An option of Linux: the local port is chosen when the other end is known.
_BIND_ADDRESS_NO_PORT = 24
#: The most that are under way, so that the other end's queue is full and nothing is refused.
_MOST_CONNECTING = 512
#: Nothing comes for that long where the other end's queue is full and nobody takes anything from it.
_FULL_SECONDS = 4.0
#: How many the neutral port keeps, as a port of tfos does.
_KEPT = 256


@dataclasses.dataclass
class Outcome:
    """What came of the connections."""

    connected: int = 0
    #: Before they were connected.
    failed: int = 0
    #: Neither: nobody takes those before them, so the system does not answer. It asks again.
    waiting: int = 0
    #: By the other end, once they were connected.
    closed: int = 0
    #: The most that were open at once, as this end sees it.
    most: int = 0
    #: For the last one to be connected, and from then on for the last one to be closed.
    connect_seconds: float = 0.0
    close_seconds: float = 0.0


class Strangers:
    """Owner and lifetime: the process. Threads: one."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._sockets: dict[int, socket.socket] = {}
        self._connecting: set[int] = set()
        self._poll = select.epoll()

    def connect(self, port: int, number: int) -> None:
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        client.bind((f"127.0.0.{2 + number % _ADDRESSES}", 0))
        client.connect_ex(("127.0.0.1", port))
        self._sockets[client.fileno()] = client
        self._connecting.add(client.fileno())
        self._poll.register(client, select.EPOLLOUT | select.EPOLLRDHUP)

    @property
    def connecting(self) -> int:
        return len(self._connecting)

    @property
    def open(self) -> int:
        return len(self._sockets) - len(self._connecting)

    def look(self, seconds: float) -> bool:
        """Notes what has happened, waiting for the first thing. Whether it came."""
        happened = self._poll.poll(seconds)
        for descriptor, event in happened:
            if descriptor in self._connecting:
                self._connecting.discard(descriptor)
                error = self._sockets[descriptor].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    self.outcome.failed += 1
                    self._sockets.pop(descriptor).close()
                    continue
                self.outcome.connected += 1
                self._poll.modify(descriptor, select.EPOLLRDHUP)
            if event & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                self.outcome.closed += 1
                self._sockets.pop(descriptor).close()
        self.outcome.most = max(self.outcome.most, self.open)
        return bool(happened)


def be_silent(port: int, count: int, patience: float, tell: bool) -> Outcome:
    strangers = Strangers()
    begun = time.monotonic()
    taken = True
    for number in range(count):
        strangers.connect(port, number)
        while taken and strangers.connecting >= _MOST_CONNECTING:
            taken = strangers.look(_FULL_SECONDS)
    while taken and strangers.connecting:
        taken = strangers.look(_FULL_SECONDS)
    connected = time.monotonic()
    strangers.outcome.connect_seconds = connected - begun
    strangers.outcome.waiting = strangers.connecting
    if tell:
        print("all have come", flush=True)
    while (strangers.open or strangers.connecting) and time.monotonic() < connected + patience:
        strangers.look(1.0)
    strangers.outcome.close_seconds = time.monotonic() - connected
    return strangers.outcome


def listen() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        print(server.getsockname()[1], flush=True)
        kept: collections.deque[socket.socket] = collections.deque()
        while True:
            ready, _, _ = select.select([server, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            kept.append(server.accept()[0])
            if len(kept) > _KEPT:
                kept.popleft().close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("port", type=int, nargs="?")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--patience", type=float, default=15.0)
    parser.add_argument("--tell", action="store_true")
    parser.add_argument("--listen", action="store_true")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if options.listen:
        listen()
    else:
        outcome = be_silent(options.port, options.count, options.patience, options.tell)
        print(json.dumps(dataclasses.asdict(outcome)))


if __name__ == "__main__":
    main()
