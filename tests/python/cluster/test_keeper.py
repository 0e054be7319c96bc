"""The keeper of a coordinator, as a process, and its client, both without Spark."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from support.waiting import BOUND_SECONDS, wait_for
from tfos import _native
from tfos.base import keys
from tfos.cluster import keeper
from tfos.cluster.connect import RemoteCoordinator, _asking
from tfos.cluster.coordinator import Coordinator
from tfos.errors import NodeFailedError, TfosError
from tfos.spark.connect import ConnectContext

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


TWO_NODES = [{"job": "worker", "count": 2}]


def start(
    lease,
    watched,
    ports="0",
    connection_seconds=keeper._CONNECTION_SECONDS,
    end_seconds=keeper._END_SECONDS,
    most_waiting=keeper._MOST_WAITING,
    **cluster,
):
    """A keeper beside a process: what it says first. cluster: what differs from START."""
    program = (
        "from tfos.cluster import keeper\n"
        f"keeper._CONNECTION_SECONDS = {connection_seconds}\n"
        f"keeper._END_SECONDS = {end_seconds}\n"
        f"keeper._MOST_WAITING = {most_waiting}\n"
        "keeper.main()"
    )
    bootstrap = {"start": START | cluster, "lease": lease, "ports": ports, "watch_pid": watched}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps({**bootstrap, "executor": "process 7"}) + "\n",
        stdout=subprocess.PIPE,  # Its standard error stays open as long as it runs.
        text=True,
        timeout=BOUND_SECONDS,
    )
    return json.loads(done.stdout)


@pytest.fixture
def executor():
    """A process that stands for an executor's JVM."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def listening(executor, leftovers, request):
    said = start(300, executor.pid, **getattr(request, "param", {}))
    assert said["type"] == "listening", said
    yield said
    os.kill(said["pid"], signal.SIGKILL)
    _events_until_end(said)  # Else the keeper waits for a client that wants to hear of it.


def _ask(said, *lines, **more):
    call = _asking("127.0.0.1", said["keeper_port"], keeper.PATH, KEY, said["certificate"])
    return json.loads(call(json.dumps({"lines": list(lines), "wait_ms": 10_000, **more})))


def _events_until_end(said):
    return _events_and_end(said)[0]


def _events_and_end(said):
    """The events, and how the coordinator has ended."""
    events, after, end = [], 0, None
    while end is None:
        taken = _ask(said, after=after)
        after, end = taken["next"], taken["end"]
        events += map(json.loads, taken["events"])
    return events, end


def _tls(said):
    """As the client's, which is not a default context: the certificate is bare."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.check_hostname = False
    tls.load_verify_locations(cadata=said["certificate"])
    return tls


def _is_shut_after_a_byte(stranger):
    """Whether the keeper has shut a connection, which sends it one more byte."""
    try:
        stranger.sendall(b"x")
    except OSError:
        return True
    return False


def _post(said, path, headers, body="{}"):
    connection = http.client.HTTPSConnection(
        "127.0.0.1", said["keeper_port"], timeout=BOUND_SECONDS, context=_tls(said)
    )
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_events_are_kept_until_they_were_taken(listening):
    first = _ask(listening, after=0)
    assert [json.loads(event)["type"] for event in first["events"]] == ["node"]
    assert _ask(listening, after=0)["events"] == first["events"], "they were not taken yet"
    fail = {"type": "fail", "node": -1, "step": "test", "message": "on purpose", "traceback": ""}
    assert _ask(listening, json.dumps(fail)) == {}
    later = _ask(listening, after=first["next"])
    failed = [json.loads(event) for event in later["events"]]
    assert failed[0]["failure"]["message"] == "on purpose" and later["end"] is None


def test_a_keeper_reads_no_more_events_than_its_client_takes(executor, leftovers):
    said = start(300, executor.pid, roles=TWO_NODES, most_waiting=1)
    first = _ask(said, after=0)
    assert len(first["events"]) == 1 and first["next"] == 1
    assert _ask(said, after=0) == first, "the next one waits until this one was taken"
    second = _ask(said, after=1)
    assert len(second["events"]) == 1 and second["next"] == 2
    os.kill(said["pid"], signal.SIGKILL)
    assert _events_and_end(said)[1].startswith("was killed by SIGKILL")


def test_a_message_that_is_sent_again_is_taken_once(listening):
    """As where the answer was lost on its way through Spark's server."""
    leaving = json.dumps({"type": "leaving", "node_id": 0, "reason": "a notice"})
    fail = {"type": "fail", "node": -1, "step": "test", "message": "on purpose", "traceback": ""}
    for _ in range(3):
        assert _ask(listening, leaving, first=0) == {}
    assert _ask(listening, leaving, json.dumps(fail), first=0) == {}
    assert _ask(listening, leaving, first=0) == {}, "late"
    events, after = [], 0
    while not any(event["type"] == "failed" for event in events):
        taken = _ask(listening, after=after)
        after = taken["next"]
        events += map(json.loads, taken["events"])
    notices = [e for e in events if e["type"] == "node" and e["node"]["state"] == "expected"]
    assert [event["node"].get("leaving", "") for event in notices] == ["", "a notice"]


