"""A proxy that shows a server below a path, as one in front of many servers does."""

from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
from typing import Any

from support.waiting import BOUND_SECONDS


class PathProxy:
    """Shows ``target``, which may be set later, below a path; to be used as a context manager. Of a
    request's fields, it passes on ``Accept`` and cookies alone, nearly as YARN's does.

    path: begins and ends with a slash.
    headers: what it adds to each request.
    """

    def __init__(self, path: str, target: str = "", headers: dict[str, str] | None = None):
        self.target = target
        handler = type("Here", (_Handler,), {"proxy": self, "path_here": path})
        self.headers = headers or {}
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}{path}"

    def __enter__(self) -> PathProxy:
        self._thread.start()
        return self

    def __exit__(self, *_error: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    proxy: PathProxy
    path_here: str

    def do_GET(self) -> None:
        if not self.path.startswith(self.path_here):
            self.send_error(404)
            return
        request = urllib.request.Request(
            f"{self.proxy.target}/{self.path.removeprefix(self.path_here)}",
            headers={
                "Accept": self.headers.get("Accept", "*/*"),
                "Cookie": self.headers.get("Cookie", ""),
                **self.proxy.headers,
            },
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            answer = opener.open(request, timeout=BOUND_SECONDS)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            body = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(body)))
            if cookie := answer.headers["Set-Cookie"]:
                self.send_header("Set-Cookie", cookie)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        """Its requests are nobody's concern."""
