"""The servers and workers of a cluster, and the native client that connects them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfos import _native

#: Seconds for the servers to be there, and for the chief to give them the first values.
CONNECT_TIMEOUT = 600.0
#: The same for servers that are there and have values, or are gone.
RUNNING_CONNECT_TIMEOUT = 30.0
#: After so many seconds an exchange says in the log whom it waits for.
STALL_AFTER = 30.0
#: Seconds between two copies of the optimizer's state that a worker keeps.
COPY_INTERVAL = 30.0


@dataclasses.dataclass(frozen=True)
class Server:
    """A parameter server: what messages call it, where it is, and the id of what it belongs to.
    Also which connections it encrypts ("auto", "true" or "false", as ``spark.tfos.encrypt``), and
    its node's number; -1: it does not belong to a cluster."""

    name: str
    address: str
    port: int
    id: str
    encrypt: str
    node_id: int = -1


@dataclasses.dataclass(frozen=True)
class Worker:
    """A user of the servers."""

    number: int
    name: str
    #: Gives the servers their first values; all others wait for them.
    starts: bool
    #: How many workers there are, for the combiner ``mean`` and for statistics.
    workers: int


def servers_of(nodes: Iterable[Mapping[str, Any]], cluster_id: str, encrypt: str) -> list[Server]:
    """The parameter servers among the nodes of a cluster, in their order."""
    servers = sorted(
        (node for node in nodes if node["job_name"] == "ps"), key=lambda node: node["task_index"]
    )
    return [
        Server(
            f"ps:{node['task_index']} on host {node['host']}",
            node["address"],
            node["tensor_port"],
            cluster_id,
            encrypt,
            node["node_id"],
        )
        for node in servers
    ]


def connect(
    servers: Sequence[Server],
    arrays: Sequence[np.ndarray],
    rule: Any,
    worker: Worker,
    key: str,
    staleness: int | None = None,
    connect_timeout: float = CONNECT_TIMEOUT,
    averaged: Sequence[bool] | None = None,
    *,
    link: Any = None,
    copy_interval: float = COPY_INTERVAL,
) -> Any:
    """A native client for variables like ``arrays``; those that are ``averaged`` are so also where
    changes are added. ``key``: for parameters, in hexadecimal. ``link``: the node's, native, where
    servers that are lost come again; None: the loss of one ends the client."""
    return _native.ParameterClient.connect(
        [dataclasses.astuple(server) for server in servers],
        [
            (array.dtype.name, array.size, mean)
            for array, mean in zip(arrays, averaged or [False] * len(arrays), strict=True)
        ],
        rule,
        staleness,
        worker.number,
        worker.name,
        worker.starts,
        key,
        connect_timeout,
        STALL_AFTER,
        link,
        copy_interval,
    )


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The memory of an array, whatever is in it; a copy only where it is not in one piece."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
