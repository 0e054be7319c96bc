"""The program's end of the feed: rows in, results out."""

from __future__ import annotations

from typing import Any

from tfos.errors import BadInputError

#: What ``cluster.train(validation=...)`` feeds.
VALIDATION_QUEUE = "validation"


class FeedSource:
    """The feed of one node: its native server and the way to tell the driver about it.

    This is the opaque handle that older programs know as ``mgr``.
    Owner and lifetime: the node process. Threads: any.
    """

    def __init__(self, server: Any, link: Any, queues: list[str]):
        self.server = server
        self.queues = queues
        self._link = link
        self._readers: dict[str, Any] = {}
        self._batch_sources: dict[str, Any] = {}
        self._terminated = False

    def reader(self, queue: str) -> Any:
        """The reader of ``queue``: one for all DataFeeds over it, as it holds the position."""
        if queue not in self._readers:
            self._readers[queue] = self.server.reader(queue)
        return self._readers[queue]

    def batch_source(self, queue: str) -> Any:
        """The batches of ``queue``: one for all datasets over it, as it holds the position."""
        if queue not in self._batch_sources:
            self._batch_sources[queue] = self.server.batch_source(queue)
        return self._batch_sources[queue]

    def terminate(self) -> None:
        if not self._terminated:
            self._terminated = True
            self.server.terminate()
            self._link.send_feed_terminated()

    def close(self) -> None:
        """Ends the feed when the program has returned: an inference row without a result fails its
        partition, and feeders that still have rows are told that nobody reads them."""
        for reader in self._readers.values():
            reader.finish()
        self.server.terminate()
        self.server.close()
        for batches in self._batch_sources.values():
            batches.close()


class DataFeed:
    """Rows from Spark in batches, and results back to it.

    Owner and lifetime: made by ``ctx.data_feed``; several of one queue share its position.
    Threads: one at a time. Errors: a lost feeder is not an error here (Spark retries its task).

    Args:
        source: the node's :class:`FeedSource`.
        train_mode: False for inference.
        queue_in, queue_out: queue that rows come from; results always go back to their partition.
        input_mapping: column to tensor name: batches become ``{tensor: [values]}``, the row's
            fields being the columns in sorted order.
    """

    def __init__(self, source: FeedSource, train_mode: bool = True, queue_in: str = "input",
                 queue_out: str = "output", input_mapping: dict[str, str] | None = None):
        self.train_mode = train_mode
        self.queue_in = queue_in
        self.queue_out = queue_out
        self.input_tensors = (
            [tensor for _, tensor in sorted(input_mapping.items())] if input_mapping else None
        )
        self._source = source
        self._reader = source.reader(queue_in)

    @property
    def done_feeding(self) -> bool:
        """Whether the end of the feed was reached."""
        return self._reader.ended

    def should_stop(self) -> bool:
        """True once the end of the feed was reached: no batch will come any more."""
        return self._reader.ended

    def next_batch(self, batch_size: int) -> Any:
        """Up to ``batch_size`` rows: each exactly the object that was in the RDD.

        Waits until there are as many. In train mode a batch is shorter only at the end of the
        feed; in inference mode also at the end of a partition, which it does not cross. With
        ``input_mapping`` it is a dict of tensor name to list of values.
        """
        rows = self._reader.next_rows(batch_size, self.train_mode)
        if self.input_tensors is None:
            return rows
        wanted = len(self.input_tensors)
        for row in rows:
            if len(row) < wanted:
                raise BadInputError(
                    f"a row has {len(row)} fields and input_mapping {wanted} "
                    f"({', '.join(self.input_tensors)})"
                )
        return {
            tensor: [row[position] for row in rows]
            for position, tensor in enumerate(self.input_tensors)
        }

    def batch_results(self, results: list[Any]) -> None:
        """Answers the oldest unanswered rows, one result for each."""
        self._reader.send_results(list(results))

    def terminate(self) -> None:
        """Ends the feed early: queued rows and the rest of all partitions are discarded."""
        self._source.terminate()
