"""The program's end of the feed: rows in, results out."""

from __future__ import annotations

import threading
from typing import Any

from tfos import _native
from tfos.errors import BadInputError

#: What ``cluster.train(validation=...)`` feeds.
VALIDATION_QUEUE = "validation"

#: Counters of the native server by the names that metrics have for people.
_COUNTERS = {
    "rows": "rows",
    "feed_bytes": "bytes",
    "feed_queued_bytes": "queued_bytes",
    "feed_node_wait_seconds": "consumer_wait_s",
    "feed_feeder_wait_seconds": "feeder_wait_s",
}


class FeedSource:
    """The feed of one node: its native server and the way to tell the driver about it.

    Owner and lifetime: the node process. Threads: any.
    """

    def __init__(self, server: Any, link: Any, queues: list[str]):
        self.server = server
        self.queues = queues
        self._link = link
        self._readers: dict[str, Any] = {}
        self._batch_sources: dict[str, Any] = {}
        self._first_epochs: dict[str, int] = {}
        self._terminated = False
        self._lock = threading.Lock()  # of those above

    def asked_for_more(self) -> bool:
        """Whether the program has asked for an epoch that does not come: the feed has ended."""
        return bool(self.server.asked_for_more())

    def reader(self, queue: str) -> Any:
        """The reader of ``queue``: one for all DataFeeds over it, as it holds the position."""
        with self._lock:
            if queue not in self._readers:
                self._readers[queue] = self.server.reader(queue)
            return self._readers[queue]

    def batch_source(self, queue: str) -> Any:
        """The batches of ``queue``: one for all datasets over it, as it holds the position."""
        with self._lock:
            if queue not in self._batch_sources:
                source = self._batch_sources[queue] = self.server.batch_source(queue)
                if queue in self._first_epochs:
                    source.begin_at(self._first_epochs[queue])
            return self._batch_sources[queue]

    def epochs_to_begin(self) -> dict[str, int] | None:
        """The epoch that is read next of each queue; None in the middle of one."""
        with self._lock:
            epochs = {name: each.epoch_to_begin() for name, each in self._batch_sources.items()}
        return None if None in epochs.values() else epochs

    def begin_at(self, epochs: dict[str, int]) -> None:
        """For a node that comes late: reads the queues from these epochs on."""
        with self._lock:
            self._first_epochs = epochs
            for queue, source in self._batch_sources.items():
                if queue in epochs:
                    source.begin_at(epochs[queue])

    def epochs_read(self) -> int | None:
        """How many epochs of what is trained on were read to their end; None if it does not go
        through datasets."""
        sources = self._trained_on()
        return sum(each.epochs for each in sources) if sources else None

    def is_cut_short(self) -> bool:
        """Whether the feed has ended within an epoch of what is trained on."""
        return any(each.cut_short for each in self._trained_on())

    def begin_log(self) -> tuple[str, int] | None:
        """Has what batches are made of remembered: to be called where an epoch begins. Returns the
        queue and the epoch's number there. None: several queues are trained on, or none that goes
        through datasets, or one is in the middle of an epoch."""
        if len(queues := self._queues_trained_on()) != 1:
            return None
        [(queue, source)] = queues.items()
        epoch = source.epoch_to_begin()
        if epoch is None:
            return None
        source.keep_log()
        return queue, epoch

    def position_after(self, queue: str, epoch: int, batches: int) -> bytes | None:
        """What this node's program has trained on after so many batches of an epoch, for
        ``merge_positions``; None where that is not known."""
        position: bytes | None = self.batch_source(queue).position_after(epoch, batches)
        return position

    def batches_drawn(self, queue: str, epoch: int) -> int | None:
        """How many batches of an epoch this node's program has asked for; None where that is not
        known."""
        drawn: int | None = self.batch_source(queue).batches_of(epoch)
        return drawn

    def merge_positions(self, nodes: list[bytes], before: bytes) -> bytes:
        """What all nodes have trained on, with what an earlier cluster had before, as checkpoints
        have it. Raises :class:`tfos.errors.FeedError` where that is not known."""
        return bytes(_native.merge_positions(nodes, before))

    def _trained_on(self) -> list[Any]:
        return list(self._queues_trained_on().values())

    def _queues_trained_on(self) -> dict[str, Any]:
        with self._lock:
            return {
                queue: each
                for queue, each in self._batch_sources.items()
                if queue != VALIDATION_QUEUE
            }

    def counters(self) -> dict[str, float]:
        """What went through so far, by the names of docs/metrics.md."""
        native = self.server.counters()
        return {name: native[theirs] for name, theirs in _COUNTERS.items()}

    @property
    def terminated(self) -> bool:
        """Whether the program wants no more rows."""
        return self._terminated

    def terminate(self) -> None:
        with self._lock:
            if self._terminated:
                return
            self._terminated = True
        self.server.terminate()
        self._link.send_feed_terminated()

    def finish(self, others_go_on: bool) -> None:
        """Ends the feed when the program has returned: an inference row without a result fails its
        partition, and feeders that still have rows are told that nobody reads them.

        others_go_on: this node stays for them. They must not wait for its steps meanwhile.
        """
        for reader in self._readers.values():
            reader.finish()
        if others_go_on:
            self.terminate()
        else:
            self.server.terminate()

    def close(self) -> None:
        """When nobody needs this node any more; until then it answers feeders."""
        self.server.close()
        for batches in self._batch_sources.values():
            batches.close()


