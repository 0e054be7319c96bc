"""What is known of a node of a running cluster, to its driver and to its programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NodeStatus:
    """A snapshot of a node. What is not known yet is None or empty. From ``cluster.status()`` it is
    at most a heartbeat old; from ``ctx.nodes`` it is as old as the node that has it.

    Attributes:
        node_id: number of the node in the cluster, from 0.
        job_name: its role.
        task_index: its number among the nodes of that role.
        rank: its number among the nodes that train, from 0; None if it does not train.
        state: ``expected``, ``registered``, ``running``, ``draining``, ``done`` (its program
            returned), ``failed``, ``lost``, or ``stopped`` (its program had not
            returned when the cluster failed or was told to stop).
        detail: more about the state, for people.
        leaving: why Spark is about to take its executor away; empty as long as it is not.
        host: where it runs.
        address, port: where other nodes reach it.
        executor_id: Spark's name of the executor that it runs beside.
        pid: its process.
        agent_pid: the process of its agent.
        gpus: the GPUs that it has.
        feed_port: where feeders of other hosts reach it.
        tensorboard_pid: the process of the TensorBoard beside it.
        tensorboard_port: the port of that TensorBoard.
        metrics: what the program and the feed have reported, by name.
    """

    node_id: int
    job_name: str
    task_index: int
    rank: int | None
    state: str
    detail: str
    leaving: str
    host: str | None
    address: str | None
    port: int | None
    executor_id: str | None
    pid: int | None
    agent_pid: int | None
    gpus: tuple[str, ...]
    feed_port: int | None
    tensorboard_pid: int | None
    tensorboard_port: int | None
    metrics: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As in messages: ``worker:0``."""
        return f"{self.job_name}:{self.task_index}"

    @classmethod
    def from_message(cls, node: Mapping[str, Any]) -> NodeStatus:
        """For tfos itself: reads a NODE of docs/formats/control-protocol.md, with its
        ``metrics``."""
        tensorboard = node.get("tensorboard") or {}
        rank = node.get("rank", -1)
        return cls(
            node_id=node["node_id"],
            job_name=node["job_name"],
            task_index=node["task_index"],
            rank=rank if rank >= 0 else None,
            state=node["state"],
            detail=node.get("detail") or "",
            leaving=node.get("leaving") or "",
            host=node.get("host"),
            address=node.get("address"),
            port=node.get("port"),
            executor_id=node.get("executor_id"),
            pid=node.get("pid"),
            agent_pid=node.get("agent_pid"),
            gpus=tuple(node.get("gpus") or ()),
            feed_port=(node.get("feed") or {}).get("port"),
            tensorboard_pid=tensorboard.get("pid"),
            tensorboard_port=tensorboard.get("port"),
            metrics=dict(node.get("metrics") or {}),
        )