def test_strangers_get_nothing(listening):
    key = {"Authorization": f"Bearer {KEY}"}
    assert _post(listening, keeper.PATH, {}) == 401
    for wrong in (TOKEN, keys.key_for(TOKEN, "read"), "0" * 64):
        assert _post(listening, keeper.PATH, {"Authorization": f"Bearer {wrong}"}) == 401
    assert _post(listening, "/elsewhere", key) == 404
    assert _post(listening, keeper.PATH, {**key, "Content-Length": str(9 << 20)}, None) == 413


# An hour, so that no stranger's time is over: only its place can be taken.
@pytest.mark.parametrize("listening", [{"connection_seconds": 3600}], indirect=True)
def test_strangers_keep_no_client_out(listening):
    address = ("127.0.0.1", listening["keeper_port"])
    with contextlib.ExitStack() as opened:
        strangers = [
            opened.enter_context(socket.create_connection(address, BOUND_SECONDS))
            for _ in range(keeper._MOST_STRANGERS + 8)
        ]
        assert _ask(listening, after=0)["events"]
        # The client took a place, too.
        for oldest in strangers[:9]:
            with contextlib.suppress(ConnectionResetError):
                assert oldest.recv(1) == b"", "its place was needed"
        ready, _, _ = select.select(strangers[9:], [], [], 0)
        assert not ready, "these had places yet"


