"""What shows a running cluster elsewhere: MLflow, Prometheus, and the driver's own output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfos.base.node_output import OutputFollower
from tfos.cluster.view.addresses import Addresses
from tfos.cluster.view.scraping import ScrapeTarget
from tfos.mlflow.driver import TrackedRun
from tfos.settings import Settings


class Onlookers:
    """Those that look at one cluster from when its coordinator has started until its nodes have
    ended.

    Owner and lifetime: the :class:`tfos.Cluster`. Threads: one at a time; each of them has
    its own.
    """

    def __init__(self, nodes: Callable[[], list[dict[str, Any]]], tracked: TrackedRun | None):
        """nodes: all of them, as NODEs. tracked: the run of MLflow that the cluster is in."""
        self._nodes = nodes
        self._tracked = tracked
        self._output: OutputFollower | None = None
        self._scrape_target: ScrapeTarget | None = None

    def begin(
        self,
        settings: Settings,
        addresses: Addresses,
        cluster_id: str,
        labels: dict[str, str],
        show_output: Callable[[list[str]], None],
    ) -> None:
        """Starts those that were asked for.

        Args:
            labels: what Prometheus adds to the cluster's metrics.
            show_output: takes lines that nodes have written.

        Raises :class:`BadInputError` for a directory for Prometheus that can't be written. Those
        that have begun by then end with ``finish``.
        """
        if settings.logs == "driver":
            self._output = OutputFollower(addresses.page_from_driver, self._nodes, show_output)
        if self._tracked is not None:
            self._tracked.follow(self._nodes)
        if settings.scrape_directory:
            self._scrape_target = ScrapeTarget(
                settings.scrape_directory, cluster_id, (addresses.address, addresses.port), labels
            )

    def finish(self) -> None:
        """The nodes have ended, and the coordinator still answers: the last that is shown."""
        if self._output is not None:
            self._output.finish()
        if self._tracked is not None:
            self._tracked.finish()
        self.withdraw()

    def withdraw(self) -> None:
        """The coordinator answers no longer: Prometheus is not to take that for a failure of its
        own. Threads: any, also beside the other calls."""
        target, self._scrape_target = self._scrape_target, None
        if target is not None:
            target.remove()
