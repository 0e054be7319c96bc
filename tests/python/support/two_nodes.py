"""Two training nodes without Spark: processes that run programs one after the other, each in a group
of its own. For what happens between nodes and not around them."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import socket
import traceback
from collections.abc import Callable
from typing import Any

JOBS = ("chief", "worker")
#: For importing TensorFlow on a busy machine, and for a program.
PATIENCE_SECONDS = 240.0


class Died(Exception):
    """A node's process has ended while it ran a program."""


class TwoNodes:
    """Owner: a test or its module; ``with`` ends the processes."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipes, self.processes = [], []
        for rank in range(2):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(rank, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)

    def __enter__(self) -> TwoNodes:
        return self

    def __exit__(self, *error: Any) -> None:
        for pipe in self._pipes:
            pipe.close()  # Which ends a process that waits for its next program.
        for process in self.processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, program: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What ``program(ctx, *arguments)``, of a module, returned on each node."""
        ended = self._run(program, arguments)
        failures = [f"{JOBS[rank]}: {error}" for rank, (_, error) in enumerate(ended) if error]
        assert not failures, "\n".join(failures)
        return [result for result, _ in ended]

    def failures_of(self, program: Callable[..., Any], *arguments: Any) -> list[str]:
        """What it raised on each node."""
        ended = self._run(program, arguments)
        assert all(error for _, error in ended), f"a node returned {ended}"
        return [error for _, error in ended]

    def _run(self, program: Callable[..., Any], arguments: Any) -> list[tuple[Any, str]]:
        for pipe in self._pipes:
            pipe.send((program, arguments))
        ports = [self._receive(rank) for rank in range(2)]
        token = secrets.token_hex(32)
        for pipe in self._pipes:
            pipe.send((ports, token))
        return [self._receive(rank) for rank in range(2)]

    def _receive(self, rank: int) -> Any:
        pipe = self._pipes[rank]
        if not pipe.poll(PATIENCE_SECONDS):
            raise TimeoutError(f"{JOBS[rank]} has said nothing for {PATIENCE_SECONDS} seconds")
        try:
            return pipe.recv()
        except EOFError:
            raise Died(f"{JOBS[rank]} died") from None


def _context(rank: int, nodes: list[dict[str, Any]], token: str) -> Any:
    from tfos.node.context import NodeContext

    return NodeContext(
        {
            "node": {"default_fs": "file:///", "working_dir": "/", "log_dir": None},
            "keys": dict.fromkeys(("feed", "tensors", "parameters"), token),
            "node_id": rank,
            "executor_id": str(rank),
            "job_name": JOBS[rank],
            "task_index": 0,
            "cluster_spec": {job: ["127.0.0.1:1"] for job in JOBS},
            "num_workers": 2,
            "nodes": nodes,
            "host": "localhost",
            "address": "127.0.0.1",
            "port": 1,
            "gpus": [],
            "gpu_fraction": 0.0,
            "cluster_id": "two nodes",
        },
        None,
        None,
        None,
        None,
    )


def _serve(rank: int, pipe: Any) -> None:
    from tfos import collective
    from tfos.base import training_nodes

    while True:
        try:
            program, arguments = pipe.recv()
        except EOFError:
            os._exit(0)  # As nodes do: TensorFlow's threads hold up an ordinary end.
        with socket.create_server(("127.0.0.1", 0)) as listener:
            pipe.send(listener.getsockname()[1])
            ports, token = pipe.recv()
            nodes = [
                {
                    "node_id": number,
                    "job_name": job,
                    "task_index": 0,
                    "rank": number,
                    "host": "localhost",
                    "address": "127.0.0.1",
                    "tensor_port": port,
                }
                for number, (job, port) in enumerate(zip(JOBS, ports, strict=True))
            ]
            training_nodes.use(nodes, rank, token, listener.fileno())
            result, failure = None, ""
            try:
                result = program(_context(rank, nodes, token), *arguments)
                collective.leave()
            except Exception as error:
                traceback.print_exc()
                failure = f"{type(error).__name__}: {error}"
                if collective._group is not None:
                    collective._group.close(failure)
            collective._group = None
        pipe.send((result, failure))
