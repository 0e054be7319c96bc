"""Nodes without Spark whose program reads datasets. A module of its own, as it imports TensorFlow."""

from __future__ import annotations

from typing import Any

from support.feed_nodes import FedNode
from tfos.feed.columns import Request
from tfos.feed.dataset import make_dataset


class DatasetNode(FedNode):
    """Whose program reads datasets."""

    def dataset(self, batch_size: int, **options: Any) -> Any:
        return make_dataset(self.source.batch_source("input"), Request(batch_size, **options))
