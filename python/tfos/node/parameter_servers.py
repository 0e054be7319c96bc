"""How a node reaches the parameter servers of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfos.errors import BadInputError
from tfos.parameter_server import connection

if TYPE_CHECKING:
    from tfos.node.agent_link import AgentLink
    from tfos.node.context import NodeContext


def of(
    node: NodeContext, bootstrap: Mapping[str, Any]
) -> tuple[list[connection.Server], connection.Worker, str]:
    """The servers, this node as one of their workers, and the key for both, as
    :class:`tfos.parameter_server.ParameterServer` takes them. BadInputError where the cluster has
    no servers."""
    if not bootstrap["node"].get("parameter_servers"):
        raise BadInputError(
            "this cluster has no parameter servers of tfos: start it with "
            "tfos.run(..., parameter_servers=1)"
        )
    servers = connection.servers_of(
        bootstrap["nodes"], bootstrap["cluster_id"], encrypt=bootstrap["encrypt"]
    )
    worker = connection.Worker(
        number=node.node_id,
        name=f"{node.job_name}:{node.task_index} on host {node.host}",
        starts=node.is_chief,
        workers=node.size,
    )
    return servers, worker, bootstrap["keys"]["parameters"]


def link_of(reporter: AgentLink, bootstrap: Mapping[str, Any]) -> Any:
    """What says where a server is that was lost and came again; None: none does."""
    return reporter.native if bootstrap["node"].get("servers_return") else None
