"""The queues of a cluster's nodes, as the driver knows them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from tfos.cluster.coordinator import Coordinator
from tfos.cluster.feed.whole_epochs import Epoch


class Queues:
    """Whose turn it is to feed a queue, the numbers of its epochs, and what nodes hear of these.

    Owner and lifetime: the :class:`tfos.cluster.feed.cluster_feed.ClusterFeed`. Threads: any.
    """

    def __init__(self, coordinator: Coordinator):
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}  # by queue
        self._epochs: dict[str, int] = {}  # the next of each queue; they count through its life

    @contextmanager
    def turn(self, names: Iterable[str]) -> Iterator[None]:
        """Nobody else feeds these queues in the block: another thread's epochs of the same queue
        would mix with these."""
        with ExitStack() as turns:
            for name in sorted(names):  # Always in one order.
                turns.enter_context(self._turns.setdefault(name, threading.Lock()))
            yield

    def next_epoch(self, queue: str) -> int:
        with self._lock:
            return self._epochs.get(queue, 0)

    def take_epochs(self, queue: str, count: int) -> tuple[int, int]:
        """The first and the last number of the queue's next epochs."""
        with self._lock:
            first = self._epochs.get(queue, 0)
            self._epochs[queue] = first + count
        return first, first + count - 1

    def abandon(self, epoch: Epoch) -> None:
        """Interrupted, or rows that can't be fed: what the nodes have got of the epoch is part of
        the next one, as a pass without a batch would end ``repeat()``. It is not whole, so it must
        not be replayed."""
        self.take_epochs(epoch.queue, -(1 + epoch.replay.epochs))
        self._coordinator.send(
            "abandon_epoch", queue=epoch.queue, epoch=epoch.number, job=epoch.job_id.hex()
        )

    def end_epoch(self, queue: str, number: int) -> None:
        """All rows of this and earlier epochs were fed."""
        self._coordinator.send("end_epoch", queue=queue, epoch=number)

    def end_job(self, epoch: Epoch) -> None:
        """No task comes any more of the job that fed the epoch: nodes need not remember it. A
        stream has a job for each interval, and none of them ends the epoch."""
        self._coordinator.send("end_job", job=epoch.job_id.hex())
