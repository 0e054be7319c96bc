"""``tfos.run(..., resume=directory)``: what was trained before, as the last checkpoint says."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import Any

from tfos.cluster.feed.position import Position
from tfos.errors import BadInputError
from tfos.keras.checkpoint.directory import CheckpointDirectory, path_in_session
from tfos.spark.connect import ConnectContext

#: What Spark sets in the thread that brings a micro-batch, and in that of a DStream's interval.
_OF_STREAMS = ("sql.streaming.queryId", "spark.streaming.internal.batchTime")


def is_in_stream(context: Any) -> bool:
    """Whether Spark runs this thread for data of a stream, as in ``foreachBatch``. With Spark
    Connect that is in another process, which no cluster gets to."""
    return not isinstance(context, ConnectContext) and any(
        context.getLocalProperty(name) is not None for name in _OF_STREAMS
    )


class Resumption:
    """Where a cluster goes on: how many epochs its checkpoint has, which are not fed again, and
    which rows of the next one.

    Owner and lifetime: the cluster. Threads: any.

    Attributes:
        directory: the URI of the checkpoints.
        epochs: that are done; None: nobody has looked, as the nodes read their data themselves.
        step: how many steps of the next epoch are done.
        position: which rows these were; None: the epoch begins anew.
        begins_anew: why it does, where steps of it are done.
    """

    def __init__(
        self,
        directory: str,
        epochs: int | None,
        step: int = 0,
        position: Position | None = None,
        begins_anew: str = "",
    ):
        self.directory = directory
        self.epochs = epochs
        self.step = step
        self.position = position
        self.begins_anew = begins_anew
        self._lock = threading.Lock()
        #: By queue, how many epochs ``train`` was called for.
        self._asked_for: Counter[str] = Counter()

    @classmethod
    def of(
        cls,
        context: Any,
        directory: str | os.PathLike[str],
        feeds: bool,
        begins_anew: str = "",
    ) -> Resumption:
        """What is in ``directory``, if the driver feeds the data. ``begins_anew``: why the nodes
        can't go on in the middle of an epoch; "" where they can. Raises :class:`BadInputError` for
        a directory that can't be read, or has damaged checkpoints alone."""
        path = path_in_session(context, directory)
        if not feeds:
            return cls(path, None)
        checkpoints = CheckpointDirectory(path)
        try:
            saved = checkpoints.newest()
            trained = checkpoints.trained(saved) if saved else None
        except OSError as error:
            raise BadInputError(
                f"resume: the checkpoints in {path} can't be read: {type(error).__name__}: "
                f"{error}. Nothing was started"
            ) from error
        if saved is None:
            return cls(path, 0)
        epoch, step = saved.checkpoint.epoch, saved.checkpoint.step
        if trained and not begins_anew:
            return cls(path, epoch, step, Position(*trained))
        if step > 0 and not begins_anew:
            begins_anew = "the checkpoint does not say which rows of the epoch were trained on"
        return cls(path, epoch, step, None, begins_anew if step > 0 else "")

    def pass_over(self, queue: str, epochs: int) -> int:
        """How many of the next ``epochs`` of a queue are done. They count as asked for from here
        on, so that calls of two threads don't pass over the same ones."""
        with self._lock:
            before = self._asked_for[queue]
            self._asked_for[queue] += epochs
        return min(max((self.epochs or 0) - before, 0), epochs)

    def give_back(self, queue: str, epochs: int) -> None:
        """After a call that has fed no epoch to its end: it may be made again."""
        with self._lock:
            self._asked_for[queue] -= epochs

    def of_node(self) -> dict[str, Any]:
        """What nodes are told of it, so that they go on at the same place."""
        told: dict[str, Any] = {"directory": self.directory, "epochs": self.epochs}
        if self.position:
            told.update(step=self.step, queue=self.position.queue, trained=self.position.partly())
        return told

    def __str__(self) -> str:
        if self.epochs is None:
            return f"resume | from the last checkpoint in {self.directory}, if there is one"
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs or 'no'} epochs"
        rows = f"{self.position.rows:,} rows of the" if self.position else ""
        if rows:
            done = f"{epochs} and {rows} next one are" if self.epochs else f"{rows} first epoch are"
        else:
            done = f"{epochs} {'is' if self.epochs == 1 else 'are'}"
        anew = ""
        if self.begins_anew:
            which = "next" if self.epochs else "first"
            anew = f", and the {which} one begins anew: {self.begins_anew}"
        return f"resume | {done} done in {self.directory}{anew}"
