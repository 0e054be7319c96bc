"""A real coordinator whose agents are sockets of this process: a cluster of any size without Spark
and without programs."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import resource
import socket
import struct
import threading
from typing import Any

from support.waiting import BOUND_SECONDS
from tfos.base import keys
from tfos.base.network import host_and_port
from tfos.cluster.coordinator import Coordinator

_MAGIC = b"tfos-agt"
_VERSION = 1
_PLAIN_TCP = 1
_TEXT = 0x81
_LAST = 0x80
_CLOSE = 8


class _Agent:
    """An agent's end of its connection (docs/formats/handshake.md, control-protocol.md). Threads: any
    may say something; one hears."""

    def __init__(self, address: tuple[str, int], key: str, node_id: int):
        self._says = threading.Lock()
        self.socket = socket.create_connection(address, timeout=BOUND_SECONDS)
        hello = _MAGIC + struct.pack("<HBBIII", _VERSION, _PLAIN_TCP, 0, node_id, 0, 0)
        hello += os.urandom(32)
        self.socket.sendall(hello)
        challenge = self.socket.recv(44, socket.MSG_WAITALL)
        words = b"tfos agents connect" + hello + challenge
        self.socket.sendall(hmac.digest(bytes.fromhex(key), words, hashlib.sha256))
        assert self.socket.recv(32, socket.MSG_WAITALL) != bytes(32), "the agent was refused"
        self.socket.sendall(
            b"GET /v1/agent HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1)
        assert answer.startswith(b"HTTP/1.1 101"), answer

    def say(self, message_type: str, **fields: Any) -> None:
        payload = json.dumps({"type": message_type, **fields}).encode()
        # Masked with zeros, which a client may choose.
        if len(payload) < 126:
            head = struct.pack("!BB", _TEXT, 0x80 | len(payload))
        elif len(payload) < 1 << 16:
            head = struct.pack("!BBH", _TEXT, 0x80 | 126, len(payload))
        else:
            head = struct.pack("!BBQ", _TEXT, 0x80 | 127, len(payload))
        with self._says:
            self.socket.sendall(head + bytes(4) + payload)

    def hear(self) -> dict[str, Any] | None:
        """The next message of the coordinator; None at the connection's end."""
        text = b""
        while True:
            head = self._receive(2)
            if not head or head[0] & 0x0F == _CLOSE:
                return None
            length = head[1]
            if length >= 126:
                length = int.from_bytes(self._receive(2 if length == 126 else 8), "big")
            payload = self._receive(length)
            if head[0] & 0x0F > _CLOSE:
                continue
            text += payload
            if head[0] & _LAST:
                message: dict[str, Any] = json.loads(text)
                return message

    def _receive(self, count: int) -> bytes:
        try:
            return self.socket.recv(count, socket.MSG_WAITALL) if count else b""
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.socket.close()


class SimulatedCluster:
    """Owner and lifetime: a ``with`` block, which ends the coordinator. Threads: one.

    nodes: how many. heartbeat_ms: between two looks of the coordinator at its numbers.
    max_lost_nodes: how many may be lost without ending the cluster. min_nodes: the nodes train
    together as long as so many of them are there, and others may come in place of lost ones;
    0: they do not. log_level: of the coordinator,
    which logs to this process's standard error. name: of the application. evaluator: whether the
    last of the nodes evaluates.
    """

    def __init__(
        self,
        nodes: int,
        heartbeat_ms: int = 100,
        max_lost_nodes: int = 0,
        min_nodes: int = 0,
        log_level: str = "ERROR",
        name: str = "simulated",
        evaluator: bool = False,
    ):
        self.token = keys.new_token()
        self.cluster_id = os.urandom(8).hex()
        workers = nodes - 1 - evaluator
        self.coordinator = Coordinator(
            {
                "protocol": 1,
                "cluster_id": self.cluster_id,
                "name": name,
                "token": self.token,
                "encrypt": "false",
                "bind_address": "127.0.0.1",
                "advertised_address": "127.0.0.1",
                "ports": "0",
                "roles": [{"job": "chief", "count": 1}]
                + ([{"job": "worker", "count": workers}] if workers else [])
                + ([{"job": "evaluator", "count": 1}] if evaluator else []),
                "service_jobs": ["evaluator"],
                "registration_timeout_ms": 600_000,
                "start_timeout_ms": 600_000,
                "heartbeat_interval_ms": heartbeat_ms,
                "heartbeat_timeout_ms": 600_000,
                "max_lost_nodes": max_lost_nodes,
                "min_nodes": min_nodes,
                "min_nodes_timeout_ms": 600_000,
                "late_nodes": min_nodes > 0,
                "log_level": log_level,
            },
            on_failure=lambda: None,
        )
        # Each agent is an open socket of this process.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._address = (self.coordinator.address, self.coordinator.port)
        self.base_url = f"http://{host_and_port(*self._address)}"
        self.agents: list[_Agent] = []
        try:
            self._form(nodes)
        except BaseException:
            # Else a thousand sockets stay open, and Python can't wait for one behind them.
            self.__exit__()
            raise

    def _form(self, nodes: int) -> None:
        for node_id in range(nodes):
            self.agents.append(self._agent(node_id))
        for node_id in range(nodes):
            self._register(node_id)
        # Each node is told of all others.
        bound = BOUND_SECONDS * max(1, nodes / 200)
        assert self.coordinator.wait(lambda: self.coordinator.formed, bound)

    def _agent(self, node_id: int) -> _Agent:
        return _Agent(self._address, keys.key_for(self.token, "join"), node_id)

    def _register(self, node_id: int) -> None:
        self.agents[node_id].say(
            "register",
            protocol=1,
            node_id=node_id,
            host=f"host-{node_id // 4:03}.cluster.example",
            address=f"10.0.{node_id // 250}.{node_id % 250 + 1}",
            port=2222,
            tensor_port=2223,
            agent_pid=1000 + node_id,
            executor_id=str(node_id),
            gpus=[],
        )

    @property
    def read_key(self) -> str:
        return keys.key_for(self.token, "read")

    @property
    def link(self) -> str:
        """As the driver prints it."""
        return f"{self.base_url}/#key={self.read_key}"

    def run(
        self, node_id: int, tensorboard: dict[str, int] | None = None, detail: str = ""
    ) -> None:
        """The node calls its program, and takes rows. tensorboard: what it says of one beside it.
        detail: what it does, for people."""
        self.agents[node_id].say(
            "state",
            state="running",
            detail=detail,
            pid=5000 + node_id,
            feed={"socket": f"tfos-{node_id}", "port": 40000},
            tensorboard=tensorboard,
        )

    def report(self, node_id: int, **metrics: Any) -> None:
        """The node reports its numbers with a heartbeat."""
        self.agents[node_id].say("heartbeat", metrics=metrics)

    def fail(self, node_id: int, message: str, traceback: str) -> None:
        self.agents[node_id].say(
            "failed",
            failure={
                "step": "run map_fun",
                "message": message,
                "traceback": traceback,
                "log_tail": ["the last line"],
                "lost": False,
            },
        )

    def end(self, node_id: int) -> None:
        """The node's program has returned."""
        self.agents[node_id].say("done")

    def lose(self, node_id: int) -> None:
        """The node's agent vanishes."""
        self.agents[node_id].close()

    def come_again(self, node_id: int) -> None:
        """Another node comes in place of one that is lost."""
        self.agents[node_id] = self._agent(node_id)
        self._register(node_id)

    def __enter__(self) -> SimulatedCluster:
        return self

    def __exit__(self, *_error: Any) -> None:
        for agent in self.agents:
            agent.close()
        self.coordinator.close()
