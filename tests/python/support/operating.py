"""The commands of `tfos` that operate a cluster, as a user runs them."""

from __future__ import annotations

import os
import subprocess
from typing import Any

from support.waiting import BOUND_SECONDS
from tfos.base import executable


def tfos(*words: Any, link: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs `tfos WORDS`; ``link`` is its standard input."""
    return subprocess.run(
        [executable.path(), *map(str, words)],
        input=link,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        **options,
    )


def follow(*words: Any) -> subprocess.Popen[str]:
    """Starts `tfos WORDS`, whose output is read while it runs."""
    return subprocess.Popen(
        [executable.path(), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def pid_of(cluster: Any, name: str) -> int:
    """Of a node's process."""
    (node,) = [node for node in cluster.status() if node.name == name]
    assert node.pid
    os.kill(node.pid, 0)
    return node.pid
