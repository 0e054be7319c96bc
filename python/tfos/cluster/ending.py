"""Ending a cluster in order: streams, then the programs that train, then those that serve them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from tfos.cluster.coordinator import FINAL_STATES, Coordinator, node_name
from tfos.cluster.feed.cluster_feed import ClusterFeed
from tfos.cluster.feed.plans import fed_nodes
from tfos.errors import ClusterTimeoutError

logger = logging.getLogger(__name__)

#: Beyond the grace between TERM and KILL, for agents that can't kill their nodes to say so. They
#: wait for 30 s (SupervisedChild::kKillPatience).
_KILL_SECONDS = 60.0
#: Likewise, for agents to say that their nodes have ended.
_END_MARGIN_SECONDS = 5.0


class Ending:
    """Waits for the nodes of one cluster to end, and has them end.

    Owner and lifetime: the :class:`tfos.Cluster`, as long as it runs. Threads: any.
    Errors: the cluster's failure, from each wait.

    feeds: whether Spark feeds the nodes. stop_grace: seconds between TERM and KILL. show_progress:
    called again and again, with what is waited for.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        feed: ClusterFeed,
        feeds: bool,
        stop_grace: float,
        show_progress: Callable[[str], None],
    ):
        self._coordinator = coordinator
        self._feed = feed
        self._feeds = feeds
        self._stop_grace = stop_grace
        self._show_progress = show_progress

    def await_streaming(self, streaming_context: Any) -> None:
        """Until the stream has ended; stops it once no node wants more rows."""
        while not streaming_context.awaitTerminationOrTimeout(1):
            self._coordinator.raise_failure()
            self._show_progress("streaming")
            if self._feed.nobody_wants_rows():
                streaming_context.stop(stopSparkContext=False, stopGraceFully=True)

    def await_programs(self, service_grace: float, timeout: float | None) -> None:
        """Ends the feed and waits for the programs: see ``Cluster.shutdown``."""
        coordinator = self._coordinator
        coordinator.raise_failure()
        if self._feeds:
            coordinator.send("end_feed")

        if unfinished := self.await_training(timeout):
            raise ClusterTimeoutError(
                f"the programs did not return within {timeout:g} s of shutdown and were stopped: "
                + "; ".join(unfinished)
            )
        if service_grace > 0:
            self._await(
                lambda: all(n["state"] in FINAL_STATES for n in coordinator.nodes()), service_grace
            )
        self.stop("the cluster is shut down")
        # Agents say which of their nodes can't be killed, and leave.
        if not self._await(lambda: coordinator.finished, self._stop_grace + _KILL_SECONDS):
            logger.warning(
                "%s did not end in time, for an unknown reason; closing the cluster anyway",
                ", ".join(
                    node_name(n) for n in coordinator.nodes() if n["state"] not in FINAL_STATES
                ),
            )

    def await_training(self, timeout: float | None) -> list[str]:
        """Until the programs of all nodes that train have returned; those that have not after
        ``timeout`` seconds, for people."""
        nodes = partial(fed_nodes, self._coordinator)
        if self._await(lambda: all(n["state"] in FINAL_STATES for n in nodes()), timeout):
            return []
        return [
            f"{node_name(n)} is {n['state']}" for n in nodes() if n["state"] not in FINAL_STATES
        ]

    def end_as_asked(self, reason: str, timeout: float) -> None:
        """Ends the cluster because somebody has asked for it. Programs that Spark feeds leave the
        rows unread that their nodes hold, and have ``timeout`` seconds to return. Others know of
        no end, so they get TERM at once."""
        coordinator = self._coordinator
        if self._feeds:
            coordinator.send("end_feed", at_once=True)
            trains = partial(fed_nodes, coordinator)
            coordinator.wait_quietly(
                lambda: all(n["state"] in FINAL_STATES for n in trains()), timeout
            )
        self.stop(reason)
        coordinator.wait_quietly(lambda: coordinator.finished, self._stop_grace + _KILL_SECONDS)

    def stop(self, reason: str) -> None:
        """Has all nodes end."""
        self._coordinator.send("stop", reason=reason, grace_ms=int(self._stop_grace * 1000))

    def await_nodes(self) -> None:
        """Until all nodes have ended, or have had the time to, once they were told to. Raises
        nothing, also where the cluster has failed."""
        self._coordinator.wait_quietly(
            lambda: self._coordinator.finished, self._stop_grace + _END_MARGIN_SECONDS
        )

    def _await(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        doing = "all rows fed" if self._feeds else "running"
        return self._coordinator.wait(
            condition, seconds, while_waiting=lambda: self._show_progress(doing)
        )