class DataFeed:
    """Rows from Spark in batches, and results back to it.

    Owner and lifetime: made by ``ctx.data_feed``; several of one queue share its position.
    Threads: one at a time. Errors: a lost feeder is not an error here (Spark retries its task).
    """

    def __init__(
        self,
        source: FeedSource,
        train: bool = False,
        queue: str = "input",
        input_mapping: dict[str, str] | None = None,
    ):
        """
        Args:
            source: the feed of the node.
            train, queue, input_mapping: those of ``ctx.data_feed``.
        """
        mapping = sorted(input_mapping.items()) if input_mapping else []
        self._train = train
        self._tensors = [tensor for _, tensor in mapping] if mapping else None
        self._columns = [column for column, _ in mapping]
        self._source = source
        self._reader = source.reader(queue)

    def should_stop(self) -> bool:
        """True once the end of the feed was reached, or after ``terminate``: no batch will come any
        more."""
        return self._source.terminated or self._reader.ended

    def next_batch(self, batch_size: int) -> Any:
        """Up to ``batch_size`` rows: a list of exactly the objects that were in the RDD.

        Waits until there are as many. A batch is shorter at the end of the feed and, unless
        ``train`` is set, at the end of an inference partition, which it does not cross.

        With ``input_mapping`` it is a dict of tensor name to NumPy array, all of one length, cut
        from the columns that the rows travel in. Numbers and arrays (or lists of numbers) of one
        dtype and shape come as one array of ``(rows, *shape)``: int as int64, float as float64.
        Everything else is an array of objects: str, bytes, arrays that differ in length (each an
        array), and the values of the rows themselves where there are None or several types.

        Raises :class:`tfos.errors.BadInputError` when the rows have not the columns; no row is lost
        then, the next call finds them again.
        """
        if self._source.terminated:
            batch_size = 0  # The reader may still hold rows, which are discarded.
        if self._tensors is None:
            return self._reader.next_rows(batch_size, self._train)
        arrays = self._reader.next_columns(self._columns, batch_size, self._train)
        return dict(zip(self._tensors, arrays, strict=True))

    def batch_results(self, results: Any) -> None:
        """Answers the oldest unanswered rows, one result for each, in order.

        Args:
            results: a list with the result of each row: any object for an RDD; for a DataFrame a
                tuple, Row, dict or, with one column, the value. Or whole columns, which cost no
                object for each row: a dict of column name to array, tensor or list, all of one
                length; or one array or tensor, whose element i is result i.

        Raises :class:`tfos.errors.BadInputError` for more results than unanswered rows and for
        columns that differ in length; nothing was sent then.
        """
        if isinstance(results, dict):
            self._answer_with_columns(results)
        elif isinstance(results, (list, tuple)) or not _is_array(results):
            self._reader.send_results(list(results))
        else:
            column = _as_column(results)
            if not self._reader.send_columns(None, [column]):
                self._reader.send_results(list(column))

    def _answer_with_columns(self, results: dict[str, Any]) -> None:
        names = list(results)
        if not names or not all(isinstance(name, str) for name in names):
            raise BadInputError(
                f"columns of results are named {names}; results are a list with one for each row, "
                "or a dict of column name (a str) to all values"
            )
        columns = [_as_column(column) for column in results.values()]
        if not self._reader.send_columns(names, columns):
            self._reader.send_results(
                [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=False)]
            )

    def terminate(self) -> None:
        """Ends the feed early: rows that were not taken yet and the rest of all partitions are
        discarded. Batches are empty from then on."""
        self._source.terminate()


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "numpy")


def _as_column(values: Any) -> Any:
    """``values`` as what the native side takes: an array of numbers, else a list of objects."""
    if isinstance(values, list):
        return values
    import numpy as np  # a program with arrays has imported it

    if hasattr(values, "numpy"):  # a tensor, ragged ones included
        values = values.numpy()
    array = np.asarray(values)
    if array.ndim == 0:
        raise BadInputError(f"{array!r} is not a column of results: it has no value for each row")
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")  # finer ones would become plain numbers
    return array if array.dtype.kind in "biufc" else array.tolist()
