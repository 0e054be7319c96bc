"""Other hosts for tests: network namespaces, each joined to ours by a cable."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest

from spark_cluster import Host


@contextlib.contextmanager
def joined_host(ours, theirs):
    """A host at the address `theirs`, which sees nothing of this one but the address `ours`."""
    name = f"tfos-{os.getpid()}"
    cable = f"tfos{os.getpid() % 100000}"
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
        _ip("netns", "del", name)  # takes the cable along


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
