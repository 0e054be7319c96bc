"""An S3 as tests use it: what dies in front of it, as a writer does that is killed."""

from __future__ import annotations

import http.client
import http.server
import threading
import types
from typing import Any

#: Settings of Hadoop's client for a bucket that is not there at times: it must not try again.
IMPATIENT = {"attempts.maximum": "0", "retry.limit": "0", "multipart.size": "5M"}

_HOP_BY_HOP = {"connection", "expect", "transfer-encoding", "keep-alive"}


class DyingWire:
    """Passes the requests of one writer on to an S3, until so many were passed on. From then on
    nothing arrives there, as from a writer that was killed, until it is mended. Or loses an answer.

    Owner and lifetime: a context manager. Threads: any.
    """

    def __init__(self, address: str, target: str):
        wire = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                wire._pass_on(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do

            def log_message(self, *_arguments: Any) -> None:
                """Says nothing."""

        host, _, port = address.partition(":")
        self._target = target
        self._lock = threading.Lock()
        self._left: int | None = None
        self._is_dying = True
        self._server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> DyingWire:
        self._thread.start()
        return self

    def __exit__(self, *_: types.TracebackType | type | BaseException | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def die_after(self, requests: int) -> None:
        """No request arrives after so many."""
        with self._lock:
            self._left, self._is_dying = requests, True

    def lose_answer_of(self, request: int) -> None:
        """That request arrives, and its answer does not come back. From 0."""
        with self._lock:
            self._left, self._is_dying = request, False

    def mend(self) -> bool:
        """Everything is passed on again. Returns whether anything was lost."""
        with self._lock:
            left, self._left = self._left, None
            return left is not None and left < 0

    def _pass_on(self, asked: http.server.BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length", 0)))
        with self._lock:
            is_counted = self._left is not None
            if is_counted:
                self._left -= 1
            is_dead = is_counted and self._is_dying and self._left < 0
            is_mute = is_counted and self._left == -1
        if not is_dead:
            status, headers, content = self._answer(asked, body)
        asked.close_connection = is_dead or is_mute
        if asked.close_connection:
            return
        asked.send_response_only(status)
        for name, value in headers:
            if name.lower() not in {*_HOP_BY_HOP, "content-length"} or asked.command == "HEAD":
                asked.send_header(name, value)
        if asked.command != "HEAD":
            asked.send_header("Content-Length", str(len(content)))
        asked.end_headers()
        asked.wfile.write(content)

    def _answer(
        self, asked: http.server.BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            connection.putrequest(
                asked.command, asked.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in asked.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()
