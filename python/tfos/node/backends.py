"""What JAX, PyTorch and Keras' own distribution read from a node's environment.

Names and meanings are those of their sources: ``jax.distributed.initialize`` reads
``JAX_COORDINATOR_ADDRESS``, ``torch.distributed`` with ``env://`` the next four and its launcher's
programs ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE``, ``keras.distribution.initialize`` the last three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfos.base.roles import members_of

#: The backends of Keras for which a node gets these variables.
BACKENDS = ("jax", "torch")


def environment(nodes: Iterable[Mapping[str, Any]], node_id: int) -> dict[str, str]:
    """The variables of one node, all of it that trains; none for other nodes.

    Rank 0 serves the others on the port that its node holds. That port is shared already: the
    servers of JAX and PyTorch set SO_REUSEADDR. A node sees its own GPUs only, so each is the only
    process with local rank 0 on what it sees.
    """
    members = members_of(nodes)
    ranks = {node["node_id"]: node["rank"] for node in members}
    if node_id not in ranks:
        return {}
    rank, size = str(ranks[node_id]), str(len(ranks))
    addresses = [_endpoint(node) for node in members]
    return {
        "JAX_COORDINATOR_ADDRESS": addresses[0],
        "MASTER_ADDR": members[0]["address"],
        "MASTER_PORT": str(members[0]["port"]),
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(addresses),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": size,
        "KERAS_DISTRIBUTION_PROCESS_ID": rank,
    }


def _endpoint(node: Mapping[str, Any]) -> str:
    address = node["address"]
    return f"[{address}]:{node['port']}" if ":" in address else f"{address}:{node['port']}"
