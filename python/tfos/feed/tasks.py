"""What feed tasks do on executors: rows of a partition to a node, and results back.

These run in Spark's Python workers, where every import costs each task; keep them few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from tfos.feed.failures import programs_have_returned
from tfos.feed.plan import FeedPlan

#: Rows are gathered in blocks that double up to this: after each, what they take is estimated.
_MOST_ROWS_IN_BLOCK = 128
#: A list of rows ends when it is estimated at so many times the size of a chunk. The writer cuts
#: what is too large; this keeps a task from holding far more rows than it can send at once.
_MOST_CHUNKS_GATHERED = 4
#: How many elements of a row the estimate looks at.
_ELEMENTS_LOOKED_AT = 64


class _Feeder:
    """A function for ``mapPartitionsWithIndex`` that feeds a partition."""

    mode: str

    def __init__(self, plan: FeedPlan):
        self.plan = plan

    def _writer(self, index: int) -> Any:
        from pyspark import TaskContext

        from tfos import _native
        from tfos.spark import executor

        return _native.FeedWriter(
            plan=self.plan.to_json(index),
            executor_id=executor.executor_id(),
            partition=index,
            attempt=TaskContext.get().taskAttemptId(),
            mode=self.mode,
        )

    def _chunks(self, writer: Any, rows: Iterable[Any]) -> Iterator[list[Any]]:
        if self.plan.pickled:
            return _batches_by_bytes(rows, self.plan.chunk_bytes, writer.batches_ahead)
        return _batches_by_feedback(
            rows, self.plan.chunk_bytes, writer.ahead, lambda: self._written
        )

    def _write(self, writer: Any, chunk: list[Any]) -> None:
        write = writer.write_pickled if self.plan.pickled else writer.write_rows
        self._written = write(chunk)


class TrainFeeder(_Feeder):
    """Feeds a partition to whichever nodes take it; yields how many rows or batches it has fed, and
    how many of them a second time, as the node that had them was lost."""

    mode = "train"

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[tuple[int, int]]:
        from tfos.errors import NodeLostError

        try:
            yield self._feed(index, rows)
        except NodeLostError as error:
            if not programs_have_returned(self.plan, error):
                raise
            yield 0, 0  # nobody is left who wants rows: that is fine

    def _feed(self, index: int, rows: Iterable[Any]) -> tuple[int, int]:
        writer = self._writer(index)
        try:
            for chunk in self._chunks(writer, rows):
                if writer.stopped:
                    break
                self._write(writer, chunk)
            ended = writer.finish()
            return ended["items"], ended["moved"]
        finally:
            writer.close()


class _ArrowFeeder(_Feeder):
    """A function for ``DataFrame.mapInArrow`` that feeds a partition's record batches, without
    making Python objects of their rows.

    ``names`` are the columns' names in the rows, ``decimals`` as in ``Cluster.train``.
    """

    def __init__(self, plan: FeedPlan, names: list[str], decimals: str | None):
        super().__init__(plan)
        self._names = names
        self._decimals_as_float64 = decimals == "float64"

    def _columns(self, batch: Any) -> list[Any]:
        """The columns of a record batch that are fed."""
        return batch.columns

    def _chunks(self, writer: Any, rows: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        from tfos import _native

        count = _native.FIRST_CHUNK_ROWS
        batches = (
            pyarrow.RecordBatch.from_arrays(self._columns(batch), names=self._names)
            for batch in rows
        )
        for named in batches:
            end = 0
            while (begin := end) < named.num_rows:
                delivered, ahead = writer.ahead()
                if delivered and begin + ahead > named.num_rows:
                    # Spark has cut its batches elsewhere. What is compared is in one.
                    joined, named = _with_more(named.slice(begin), batches, ahead)
                    chunk_rows, end = joined.num_rows, 0
                    yield joined, 0, chunk_rows
                else:
                    end = min(begin + (ahead if delivered else min(count, ahead)), named.num_rows)
                    chunk_rows = end - begin
                    yield named, begin, end
                count = _native.next_chunk_rows(
                    count, chunk_rows, self._written, self.plan.chunk_bytes
                )

    def _write(self, writer: Any, chunk: Any) -> None:
        self._written = writer.write_arrow(*chunk, self._decimals_as_float64)


class ArrowTrainFeeder(_ArrowFeeder, TrainFeeder):
    """Feeds a partition as :class:`TrainFeeder` does; yields a batch with the two numbers."""

    #: The schema of the batches that it yields.
    SCHEMA = "items long, moved long"

    def __call__(  # type: ignore[override]  # mapInArrow passes no index.
        self, batches: Iterable[Any]
    ) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        for items, moved in TrainFeeder.__call__(self, TaskContext.get().partitionId(), batches):
            yield pyarrow.RecordBatch.from_pydict(
                {"items": pyarrow.array([items], "int64"), "moved": pyarrow.array([moved], "int64")}
            )


class InferenceFeeder(_Feeder):
    """Feeds a partition to one node and yields its results, one for each row, in order."""

    mode = "inference"

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[Any]:
        from tfos.errors import NodeLostError

        try:
            yield from self._infer(index, rows)
        except NodeLostError as error:
            programs_have_returned(self.plan, error)
            raise  # Its rows lack their results, whether or not somebody wants more rows.

    def _infer(self, index: int, rows: Iterable[Any]) -> Iterator[Any]:
        from tfos.errors import FeedError

        writer = self._writer(index)
        try:
            for chunk in self._chunks(writer, rows):
                self._write(writer, chunk)
                while (results := self._take(writer, block=False)) is not None:
                    yield from results
            writer.end()
            while (results := self._take(writer, block=True)) is not None:
                yield from results
            if writer.stopped:
                raise FeedError(
                    f"the feed ended before partition {index} was answered: the programs have "
                    "returned, terminated the feed, or the cluster was shut down"
                )
            writer.finish()
            yield from self._rest()
        finally:
            writer.close()

    def _take(self, writer: Any, block: bool) -> Iterable[Any] | None:
        """The next results; None when none are there yet (not ``block``) or none will come."""
        return writer.results(block)

    def _rest(self) -> Iterable[Any]:
        """What was kept back of the results."""
        return ()


class ArrowInferenceFeeder(_ArrowFeeder, InferenceFeeder):
    """Feeds a partition to one node and yields record batches: of each row the key columns, which
    the node does not get, and its result.

    ``keys`` and ``fed`` are the positions of the two kinds of columns, ``names`` the names of all;
    ``fields`` are the ``tfos.feed.results.ResultField`` of the results.
    """

    def __init__(
        self,
        plan: FeedPlan,
        names: list[str],
        keys: list[int],
        fed: list[int],
        fields: list[Any],
        decimals: str | None,
    ):
        super().__init__(plan, [names[position] for position in fed], decimals)
        self._fed = fed
        self._keys = keys
        self._key_names = [names[position] for position in keys]
        self._fields = fields

    def __call__(  # type: ignore[override]  # mapInArrow passes no index.
        self, batches: Iterable[Any]
    ) -> Iterator[Any]:
        from pyspark import TaskContext

        from tfos.feed.results import ResultAssembler

        partition = TaskContext.get().partitionId()
        self._results = ResultAssembler(partition, self._key_names, self._fields)
        yield from InferenceFeeder.__call__(self, partition, batches)

    def _columns(self, batch: Any) -> list[Any]:
        self._results.hold_keys(batch.select(self._keys))
        return [batch.column(position) for position in self._fed]

    def _take(self, writer: Any, block: bool) -> Iterable[Any] | None:
        results = writer.result_batch(block)
        return None if results is None else self._results.add(results)

    def _rest(self) -> Iterable[Any]:
        return self._results.rest()


def _with_more(batch: Any, batches: Iterator[Any], rows: int) -> tuple[Any, Any]:
    """The first ``rows`` rows of this record batch and the next, or all if there are fewer, as one;
    and what is left of the last. All of its text might be too much for one (2 GiB)."""
    import pyarrow

    parts = [batch.slice(0, rows)]
    while (missing := rows - sum(part.num_rows for part in parts)) > 0:
        following = next(batches, None)
        if following is None:
            break
        batch = following
        parts.append(batch.slice(0, missing))
    [joined] = pyarrow.Table.from_batches(parts).combine_chunks().to_batches()
    return joined, batch.slice(parts[-1].num_rows)


#: What ``FeedWriter.ahead`` and ``batches_ahead`` say: whether the next items were delivered, and
#: how many.
_Ahead = Callable[[], tuple[bool, int]]


def _batches_by_bytes(
    batches: Iterable[bytes], chunk_bytes: int, ahead: _Ahead
) -> Iterator[list[bytes]]:
    iterator = iter(batches)
    while True:
        delivered, count = ahead()
        if delivered:
            chunk = list(islice(iterator, count))
        else:
            chunk, size = [], 0
            for batch in islice(iterator, count):
                chunk.append(batch)
                size += len(batch)
                if size >= chunk_bytes:
                    break
        if not chunk:
            return
        yield chunk


def _batches_by_feedback(
    rows: Iterable[Any], chunk_bytes: int, ahead: _Ahead, written: Callable[[], int]
) -> Iterator[list[Any]]:
    """Lists of rows whose number follows the size that the chunks before had, and that of what was
    delivered."""
    from tfos import _native

    iterator = iter(rows)
    count = _native.FIRST_CHUNK_ROWS
    while True:
        delivered, most = ahead()
        if delivered:
            chunk = list(islice(iterator, most))
        else:
            chunk = _gather(iterator, min(count, most), _MOST_CHUNKS_GATHERED * chunk_bytes)
        if not chunk:
            return
        yield chunk
        count = _native.next_chunk_rows(count, len(chunk), written(), chunk_bytes)


def _gather(rows: Iterator[Any], count: int, most_bytes: int) -> list[Any]:
    """The next ``count`` rows; fewer when they seem to take more than ``most_bytes``."""
    gathered: list[Any] = []
    size, block_rows = 0, 1
    while len(gathered) < count and size <= most_bytes:
        block = list(islice(rows, min(block_rows, count - len(gathered))))
        if not block:
            break
        gathered += block
        size += len(block) * _rough_bytes(block[-1])
        block_rows = min(2 * block_rows, _MOST_ROWS_IN_BLOCK)
    return gathered


def _rough_bytes(row: Any) -> int:
    """A cheap guess at the memory of a row: that of its largest direct element."""
    if isinstance(row, dict):
        row = tuple(islice(row.values(), _ELEMENTS_LOOKED_AT))
    if not isinstance(row, (tuple, list)):
        return _value_bytes(row)
    elements = max(map(_value_bytes, row[:_ELEMENTS_LOOKED_AT]), default=0)
    return max(elements, _value_bytes(row))


def _value_bytes(value: Any) -> int:
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    if isinstance(value, (tuple, list, dict)):
        return 8 * len(value)
    size = getattr(value, "nbytes", 0)  # arrays and tensors
    return size if isinstance(size, int) else 0
