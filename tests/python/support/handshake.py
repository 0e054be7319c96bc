"""The accepting end of a connection's handshake within a host (docs/formats/handshake.md)."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket

_HELLO_BYTES = 56
_PLAIN_TCP = 1


def accept(connection: socket.socket, key: str, name: str) -> bool:
    """Shakes hands by the protocol ``name``. False for a peer without the key."""
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
