"""The two ends of the coordinator's port: a coordinator for tasks, and a browser for its pages."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.waiting import BOUND_SECONDS

_HELLO_BYTES = 56
_PLAIN_TCP = 1


def accept(connection: socket.socket, key: str, name: str) -> bool:
    """Shakes hands by the protocol ``name`` within a host (docs/formats/handshake.md). False for a
    peer without the key."""
    hello = connection.recv(_HELLO_BYTES, socket.MSG_WAITALL)
    challenge = hello[:10] + bytes([_PLAIN_TCP, 0]) + os.urandom(32)
    connection.sendall(challenge)

    def proof(role: str) -> bytes:
        words = f"tfos {name} {role}".encode() + hello + challenge
        return hmac.digest(bytes.fromhex(key), words, hashlib.sha256)

    given = connection.recv(32, socket.MSG_WAITALL)
    if not hmac.compare_digest(given, proof("connect")):
        return False
    connection.sendall(proof("accept"))
    return True


class AskedCoordinator:
    """Answers tasks as a coordinator would: ``answers`` by path, and counts callers without its key."""

    def __init__(self, key: str):
        self.answers: dict[str, Any] = {}
        self.strangers = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                if not accept(self.request, key, "questions"):
                    outer.strangers += 1
                super().setup()

            def do_GET(self) -> None:
                answer = outer.answers.get(self.path.partition("?")[0])
                self.send_response(204 if answer is None else 200)
                self.end_headers()
                if answer is not None:
                    self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = self._server.server_address
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def page_of(url: str, path: str = "/") -> bytes:
    """What is at ``path`` for a browser that was given ``url``, which may hold a key."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(url, timeout=BOUND_SECONDS):
        pass  # The key becomes a cookie.
    with browser.open(url.partition("?")[0].rstrip("/") + path, timeout=BOUND_SECONDS) as answer:
        return answer.read()