@pytest.mark.parametrize("listening", [{"connection_seconds": 3600}], indirect=True)
def test_strangers_of_another_address_cost_a_slow_client_nothing(listening):
    """It has come before all of them, as over a network that takes its time."""
    address = ("127.0.0.1", listening["keeper_port"])
    client = _tls(listening).wrap_socket(socket.create_connection(address, BOUND_SECONDS))
    with client, contextlib.ExitStack() as opened:
        strangers = [
            opened.enter_context(
                socket.create_connection(address, BOUND_SECONDS, source_address=("127.0.0.2", 0))
            )
            for _ in range(keeper._MOST_STRANGERS)
        ]
        assert strangers[0].recv(1) == b"", "its place was needed"
        body = json.dumps({"lines": [], "after": 0, "wait_ms": 10_000})
        client.sendall(
            f"POST {keeper.PATH} HTTP/1.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert client.recv(1000).startswith(b"HTTP/1.0 200 ")


def test_a_burst_of_strangers_leaves_room_in_the_queue():
    """Nobody takes them: a client that finds the queue full must wait until the system tries again."""
    server = keeper._serve("127.0.0.1", "0", None, None)
    with contextlib.ExitStack() as opened:
        opened.callback(server.server_close)
        for _ in range(8 * keeper._MOST_STRANGERS):
            opened.enter_context(socket.create_connection(server.server_address, BOUND_SECONDS))


def test_strangers_that_speak_slowly_have_to_go(listening):
    address = ("127.0.0.1", listening["keeper_port"])
    with contextlib.ExitStack() as opened:
        in_handshake = opened.enter_context(socket.create_connection(address, BOUND_SECONDS))
        in_handshake.sendall(b"\x16\x03\x01\x40\x00")  # The start of a record of 16 KiB.
        raw = opened.enter_context(socket.create_connection(address, BOUND_SECONDS))
        in_headers = opened.enter_context(_tls(listening).wrap_socket(raw))
        in_headers.sendall(f"POST {keeper.PATH} HTTP/1.1\r\nX: ".encode())
        assert _ask(listening, after=0)["events"]
        for stranger in (in_handshake, in_headers):
            wait_for(partial(_is_shut_after_a_byte, stranger), "the end of a slow stranger")


LINES = b"".join(b"X-%d: %s\r\n" % (line, b"x" * 900) for line in range(10))


@pytest.mark.parametrize("listening", [{"connection_seconds": 3600}], indirect=True)
@pytest.mark.parametrize(
    "head", [f"POST {keeper.PATH} HTTP/1.1\r\n".encode() + LINES, b"POST /" + b"x" * 9000]
)
def test_a_stranger_that_says_too_much_has_to_go(listening, head):
    """Its head has no end, and none is waited for."""
    raw = socket.create_connection(("127.0.0.1", listening["keeper_port"]), BOUND_SECONDS)
    with _tls(listening).wrap_socket(raw) as stranger:
        with contextlib.suppress(ConnectionResetError):
            stranger.sendall(head)
            assert stranger.recv(1) == b""
    assert _ask(listening, after=0)["events"]


def test_a_stranger_that_speaks_no_tls_is_let_go(listening):
    with socket.create_connection(("127.0.0.1", listening["keeper_port"])) as stranger:
        stranger.settimeout(BOUND_SECONDS)
        stranger.sendall(f"POST {keeper.PATH} HTTP/1.1\r\n\r\n".encode())
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in stranger.recv(1000)


def test_the_key_goes_to_no_other_than_the_keeper(listening):
    other, _ = _native.new_certificate()
    ask = _asking("127.0.0.1", listening["keeper_port"], keeper.PATH, KEY, other)
    assert json.loads(ask("{}"))["trouble"].startswith("gone: something else than the keeper")


@pytest.mark.parametrize("waiting", [keeper._MOST_WAITING, 1])
def test_a_silent_client_ends_the_cluster(executor, leftovers, waiting):
    said = start(1, executor.pid, roles=TWO_NODES, most_waiting=waiting)
    _ask(said, after=0)  # Before this one it would wait a minute longer.
    wait_for(lambda: not os.path.exists(f"/proc/{said['pid']}"), "the end of the lease")


def test_the_end_of_its_executor_is_told(executor, leftovers):
    said = start(300, executor.pid)
    executor.kill()
    events = _events_until_end(said)
    [failed] = [event["failure"] for event in events if event["type"] == "failed"]
    assert failed["message"].startswith(f"executor process 7 on {socket.gethostname()}, which")


def test_nodes_have_their_grace_before_the_coordinator_is_killed(executor, leftovers):
    said = start(300, executor.pid, end_seconds=0, stop_grace_ms=60_000)
    executor.kill()
    _, end = _events_and_end(said)
    assert end.startswith("ended with code"), end


def test_a_coordinator_that_stands_still_is_said(executor, leftovers):
    said = start(300, executor.pid, heartbeat_timeout_ms=5000)
    os.kill(said["pid"], signal.SIGSTOP)
    _, end = _events_and_end(said)
    assert end.startswith("has stood still for 5 s (spark.tfos.heartbeat.timeout)"), end


def test_a_range_that_is_used_up_is_said(executor, leftovers):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = start(300, executor.pid, str(taken.getsockname()[1]))
    assert said["type"] == "fatal" and "Give a range of two or more" in said["message"]


class FakeContext(ConnectContext):
    """A context whose executors are this process, and whose server answers as `answers` says."""

    def __init__(self, first, answers):
        self._first = first
        self._answers = answers
        self.session = SimpleNamespace(
            conf=SimpleNamespace(getAll={"spark.app.name": "digits"}),
            addTag=lambda tag: None,
            registerProgressHandler=lambda handler: None,
            removeProgressHandler=lambda handler: None,
        )

    def run_on_executor(self, function, profile, held):
        return self._first

    def on_server(self, name, function):
        return self._answers


def remote(answers, first=None, lease=300):
    said = {
        "type": "listening",
        "address": "h",
        "port": 1,
        "pid": 2,
        "place": "x",
        "keeper_port": 3,
        "certificate": "",
    }
    plan = SimpleNamespace(
        profile=None,
        request=SimpleNamespace(registration_timeout=BOUND_SECONDS),
        settings=SimpleNamespace(connect_lease=lease, coordinator_port="0"),
    )
    context = FakeContext(first or said, answers)
    return Coordinator(START, lambda: None, lambda: RemoteCoordinator(context, plan))


def test_a_keeper_that_did_not_start_says_why():
    with pytest.raises(TfosError, match="did not start on an executor: no port"):
        remote(None, {"type": "fatal", "message": "no port"})


def test_a_server_that_reaches_no_executor_is_said():
    coordinator = remote(lambda request: '{"trouble": "gone: nothing listens"}')
    with pytest.raises(NodeFailedError, match=r"was never reached: gone.*PYSPARK_PYTHON"):
        coordinator.wait(lambda: False, BOUND_SECONDS)
    coordinator.close()


def test_that_somebody_changes_bytes_is_said_once(caplog):
    coordinator = remote(lambda request: '{"trouble": "data was altered in transit"}')
    with pytest.raises(NodeFailedError, match="was never reached: data was altered"):
        coordinator.wait(lambda: False, BOUND_SECONDS)
    coordinator.close()
    assert caplog.text.count("is asked again: data was altered in transit") == 1


def test_a_server_that_falls_silent_ends_the_wait(monkeypatch):
    monkeypatch.setattr(keeper, "FIRST_CALL_SECONDS", 0)

    def fail(request):
        raise ConnectionError("no server\nand much more")

    monkeypatch.setattr("tfos.cluster.connect._FIRST_ATTEMPTS", 1 << 30)
    coordinator = remote(fail, lease=0.1)
    expected = r"was not reached for 0.1 s .*server: ConnectionError: no server;"
    with pytest.raises(NodeFailedError, match=expected):
        coordinator.wait(lambda: False, BOUND_SECONDS)
    coordinator.close()


def test_messages_arrive_in_their_order_though_calls_fail():
    calls = []  # the number of the first message of each, and the types of all
    called, waiting = threading.Event(), threading.Event()

    def answer(request):
        asked = json.loads(request)
        if asked["lines"]:
            calls.append((asked["first"], [json.loads(line)["type"] for line in asked["lines"]]))
            if len(calls) == 1:
                called.set()
                assert waiting.wait(BOUND_SECONDS)
                raise ConnectionError("for a moment")
            return "{}"
        ended = "ended with code 0" if calls and calls[-1][1][-1] == "exit" else None
        return json.dumps({"events": [], "next": asked["after"] + 1, "end": ended})

    coordinator = remote(answer)
    coordinator.send("end_feed")
    assert called.wait(BOUND_SECONDS)
    coordinator.send("end_job", job="00")
    coordinator.send("end_epoch", queue="input", epoch=0)
    waiting.set()
    coordinator.close()
    assert calls[:2] == [(0, ["end_feed"])] * 2, "what is sent again has its number"
    assert calls[2][0] == 1
    assert calls[2][1][:2] == ["end_job", "end_epoch"], "those that wait go together"
    assert [kind for _, kinds in calls[1:] for kind in kinds][-1] == "exit"
