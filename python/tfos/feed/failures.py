"""Why a node that was fed is gone: feed tasks ask the coordinator, through native code."""

from __future__ import annotations

import json

from tfos.feed.plan import FeedPlan


def programs_have_returned(plan: FeedPlan, lost: Exception) -> bool:
    """Whether the programs of all nodes that could be fed have returned in order, so that nobody
    wants rows any more and ``lost`` does not matter.

    Nodes that the cluster was allowed to lose count as returned. Raises the cluster's first
    failure, which explains ``lost``, where there is one.
    """
    from tfos import _native
    from tfos.errors import NodeFailedError

    returned, failure = _native.why_node_was_lost(plan.to_json())
    if failure:
        raise NodeFailedError.from_message(json.loads(failure)) from None
    return returned
