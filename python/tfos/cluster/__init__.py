"""The driver's side of a cluster of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfos.base import lazy

if TYPE_CHECKING:
    from tfos.cluster.cluster import Cluster
    from tfos.cluster.start import run

__all__ = ["Cluster", "run"]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "Cluster": "tfos.cluster.cluster",
        "run": "tfos.cluster.start",
    },
)
