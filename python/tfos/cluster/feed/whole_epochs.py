"""Feeding epochs to nodes that train in step, and go on without those that are lost. What a lost
node had got is fed to the others, and nodes that come later begin with an epoch."""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfos.base.roles import members_of
from tfos.cluster.coordinator import Coordinator, node_name
from tfos.errors import BadInputError
from tfos.feed.plan import Replay

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Epoch:
    """What one Spark job feeds to a queue."""

    queue: str
    #: Its number among the queue's epochs, which count through the cluster's life.
    number: int = 0
    replay: Replay = field(default_factory=Replay)
    #: What Spark's pages call the job.
    title: str = "rows"
    #: What nodes that are lost now had got of it is fed to the others.
    repeats: bool = False
    #: What an earlier cluster has trained on of it, as a :class:`tfos.feed.plan.FeedPlan` has it.
    trained: dict[int, str] = field(default_factory=dict)
    job_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))


def takes_part(node: Mapping[str, Any]) -> bool:
    """Whether a NODE of the coordinator's is there, or was, and the others have let it in."""
    return node["state"] not in ("lost", "expected") and not node.get("joins", False)


class WholeEpochs:
    """Owner and lifetime: the cluster's feed. Threads: any, one for a queue. Errors: the cluster's
    failure, and what feeding raises.

    nobody_wants_rows: whether nothing is to be fed any more. others_come: nodes may come in place
    of lost ones, and late.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        show_progress: Callable[[str], None],
        nobody_wants_rows: Callable[[], bool],
        others_come: bool,
    ):
        self._coordinator = coordinator
        self._show_progress = show_progress
        self._nobody_wants_rows = nobody_wants_rows
        self._others_come = others_come
        self._questions = itertools.count(1)
        self._turn = threading.Lock()

    def feed(self, feed: Callable[[Epoch], int], epoch: Epoch) -> None:
        """Feeds an epoch until the nodes that are left have trained on its rows, those included
        that a node had got which was lost meanwhile. Nodes that wait to join come in before.
        ``feed`` returns how many items it has fed.

        Up to the last batches of the epoch, that is: once its end is told, nothing is fed again.
        """
        # The coordinator answers one question at a time.
        if not self._turn.acquire(blocking=False):
            raise BadInputError(
                f"the queue {epoch.queue!r} can't be fed while another one is: nodes that go on "
                "without lost ones (nodes=(least, most)) take one queue after the other"
            )
        try:
            self._feed(feed, epoch)
        finally:
            self._turn.release()

    def _feed(self, feed: Callable[[Epoch], int], epoch: Epoch) -> None:
        self._let_in(epoch)
        fed = 0
        while not self._nobody_wants_rows():
            gone = self._gone()
            fed += feed(epoch)
            if not fed:
                # Nothing of it can be lost with a node. And a program that waits for its first row,
                # to learn what the columns hold, takes no part in an epoch, so that this one would
                # never count as drained.
                return
            if self._gone().keys() == gone.keys() and self._await_steps(epoch, gone):
                return
            if lost := self._gone().keys() - gone.keys():
                logger.warning(
                    "what %s had got of epoch %d of '%s' is fed again, to the nodes that are left. "
                    "They train a second time on the rows of it that it had trained on",
                    ", ".join(self._gone()[node] for node in sorted(lost)),
                    epoch.number,
                    epoch.queue,
                )
            epoch = replace(epoch, repeats=True)

    def _let_in(self, epoch: Epoch) -> None:
        """Returns when the nodes that take part in the epoch are known. Before its end no other
        comes in, so its tasks need not hear of any."""
        if not self._others_come:
            return
        number = next(self._questions)
        self._coordinator.send("begin_epoch", queue=epoch.queue, epoch=epoch.number, number=number)
        self._coordinator.wait(
            lambda: self._coordinator.begun >= number or self._nobody_wants_rows(),
            None,
            while_waiting=lambda: self._show_progress("feeding"),
        )

    def _gone(self) -> dict[int, str]:
        """The nodes that take no part in the epoch, with their names. One that is lost stays among
        them when another comes in its place."""
        return {
            node["node_id"]: node_name(node)
            for node in members_of(self._coordinator.nodes())
            if not takes_part(node)
        }

    def _await_steps(self, epoch: Epoch, gone: Mapping[int, str]) -> bool:
        """Until the nodes have made all steps that the rows allow, or none wants rows; False when
        another node is lost before."""
        number = next(self._questions)
        self._coordinator.send("ask_drained", queue=epoch.queue, epoch=epoch.number, number=number)
        self._coordinator.wait(
            lambda: (
                self._coordinator.drained == number
                or self._gone().keys() != gone.keys()
                or self._nobody_wants_rows()
            ),
            None,
            while_waiting=lambda: self._show_progress("feeding"),
        )
        return self._gone().keys() == gone.keys()
