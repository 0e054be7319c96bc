"""Addresses: of this host as other hosts see it, and as text."""

from __future__ import annotations

import ipaddress
import socket

# Nothing is sent there: connecting a datagram socket only asks the kernel for a route.
_ROUTE_PROBES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def host_and_port(address: str, port: int) -> str:
    """``address:port`` as it stands in a URL: an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def network_and_host(address: str) -> tuple[bytes, bytes]:
    """Where a connection comes from, as net::Origin has it (src/net/handshake/crowd.h): a host of
    IPv6 can mostly have many addresses, of one network of 64 bits."""
    ip = ipaddress.ip_address(address)
    packed = (getattr(ip, "ipv4_mapped", None) or ip).packed
    return packed[:8], packed[8:]


def address_to_reach(bind_address: str) -> str:
    """Where this host itself reaches a server that listens on ``bind_address``: on all interfaces,
    through the loopback one."""
    return "127.0.0.1" if bind_address in ("0.0.0.0", "::") else bind_address


def both_families(bind_address: str) -> str:
    """The address to bind for all addresses of this host, in place of ``0.0.0.0`` or ``::``. It is
    ``::`` if the host has IPv6, as a socket there can take IPv4, too. Otherwise it is ``0.0.0.0``.
    Other addresses stay as they are."""
    if bind_address not in ("0.0.0.0", "::"):
        return bind_address
    if not socket.has_dualstack_ipv6():
        return "0.0.0.0"
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::", 0))
        except OSError:
            return "0.0.0.0"  # The kernel knows IPv6, and this host has switched it off.
    return "::"


def own_address(host: str) -> str:
    """``host`` if it is an address of this host that others may reach; empty if it is a name, a
    loopback address, or none of this host's."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return ""
    if address.is_loopback or address.is_unspecified:
        return ""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return ""
    return str(address)


def local_address() -> str:
    """The address of the interface with the default route, else what the host name resolves to.

    On a host with neither it is the loopback address, which serves a cluster on that host alone.
    """
    for family, destination in _ROUTE_PROBES:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((destination, 9))
            except OSError:
                continue  # No route for this family.
            return probe.getsockname()[0]
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
