"""The commands of `tfos` that operate a cluster, as a user runs them."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import tfos as package
from support.waiting import BOUND_SECONDS, wait_for
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


def start(
    spark: Any,
    program: Callable[[Any], Any],
    folder: pathlib.Path,
    input_mode: str = "tensorflow",
    **settings: Any,
) -> package.Cluster:
    """Starts two nodes with a program that leaves files in ``folder``: support.programs.operate
    has them."""
    arguments = {"dir": str(folder)}
    return package.run(spark, program, nodes=2, args=arguments, input_mode=input_mode, **settings)


def wait_for_files(folder: pathlib.Path, name: str, nodes: int = 2) -> None:
    """Until so many nodes have left a file of this name."""
    wait_for(lambda: len(list(folder.glob(f"{name}-*"))) == nodes, f"files {name}")


@contextmanager
def stop_when(
    folder: pathlib.Path, name: str, nodes: int = 2, seconds: int = BOUND_SECONDS
) -> Iterator[list[subprocess.CompletedProcess[str]]]:
    """In the block, runs `tfos stop` once so many nodes have left a file of this name, or it has
    waited for them in vain: the block would not end without. At its end, the list has what came of
    it, and a vain wait is an error."""
    stopped: list[subprocess.CompletedProcess[str]] = []

    def stop() -> None:
        try:
            wait_for_files(folder, name, nodes)
        finally:
            stopped.append(tfos("stop", "--timeout", seconds))

    with ThreadPoolExecutor(1) as thread:
        stopping = thread.submit(stop)
        yield stopped
    stopping.result()


def pid_of(cluster: Any, name: str) -> int:
    """The id of a node's process."""
    (node,) = [node for node in cluster.status() if node.name == name]
    assert node.pid
    os.kill(node.pid, 0)
    return node.pid
