"""Fixtures of the page's tests."""

from __future__ import annotations

import pytest

from support.page.shown import report_all
from support.page.simulated_cluster import SimulatedCluster


@pytest.fixture
def small():
    """Two nodes that have trained a little."""
    with SimulatedCluster(2) as cluster:
        for node_id in range(2):
            cluster.run(node_id)
        for step in range(1, 4):
            report_all(cluster, step)
        yield cluster
