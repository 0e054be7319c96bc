"""Which rows of an epoch an earlier cluster has trained on, as its last checkpoint says."""

from __future__ import annotations

import json

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
        self._lines = lines.astype(np.int64)
        chunk = self._lines[:, [_PARTITION, _BEGIN]]
        begins_chunk = np.ones(len(lines), bool)
        begins_chunk[1:] = (chunk[1:] != chunk[:-1]).any(axis=1)
        #: The first line of each chunk.
        self._chunks = np.flatnonzero(begins_chunk)
        #: Of the chunk of each line: whether all of its rows were trained on.
        self._whole = np.zeros(len(lines), bool)
        if len(lines):
            trained = np.add.reduceat(self._trained(), self._chunks)
            whole = trained == self._lines[self._chunks, _ROWS]
            self._whole = np.repeat(whole, np.diff([*self._chunks, len(lines)]))

    @property
    def rows(self) -> int:
        """How many rows were trained on."""
        return int(self._trained().sum())

    @property
    def partitions(self) -> int:
        """How many partitions the data had, at least."""
        return 1 + int(self._lines[:, _PARTITION].max(initial=-1))

    def of_plan(self) -> dict[int, str]:
        """For :class:`tfos.feed.plan.FeedPlan`."""
        lines = self._lines[self._chunks]
        chunks = [
            [*numbers, whole]
            for numbers, whole in zip(
                lines[:, [_BEGIN, _END, _CHECKSUM]].tolist(),
                self._whole[self._chunks].tolist(),
                strict=True,
            )
        ]
        partitions, firsts = np.unique(lines[:, _PARTITION], return_index=True)
        ends = [*firsts.tolist(), len(chunks)][1:]
        return {
            partition: json.dumps(chunks[first:end])
            for partition, first, end in zip(
                partitions.tolist(), firsts.tolist(), ends, strict=True
            )
        }

    def partly(self) -> list[tuple[int, ...]]:
        """Of chunks of which some rows were trained on, for the nodes: partition, first item, item
        after the last, checksum, first row, row after the last."""
        told = [_PARTITION, _BEGIN, _END, _CHECKSUM, _FIRST, _LAST]
        return [tuple(line) for line in self._lines[~self._whole][:, told].tolist()]

    def _trained(self) -> np.ndarray:
        """How many rows each line has."""
        return self._lines[:, _LAST] - self._lines[:, _FIRST]
