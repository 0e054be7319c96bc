"""Clients of the parameter servers that a test has started."""

from __future__ import annotations

from tfos import parameter_server
from tfos.parameter_server import connection


def worker(number=0, workers=1):
    return connection.Worker(number, f"worker:{number} on host h", number == 0, workers)


def server_of(process, variables, number=0, workers=1, **options):
    options.setdefault("overlap", False)
    return parameter_server.ParameterServer(
        variables, [process.server], worker(number, workers), process.key, **options
    )
