"""Other hosts for tests: network namespaces, each joined to ours by a cable, and what crosses it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from spark_cluster import Host


@contextlib.contextmanager
def joined_host(ours, theirs):
    """A host at the address `theirs`, which sees nothing of this one but the address `ours`."""
    name = f"tfos-{os.getpid()}"
    cable = f"tfos{os.getpid() % 100000}"
    taken = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=False).stdout
    if f" {ours}/" in taken:
        raise AssertionError(
            f"{ours} is taken by another run of these tests, or was left by one that was killed: "
            "`ip netns list` shows whose, and `ip netns del NAME` removes it"
        )
    try:
        _ip("netns", "add", name)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces can't be made here: {getattr(error, 'stderr', error)}")
    try:
        ends = ["link", "add", f"{cable}a", "type", "veth", "peer", "name", f"{cable}b"]
        try:
            _ip(*ends, "netns", name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces can't be joined here: {error.stderr}")
        _ip("addr", "add", f"{ours}/30", "dev", f"{cable}a")
        _ip("link", "set", f"{cable}a", "up")
        for command in (
            ["addr", "add", f"{theirs}/30", "dev", f"{cable}b"],
            ["link", "set", f"{cable}b", "up"],
            ["link", "set", "lo", "up"],
        ):
            _ip("netns", "exec", name, "ip", *command)
        yield Host(theirs, ("ip", "netns", "exec", name))
    finally:
        # What was on its way in a connection may keep the namespace for a while, and the cable.
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", f"{cable}a")
        _ip("netns", "del", name)


def cut(host):
    """Cuts the cable of a joined host: from now on packets are lost, and nobody is told."""
    _set_cable(host, "down")


@contextlib.contextmanager
def cut_off(host):
    """Cuts the cable of a joined host until the block ends."""
    cut(host)
    try:
        yield
    finally:
        _set_cable(host, "up")


@contextlib.contextmanager
def unheard_by(host):
    """Loses all packets to a joined host until the block ends. What it sends arrives."""
    cable = _field(_ip("-o", "route", "get", host.address).stdout, "dev")
    nobody = ["lladdr", "02:00:00:00:00:01", "nud", "permanent"]
    _ip("neigh", "replace", host.address, "dev", cable, *nobody)
    try:
        yield
    finally:
        _ip("neigh", "del", host.address, "dev", cable)


def _set_cable(host, state):
    command = [*host.prefix, "ip", "-o", "link", "show", "type", "veth"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cable = shown.split(": ")[1].split("@")[0]
    subprocess.run([*host.prefix, "ip", "link", "set", cable, state], check=True)


def _field(shown, name):
    """The word after `name` in what `ip` shows."""
    words = shown.split()
    return words[words.index(name) + 1]


@contextlib.contextmanager
def captured(address, directory):
    """Records all packets from and to `address`, until the block ends.

    Yields a function that returns the bytes of each TCP connection's direction; call it after the
    block.
    """
    packets = pathlib.Path(directory, "packets.pcap")
    interface = _field(_ip("-o", "route", "get", address).stdout, "dev")
    command = ["tcpdump", "-i", interface, "-n", "-U", "-s", "0", "-B", "65536", "-w", str(packets)]
    recorder = subprocess.Popen([*command, "host", address], stderr=subprocess.PIPE, text=True)
    try:
        for line in recorder.stderr:
            if "listening on" in line:
                break
        else:
            raise AssertionError(f"tcpdump ended with {recorder.wait()}")
        yield lambda: _streams(packets, pathlib.Path(directory, "streams"))
    finally:
        recorder.send_signal(signal.SIGINT)
        _, said = recorder.communicate()
    assert "\n0 packets dropped by kernel" in said, said


def _streams(packets, directory):
    directory.mkdir()
    subprocess.run(
        ["tcpflow", "-r", str(packets), "-o", str(directory), "-a", "-e", "tcpdemux"],
        check=True,
        capture_output=True,
    )
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix != ".xml"}


def _ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
