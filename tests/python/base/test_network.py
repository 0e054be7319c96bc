"""Addresses of this host."""

import socket

import pytest

from tfos.base import network


@pytest.mark.parametrize(
    ("bound", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("10.0.0.5", "10.0.0.5"), ("edge-1", "edge-1")],
)
def test_a_server_is_reached_where_it_listens(bound, reached):
    assert network.address_to_reach(bound) == reached


@pytest.mark.parametrize("host", ["", "edge-1", "127.0.0.1", "::1", "0.0.0.0", "203.0.113.7"])
def test_what_is_no_address_of_this_host_for_others(host):
    assert network.own_address(host) == ""


def test_an_address_of_this_host_for_others():
    address = network.local_address()
    assert network.own_address(address) == address or address.startswith("127.")


def test_an_address_stands_in_a_url():
    assert network.host_and_port("10.0.0.5", 80) == "10.0.0.5:80"
    assert network.host_and_port("::1", 80) == "[::1]:80"


def test_all_addresses_are_those_of_both_families(monkeypatch):
    assert {network.both_families(each) for each in ("0.0.0.0", "::")} < {"0.0.0.0", "::"}
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    assert [network.both_families(each) for each in ("0.0.0.0", "::")] == ["0.0.0.0"] * 2
    assert network.both_families("10.0.0.5") == "10.0.0.5"
    assert network.both_families("::1") == "::1"


def test_where_a_connection_comes_from():
    of = network.network_and_host
    assert of("::ffff:10.0.0.1") == of("10.0.0.1") != of("10.0.0.2")
    assert of("10.0.0.1")[0] != of("10.0.0.2")[0]
    assert of("2001:db8:0:1::1")[0] == of("2001:db8:0:1:ffff::2")[0] != of("2001:db8:0:2::1")[0]
    assert of("2001:db8:0:1::1") != of("2001:db8:0:1:ffff::2")
    assert of("fe80::1%eth0") == of("fe80::1")
