"""Which rows of an epoch an earlier cluster has trained on, as its last checkpoint says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: The columns of a position (docs/formats/checkpoint.md).
_PARTITION, _BEGIN, _END, _CHECKSUM, _ROWS, _FIRST, _LAST = range(7)


class Position:
    """The position of a training in the data of an epoch. A value.

    Attributes:
        queue: that its rows came from.
    """

    def __init__(self, queue: str, lines: np.ndarray):
        """``lines``: as checkpoints have them, those of one chunk behind each other."""
        self.queue = queue
        #: The lines of each chunk.
        self._chunks: list[np.ndarray] = []
        if len(lines):
            chunk = lines[:, [_PARTITION, _BEGIN]]
            begins = np.flatnonzero((chunk[1:] != chunk[:-1]).any(axis=1)) + 1
            self._chunks = np.split(lines, begins)

    @property
    def rows(self) -> int:
        """How many rows were trained on."""
        return sum(map(_trained, self._chunks))

    @property
    def partitions(self) -> int:
        """How many partitions the data had, at least."""
        return 1 + max((int(chunk[0, _PARTITION]) for chunk in self._chunks), default=-1)

    def of_plan(self) -> dict[str, list[list[Any]]]:
        """For :class:`tfos.feed.plan.FeedPlan`."""
        plan: dict[str, list[list[Any]]] = {}
        for chunk in self._chunks:
            partition, begin, end, checksum, rows = map(int, chunk[0, : _ROWS + 1])
            known = plan.setdefault(str(partition), [])
            known.append([begin, end, checksum, _trained(chunk) == rows])
        return plan

    def partly(self) -> list[Sequence[int]]:
        """Of chunks of which some rows were trained on, for the nodes: partition, first item, item
        after the last, checksum, first row, row after the last."""
        return [
            tuple(map(int, line[[_PARTITION, _BEGIN, _END, _CHECKSUM, _FIRST, _LAST]]))
            for chunk in self._chunks
            if _trained(chunk) < chunk[0, _ROWS]
            for line in chunk
        ]


def _trained(chunk: np.ndarray) -> int:
    return int((chunk[:, _LAST] - chunk[:, _FIRST]).sum())
