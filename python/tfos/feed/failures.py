"""Why a node that was fed is gone: feed tasks ask the coordinator."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tfos.base.network import host_and_port
from tfos.feed.plan import FeedPlan


def raise_first_failure(plan: FeedPlan, error: Exception, wait_ms: int = 2000) -> None:
    """Raises the cluster's first failure, which explains why a node was lost (``error``), if the
    coordinator knows of one or hears of it within ``wait_ms``."""
    from tfos.errors import NodeFailedError

    if programs_have_returned(plan):
        return
    failure = _ask_coordinator(plan, f"/v1/failure?wait_ms={wait_ms}", 5 + wait_ms / 1000)
    if failure is not None:
        raise NodeFailedError.from_message(failure) from error


def programs_have_returned(plan: FeedPlan) -> bool:
    """Whether the program of every node that could be fed has returned in order, except for nodes
    that the cluster was allowed to lose."""
    status = _ask_coordinator(plan, "/v1/status", 5)
    fed = {endpoint["node_id"] for endpoint in plan.endpoints}
    return (
        status is not None
        and status.get("failure") is None
        and all(
            node["state"] in ("done", "lost") for node in status["nodes"] if node["node_id"] in fed
        )
    )


def _ask_coordinator(plan: FeedPlan, target: str, timeout: float) -> dict[str, Any] | None:
    """The coordinator's JSON answer; None when it has none to give or is gone itself."""
    address, port = plan.coordinator
    request = urllib.request.Request(
        f"http://{host_and_port(address, port)}{target}",
        headers={"Authorization": f"Bearer {plan.token}"},
    )
    # Never through a proxy of the environment: the address is inside the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as response:
            return json.load(response) if response.status == 200 else None
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return None
