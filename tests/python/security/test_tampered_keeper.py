"""An active attacker between Spark's server and the keeper of a cluster of Spark Connect: he changes,
cuts, repeats and leaves out what they say. The client is told each time, the keeper's log once, and
nothing is taken for what was not said."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from support.waiting import BOUND_SECONDS
from tfos.base import keys
from tfos.cluster import keeper
from tfos.cluster.connect import _asking

TOKEN = keys.new_token()
KEY = keys.key_for(TOKEN, "steer")
START = {
    "protocol": 1,
    "cluster_id": "0123456789abcdef",
    "token": TOKEN,
    "encrypt": "auto",
    "bind_address": "127.0.0.1",
    "advertised_address": "127.0.0.1",
    "ports": "0",
    "roles": [{"job": "worker", "count": 1}],
    "service_jobs": [],
    "tensorboard_node": -1,
    "registration_timeout_ms": 600_000,
    "start_timeout_ms": 600_000,
    "heartbeat_interval_ms": 1000,
    "heartbeat_timeout_ms": 10_000,
    "max_lost_nodes": 0,
    "log_level": "warn",
}
_HEAD_BYTES = 5
_PROTECTED = 23


@dataclasses.dataclass(frozen=True)
class Record:
    """One of TLS, as it crosses the wire."""

    to_keeper: bool
    number: int  # In its direction.
    bytes: bytes

    @property
    def place(self) -> tuple[bool, int]:
        return self.to_keeper, self.number


#: What is passed on instead of a record. Nothing at all follows after None.
Rule = Callable[[Record], "bytes | None"]


class MiddleMan:
    """Passes on what a client and the keeper say, each record as a rule has it. One connection at a
    time.

    Owner: the block of `between`. Threads: two for each connection.
    """

    def __init__(self, keeper_port: int, rule: Rule):
        self._keeper = ("127.0.0.1", keeper_port)
        self._rule = rule
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()
        self.port = self._listener.getsockname()[1]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listening.join()
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # It was closed.
                return
            with client, socket.create_connection(self._keeper, BOUND_SECONDS) as server:
                back = threading.Thread(target=self._pass_on, args=(server, client, False))
                back.start()
                self._pass_on(client, server, True)
                back.join()

    def _pass_on(self, source: socket.socket, to: socket.socket, to_keeper: bool) -> None:
        with contextlib.suppress(OSError), source.makefile("rb") as said:
            for number, record in enumerate(_records(said)):
                passed = self._rule(Record(to_keeper, number, record))
                if passed is None:
                    source.shutdown(socket.SHUT_RDWR)
                    break
                to.sendall(passed)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)


def _records(said) -> Iterator[bytes]:
    while len(head := said.read(_HEAD_BYTES)) == _HEAD_BYTES:
        yield head + said.read(int.from_bytes(head[3:], "big"))


@contextlib.contextmanager
def between(keeper_port: int, rule: Rule) -> Iterator[int]:
    """An attacker between a client and the keeper. He listens on the port that this gives."""
    middle_man = MiddleMan(keeper_port, rule)
    try:
        yield middle_man.port
    finally:
        middle_man.close()


@pytest.fixture
def log(tmp_path):
    """Of the keeper."""
    return tmp_path / "log"


@pytest.fixture
def said(leftovers, log):
    """What the keeper of a cluster says first."""
    bootstrap = {"start": START, "ports": "0", "lease": 300, "executor": "7"}
    with open(log, "w") as errors:
        done = subprocess.run(
            [sys.executable, "-m", "tfos.cluster.keeper"],
            input=json.dumps({**bootstrap, "watch_pid": os.getpid()}) + "\n",
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=BOUND_SECONDS,
        )
    first = json.loads(done.stdout)
    yield first
    os.kill(first["pid"], signal.SIGKILL)
    # Else the keeper waits for a client that wants to hear of the end.
    next(answer for answer in answers(first, 0) if answer["end"] is not None)


def ask(said, number, *, port=None, after=0, wait_ms=0):
    """Sends message `number`, and asks for the events; the answer."""
    leaving = {"type": "leaving", "node_id": 0, "reason": reason(number)}
    asked = {"lines": [json.dumps(leaving)], "first": number, "after": after, "wait_ms": wait_ms}
    call = _asking("127.0.0.1", port or said["keeper_port"], keeper.PATH, KEY, said["certificate"])
    return json.loads(call(json.dumps(asked)))


def answers(said, number):
    """The keeper's answers to message `number`, each with the next events."""
    after = 0
    while True:
        answer = ask(said, number, after=after, wait_ms=10_000)
        yield answer
        after = answer["next"]


def reason(number):
    return f"attack {number}."


def attacks(overheard: list[Record]) -> Iterator[tuple[Record, str, Rule]]:
    """All attacks on a conversation like this one, each with the record that it is on: those that
    are protected by a key."""

    def on(place: Record, change: Callable[[bytes], bytes | None]) -> Rule:
        return lambda record: change(record.bytes) if record.place == place.place else record.bytes

    def with_changed(at: int) -> Callable[[bytes], bytes]:
        def change(said: bytes) -> bytes:
            changed = bytearray(said)
            changed[at] ^= 1
            return bytes(changed)

        return change

    for index, place in enumerate(overheard):
        if place.bytes[0] != _PROTECTED:
            continue
        yield place, "its first byte is changed", on(place, with_changed(_HEAD_BYTES))
        yield place, "its last byte is changed", on(place, with_changed(-1))
        yield place, "is cut off", on(place, lambda said: None)
        yield place, "is an earlier connection's", on(place, lambda said, old=place.bytes: old)
        later = [record for record in overheard[index + 1 :] if record.to_keeper == place.to_keeper]
        if later:  # To say something twice at the end changes nothing.
            yield place, "comes twice", on(place, lambda said: said * 2)
        if later[:1] == overheard[index + 1 : index + 2] != []:  # It waits for no answer to this.
            yield place, "is left out", on(place, lambda said: b"")


def test_nothing_is_taken_for_what_was_not_said(said, log):
    overheard: list[Record] = []

    def listen(record):
        overheard.append(record)
        return record.bytes

    with between(said["keeper_port"], listen) as port:
        assert "trouble" not in ask(said, 0, port=port)
    heard = b"".join(record.bytes for record in overheard)
    assert KEY.encode() not in heard and reason(0).encode() not in heard
    all_attacks = list(attacks(overheard))
    assert {place.to_keeper for place, _, _ in all_attacks} == {True, False}

    for number, (place, what, rule) in enumerate(all_attacks, 1):
        with between(said["keeper_port"], rule) as port:
            trouble = ask(said, number, port=port).get("trouble", "none")
        told = "reach the executor" if "cut" in what else "was altered in transit"
        assert told in trouble, f"{place.place} {what}: {trouble}"

    assert log.read_text().count("was altered in transit and is refused") == 1

    # Whatever was taken comes before this one.
    last, taken = len(all_attacks) + 1, ""
    for answer in answers(said, last):
        assert answer["end"] is None, "the keeper has ended"
        taken += "".join(answer["events"])
        if reason(last) in taken:
            break
    assert reason(0) in taken
    for number, (place, what, _) in enumerate(all_attacks, 1):
        assert not place.to_keeper or reason(number) not in taken, f"{place.place} {what}"
