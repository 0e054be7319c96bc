"""Which jobs a cluster has and how many nodes each: a pure function of what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfos.base.quantities import whole_number
from tfos.errors import BadInputError

#: Jobs that Spark does not feed and that are stopped when all others have finished. The nodes of
#: all other jobs train together, and so share rows and files: the coordinator gives them ranks, and
#: :func:`members_of` finds them by these.
SERVICE_JOBS = ("ps", "evaluator")

#: The training jobs whose node is the first of all.
CHIEF_JOBS = ("chief", "master")

INPUT_MODES = ("spark", "tensorflow")


def plan_roles(
    nodes: int,
    *,
    ps: int = 0,
    parameter_servers: int = 0,
    chief: str | None = None,
    evaluator: bool = False,
    input_mode: str = "spark",
    driver_parameter_servers: bool = False,
) -> list[dict[str, Any]]:
    """The cluster's jobs in the order in which node ids are given out, as ``{"job", "count"}``.

    Parameter servers (of either kind: ``ps`` run the program, ``parameter_servers`` are tfos' own)
    come first, then the chief, the evaluator, and workers for the rest. What
    can't be is refused here, before anything starts.
    """
    if input_mode not in INPUT_MODES:
        raise BadInputError(f"input_mode is 'spark' or 'tensorflow', not {input_mode!r}")
    nodes = whole_number("nodes", nodes)
    ps = whole_number("ps", ps)
    parameter_servers = whole_number("parameter_servers", parameter_servers)
    if nodes < 1:
        raise BadInputError(f"a cluster needs at least 1 node, not {nodes}")
    for argument, count in (("ps", ps), ("parameter_servers", parameter_servers)):
        if count < 0:
            raise BadInputError(f"{argument}={count}: must be 0 or more")
    if ps and parameter_servers:
        raise BadInputError(
            "choose ps= or parameter_servers=, not both: ps= nodes run the program, and "
            "parameter_servers= nodes serve ctx.parameter_server"
        )
    if chief not in (None, *CHIEF_JOBS):
        raise BadInputError(f"the first node's job is 'chief' or 'master', not {chief!r}")
    if driver_parameter_servers and input_mode == "spark":
        raise BadInputError(
            "parameter servers on the driver need input mode 'tensorflow': "
            "with 'spark' the driver is busy feeding"
        )
    if evaluator and input_mode == "spark":
        raise BadInputError(
            "an evaluator needs input mode 'tensorflow': with 'spark' it would get no rows"
        )
    if driver_parameter_servers and ps + parameter_servers == 0:
        raise BadInputError("parameter servers on the driver were asked for, but their number is 0")
    counts = {"ps": ps + parameter_servers}
    if chief:
        counts[chief] = 1
    counts["evaluator"] = int(evaluator)
    counts["worker"] = nodes - sum(counts.values())
    if counts["worker"] < 0 or (counts["worker"] == 0 and not chief):
        words = {"ps": "parameter server" if counts["ps"] == 1 else "parameter servers"}
        asked = ", ".join(
            f"{count} {words.get(job, job)}" for job, count in counts.items() if count > 0
        )
        raise BadInputError(
            f"nodes={nodes} is too few for {asked} and at least one node that trains"
        )
    return [{"job": job, "count": count} for job, count in counts.items() if count]


def service_nodes(roles: list[dict[str, Any]]) -> frozenset[int]:
    """The ids of the nodes whose jobs are in SERVICE_JOBS."""
    jobs = [role["job"] for role in roles for _ in range(role["count"])]
    return frozenset(node_id for node_id, job in enumerate(jobs) if job in SERVICE_JOBS)


def members_of(nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The nodes that train together, in the order of the ranks that the coordinator has given
    them."""
    return sorted((node for node in nodes if node["rank"] >= 0), key=lambda node: node["rank"])


def tensorboard_node(roles: list[dict[str, Any]]) -> int:
    """The id of the node that TensorBoard runs beside: the first that trains, so the chief or
    master if there is one."""
    before = 0
    for role in roles:
        if role["job"] not in SERVICE_JOBS:
            break
        before += role["count"]
    return before
