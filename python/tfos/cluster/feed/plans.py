"""What the tasks of a feed job are told: the plan of each, and the nodes it feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfos.base import keys
from tfos.base.roles import members_of
from tfos.cluster.coordinator import FINAL_STATES, Coordinator, node_name
from tfos.cluster.feed.whole_epochs import Epoch, takes_part
from tfos.errors import BadInputError, ClusterTimeoutError
from tfos.feed.plan import FeedPlan
from tfos.settings import Settings
from tfos.spark.jobs import pickled_batches

#: No timeout needs more; what counts milliseconds can hold it.
_MOST_SECONDS = 1e9


def fed_nodes(coordinator: Coordinator) -> list[Mapping[str, Any]]:
    """Those that take rows, ended ones included."""
    return members_of(coordinator.nodes())


class FeedPlans:
    """Makes the plans of the jobs that feed one cluster.

    Owner and lifetime: the :class:`tfos.cluster.feed.cluster_feed.ClusterFeed`.
    Threads: any. Errors: the cluster's failure while it waits for nodes, and
    :class:`tfos.errors.ClusterTimeoutError` where they take too long.

    token: of the cluster, for the tasks that feed. show_progress: called again and again, with what
    is waited for. elastic: the nodes go on without those that are lost, and train on their rows.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        settings: Settings,
        token: str,
        show_progress: Callable[[str], None],
        elastic: bool,
    ):
        self._coordinator = coordinator
        self._settings = settings
        self._token = token
        self._show_progress = show_progress
        self._elastic = elastic

    def of_rdd(self, rdd: Any, timeout: float, epoch: Epoch) -> tuple[Any, FeedPlan]:
        """The RDD to feed from and the plan for its tasks, once every fed node listens."""
        # Where rows may not be pickles, Spark's batches are opened by its own workers.
        pickled = pickled_batches(rdd) if self._settings.feed_pickle else None
        source = rdd if pickled is None else pickled
        return source, self.make(pickled is not None, timeout, epoch)

    def make(self, pickled: bool, timeout: float, epoch: Epoch) -> FeedPlan:
        """For rows that Spark holds as pickles or not, once every fed node listens."""
        if not 0 < timeout < _MOST_SECONDS:
            raise BadInputError(
                f"feed_timeout={timeout!r}: seconds, above 0 and below {_MOST_SECONDS:g}"
            )
        self._await_feeds(timeout)
        endpoints = [
            {
                "node_id": node["node_id"],
                "address": node["address"],
                "port": node["feed"]["port"],
                "socket": node["feed"]["socket"],
                "executor_id": node["executor_id"],
            }
            for node in fed_nodes(self._coordinator)
            if node["feed"] and takes_part(node)
        ]
        return FeedPlan(
            feed_key=keys.key_for(self._token, "feed"),
            ask_key=keys.key_for(self._token, "ask"),
            encrypt=self._settings.encrypt,
            endpoints=endpoints,
            coordinator=(self._coordinator.address, self._coordinator.port),
            job_id=epoch.job_id,
            queue=epoch.queue,
            timeout=timeout,
            answer_timeout=self._settings.node_answer_timeout,
            region_bytes=self._settings.feed_region,
            chunk_bytes=self._settings.feed_chunk,
            epoch=epoch.number,
            pickle=self._settings.feed_pickle,
            pickled=pickled,
            replay=epoch.replay,
            until_read=self._settings.max_lost_nodes > 0,
            check_retries=self._settings.feed_check_retries,
            bears_losses=self._elastic,
            repeats=epoch.repeats,
            trained=epoch.trained,
        )

    def _await_feeds(self, timeout: float) -> None:
        """Until every fed node listens; ``timeout`` bounds how long their programs may import."""

        def missing() -> list[Mapping[str, Any]]:
            fed = filter(takes_part, fed_nodes(self._coordinator))
            return [n for n in fed if not n["feed"] and n["state"] not in FINAL_STATES]

        listening = self._coordinator.wait(
            lambda: not missing(),
            timeout,
            while_waiting=lambda: self._show_progress("waiting for the programs"),
        )
        if not listening:
            raise ClusterTimeoutError(
                f"nodes were not ready to be fed within {timeout:g} s: "
                + "; ".join(f"{node_name(n)} is {n['state']} ({n['detail']})" for n in missing())
            )
