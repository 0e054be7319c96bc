"""The two ends of the coordinator's port: a coordinator for tasks, and a browser for its pages."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import urllib.request

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


def page_of(url: str, path: str = "/") -> bytes:
    """What is at ``path`` for a browser that was given ``url``, which may hold a key."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(url, timeout=BOUND_SECONDS):
        pass  # The key becomes a cookie.
    with browser.open(url.partition("?")[0].rstrip("/") + path, timeout=BOUND_SECONDS) as answer:
        return answer.read()
