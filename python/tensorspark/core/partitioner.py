"""Partitioners for ``rdd.partitionBy``."""

from __future__ import annotations

import random
from typing import Any


class RandomPartitioner:
    """Puts rows into any of ``num_partition`` partitions."""

    def __init__(self, num_partition: int):
        self.num_partition = num_partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RandomPartitioner) and self.num_partition == other.num_partition

    def __hash__(self) -> int:
        return hash(self.num_partition)

    def __call__(self, key: Any) -> int:
        return random.randrange(self.num_partition)
