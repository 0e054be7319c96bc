"""Parts of a ``ctx`` that programs don't need: for modules of tfos and packages with older APIs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfos.feed.datafeed import FeedSource
    from tfos.node.context import NodeContext


def feed_source(node: NodeContext) -> FeedSource | None:
    """What feeds of the node read from; None on nodes that Spark does not feed."""
    return node._feed_source


def port_socket(node: NodeContext) -> socket.socket | None:
    """The bound socket that holds the node's port; None once that was released."""
    return node._port_socket


def release_port(node: NodeContext) -> None:
    """Frees the node's port for the program to bind; nothing happens the second time."""
    if node._port_socket is not None:
        node._port_socket.close()
        node._port_socket = None
