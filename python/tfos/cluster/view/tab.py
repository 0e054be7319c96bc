"""The cluster in Spark's UI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfos.cluster.coordinator import Coordinator
from tfos.cluster.ledger import Ledger
from tfos.cluster.progress import Progress
from tfos.cluster.view.addresses import Addresses
from tfos.spark.ui import ClusterTab


def tab_of(
    sc: Any,
    cluster_id: str,
    addresses: Addresses,
    coordinator: Coordinator,
    ledger: Callable[[], Ledger],
    progress: Progress,
) -> ClusterTab:
    """Shows the cluster there. If Spark's UI passes on the cluster's page, ``progress`` says the
    link, with the key: Spark itself never gets one."""

    def say(url: str) -> None:
        progress.say(f"page in Spark's UI | {addresses.page_at(url)}")

    return ClusterTab(
        sc,
        cluster_id,
        addresses.page.base_url,
        addresses.page_from_driver.base_url,
        coordinator,
        ledger,
        say,
    )
