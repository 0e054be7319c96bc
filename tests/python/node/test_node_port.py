"""A node's port, from when the agent holds it until the program's server listens on it."""

import socket
import types

import pytest

from tfos.node import internals


@pytest.fixture
def node():
    """With a port that is held as an agent does it."""
    held = socket.socket()
    held.bind(("", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    node = types.SimpleNamespace(
        port=held.getsockname()[1], _port_socket=held, _shared_port_socket=None
    )
    yield node
    internals.release_port(node)


def test_a_held_port_is_nobody_elses(node):
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("", node.port))


def test_a_server_listens_on_a_shared_port_and_takes_its_connections(node):
    internals.share_port(node)
    assert internals.port_socket(node) is None
    internals.share_port(node)
    # Not even now is it free for one that happens to ask for it.
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("", node.port))
    with (
        socket.create_server(("", node.port)) as server,
        socket.create_connection(("localhost", node.port)),
    ):
        server.settimeout(30)
        server.accept()[0].close()
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("", node.port))


def test_a_shared_port_is_held_again(node):
    internals.share_port(node)
    internals.hold_port(node)
    assert internals.port_socket(node).getsockname()[1] == node.port
    internals.hold_port(node)
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("", node.port))


@pytest.mark.parametrize("share", [False, True])
def test_a_released_port_is_free(node, share):
    if share:
        internals.share_port(node)
    internals.release_port(node)
    internals.release_port(node)
    with socket.socket() as other:
        other.bind(("", node.port))
