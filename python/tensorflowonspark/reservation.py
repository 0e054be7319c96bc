"""The rendezvous of the old system. ``tfos coordinator`` does its work; the names are kept."""

from __future__ import annotations

from tfos.errors import BadInputError


class Server:
    """Where the cluster's coordinator listens: ``addr`` is (host, port)."""

    def __init__(self, addr):
        self.addr = addr


class Client:
    """Talked to the rendezvous from other processes, without any authentication."""

    def __init__(self, server_addr):
        raise BadInputError(
            "reservation.Client is not available: the coordinator at "
            f"{server_addr} speaks to its own driver and nodes only. To end a streaming program, "
            "stop its StreamingContext or call cluster.shutdown(ssc)"
        )
