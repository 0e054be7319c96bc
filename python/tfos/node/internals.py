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
    """The bound socket that holds the node's port for the program alone; None once that is shared
    or released."""
    return node._port_socket


def share_port(node: NodeContext) -> None:
    """Lets a server that sets SO_REUSEADDR bind the node's port, while nobody gets it by chance.

    TensorFlow's server sets it, and so do those of gRPC, Java and Python. Linux lets two sockets
    that set it have one port as long as only one of them listens. Where any port will do, and for
    connections, Linux chooses none that is bound. Nothing happens the second time.
    """
    if node._port_socket is not None:
        node._port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        node._shared_port_socket, node._port_socket = node._port_socket, None


def hold_port(node: NodeContext) -> None:
    """Takes a shared port back for the program alone, until it is released: ``port_socket`` holds
    it, and nobody else binds it. Nothing happens where it is held or released already."""
    if node._shared_port_socket is not None:
        node._shared_port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        node._port_socket, node._shared_port_socket = node._shared_port_socket, None


def release_port(node: NodeContext) -> None:
    """Frees the node's port for the program to bind; nothing happens the second time."""
    for held in (node._port_socket, node._shared_port_socket):
        if held is not None:
            held.close()
    node._port_socket = node._shared_port_socket = None
