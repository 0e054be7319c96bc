"""Spark's History Server, a process of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time
import urllib.request
from collections.abc import Iterator

import spark_cluster
from daemons import Daemon
from support.waiting import BOUND_SECONDS, wait_for

_END_SECONDS = 10


class HistoryServer:
    """What a browser gets of a running server. Made by :func:`history_server`."""

    def __init__(self, daemon: Daemon):
        self._daemon = daemon
        self._port = wait_for(
            self._find_port, lambda: f"the History Server: {daemon.log()[-3000:]}"
        )

    def get(self, application: str, path: str) -> str:
        """A page of an application. Waits until the server has found the application."""
        base = f"http://127.0.0.1:{self._port}"
        wait_for(lambda: application in fetch(f"{base}/api/v1/applications"), application)
        return fetch(f"{base}/history/{application}/{path}")

    def log(self) -> str:
        return self._daemon.log()

    def _find_port(self) -> int | None:
        self._daemon.check_alive()
        # It opens its port before it serves anything there.
        found = re.search(r"Bound HistoryServer to .* at http\S+:(\d+)", self._daemon.log())
        return int(found.group(1)) if found else None


@contextlib.contextmanager
def history_server(
    directory: pathlib.Path, event_logs: pathlib.Path, class_path: str = "", **properties: str
) -> Iterator[HistoryServer]:
    """Runs a server over a directory of event logs, and ends it. ``directory``: for its own log.
    ``properties``: of Spark, with ``_`` for a point."""
    options = {
        "spark.history.fs.logDirectory": event_logs.as_uri(),
        "spark.history.ui.port": "0",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    daemon = Daemon(
        "history",
        "Spark's History Server",
        [
            str(spark_cluster.spark_home() / "bin" / "spark-class"),
            "org.apache.spark.deploy.history.HistoryServer",
        ],
        {
            **os.environ,
            "SPARK_HOME": str(spark_cluster.spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_CLASSPATH": class_path,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_HISTORY_OPTS": " ".join(f"-D{name}={value}" for name, value in options.items()),
        },
        directory,
    )
    try:
        yield HistoryServer(daemon)
    finally:
        daemon.stop(time.monotonic() + _END_SECONDS)


def fetch(url: str) -> str:
    """Not through a proxy of the environment."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=BOUND_SECONDS) as answer:
        text: str = answer.read().decode()
        return text
