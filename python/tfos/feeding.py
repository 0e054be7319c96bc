"""What feed tasks do on executors: rows of a partition to a node, and results back.

These run in Spark's Python workers, where every import costs each task; keep them few.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Callable, Iterable, Iterator

from tfos.network import host_and_port

#: Rows (or batches) in a partition's first chunk. Later chunks double until they have the size
#: asked for: small data spreads over the nodes, and the first rows arrive soon.
_FIRST_CHUNK_ROWS = 16
_MOST_ROWS_IN_CHUNK = 1 << 16


@dataclass(frozen=True)
class FeedPlan:
    """What the feed tasks of one Spark job need. It travels inside the job; the token it holds is
    kept out of its text form."""

    token: str = field(repr=False)
    #: dicts with node_id, host, address, port, socket, executor_id.
    endpoints: list[dict[str, Any]]
    coordinator: tuple[str, int]
    job_id: bytes
    queue: str
    timeout: float
    region_bytes: int
    chunk_bytes: int
    #: Partitions of one epoch: the job's partition n is partition n % this of epoch n // this.
    #: None: the job is one epoch.
    partitions: int | None
    #: The RDD's elements are batches as Spark pickled them, passed on unopened.
    pickled: bool

    def endpoints_for(self, executor_id: str) -> list[dict[str, Any]]:
        """The endpoints, this executor's own node first."""
        return sorted(self.endpoints, key=lambda e: e["executor_id"] != executor_id)


class _Feeder:
    """A function for ``mapPartitionsWithIndex`` that feeds a partition."""

    mode: str

    def __init__(self, plan: FeedPlan):
        self.plan = plan

    def _writer(self, index: int) -> Any:
        from pyspark import TaskContext

        from tfos import _native, executor

        plan = self.plan
        epoch, partition = divmod(index, plan.partitions) if plan.partitions else (0, index)
        return _native.FeedWriter(
            endpoints=plan.endpoints_for(executor.executor_id()),
            token_hex=plan.token,
            job_id=plan.job_id,
            epoch=epoch,
            partition=partition,
            attempt=TaskContext.get().attemptNumber(),
            mode=self.mode,
            queue=plan.queue,
            timeout_s=plan.timeout,
            region_bytes=plan.region_bytes,
        )

    def _chunks(self, rows: Iterable[Any]) -> Iterator[list[Any]]:
        if self.plan.pickled:
            return _batches_by_bytes(rows, self.plan.chunk_bytes)
        return _batches_by_feedback(rows, self.plan.chunk_bytes, lambda: self._written)

    def _write(self, writer: Any, chunk: list[Any]) -> None:
        write = writer.write_pickled if self.plan.pickled else writer.write_rows
        self._written = write(chunk)


class TrainFeeder(_Feeder):
    """Feeds a partition to whichever nodes take it; yields the number of rows or batches fed."""

    mode = "train"

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[int]:
        from tfos.errors import NodeLostError

        try:
            yield self._feed(index, rows)
        except NodeLostError as error:
            raise_first_failure(self.plan, error)
            if not programs_have_returned(self.plan):
                raise
            yield 0  # nobody is left who wants rows, and that is no failure

    def _feed(self, index: int, rows: Iterable[Any]) -> int:
        writer = self._writer(index)
        try:
            for chunk in self._chunks(rows):
                if writer.stopped:
                    break
                self._write(writer, chunk)
            return writer.finish()["items"]
        finally:
            writer.close()


class ArrowTrainFeeder(TrainFeeder):
    """A function for ``DataFrame.mapInArrow`` that feeds a partition's record batches, without
    making Python objects of their rows; yields a batch with the number of rows fed.

    ``names`` are the columns' names in the rows, ``decimals`` as in ``Cluster.train``.
    """

    #: Of the batches that it yields.
    SCHEMA = "items long"

    def __init__(self, plan: FeedPlan, names: list[str], decimals: str | None):
        super().__init__(plan)
        self._names = names
        self._decimals_as_float64 = decimals == "float64"

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        for items in super().__call__(TaskContext.get().partitionId(), batches):
            yield pyarrow.RecordBatch.from_pydict({"items": pyarrow.array([items], "int64")})

    def _chunks(self, rows: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        count = _FIRST_CHUNK_ROWS
        for batch in rows:
            named = pyarrow.RecordBatch.from_arrays(batch.columns, names=self._names)
            end = 0
            while (begin := end) < named.num_rows:
                end = min(begin + count, named.num_rows)
                yield named, begin, end
                count = _next_count(count, end - begin, self.plan.chunk_bytes, self._written)

    def _write(self, writer: Any, chunk: Any) -> None:
        self._written = writer.write_arrow(*chunk, self._decimals_as_float64)


class InferenceFeeder(_Feeder):
    """Feeds a partition to one node and yields its results, one for each row, in order."""

    mode = "inference"

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[Any]:
        from tfos.errors import NodeLostError

        try:
            yield from self._infer(index, rows)
        except NodeLostError as error:
            raise_first_failure(self.plan, error)
            raise

    def _infer(self, index: int, rows: Iterable[Any]) -> Iterator[Any]:
        from tfos.errors import FeedError

        writer = self._writer(index)
        try:
            for chunk in self._chunks(rows):
                self._write(writer, chunk)
                while (results := writer.results(block=False)) is not None:
                    yield from results
            writer.end()
            while (results := writer.results(block=True)) is not None:
                yield from results
            if writer.stopped:
                raise FeedError(
                    f"the feed ended before partition {index} was answered: the programs have "
                    "returned, terminated the feed, or the cluster was shut down"
                )
            writer.finish()
        finally:
            writer.close()


def _batches_by_bytes(batches: Iterable[bytes], chunk_bytes: int) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    limit = 1
    for batch in batches:
        chunk.append(batch)
        size += len(batch)
        if size >= chunk_bytes or len(chunk) >= limit:
            yield chunk
            chunk, size, limit = [], 0, limit * 2
    if chunk:
        yield chunk


def _batches_by_feedback(
    rows: Iterable[Any], chunk_bytes: int, written: Callable[[], int]
) -> Iterator[list[Any]]:
    """Lists of rows whose number follows the size that the chunks before had."""
    iterator = iter(rows)
    count = _FIRST_CHUNK_ROWS
    while chunk := list(islice(iterator, count)):
        yield chunk
        count = _next_count(count, len(chunk), chunk_bytes, written())


def _next_count(count: int, rows: int, chunk_bytes: int, written: int) -> int:
    """How many rows the chunk after one of ``count`` rows gets, when ``rows`` rows of it took
    ``written`` bytes."""
    fitting = int(rows * chunk_bytes / max(written, 1))
    return max(1, min(fitting, 2 * count, _MOST_ROWS_IN_CHUNK))


def raise_first_failure(plan: FeedPlan, error: Exception, wait_ms: int = 2000) -> None:
    """Raises the cluster's first failure, which explains why a node was lost (``error``), if the
    coordinator knows of one or hears of it within ``wait_ms``."""
    from tfos.errors import NodeFailedError

    if programs_have_returned(plan):
        return
    failure = _ask_coordinator(plan, f"/v1/failure?wait_ms={wait_ms}", 5 + wait_ms / 1000)
    if failure is not None:
        raise NodeFailedError.from_message(failure) from error


def programs_have_returned(plan: FeedPlan) -> bool:
    """Whether the program of every node that could be fed has returned in order."""
    status = _ask_coordinator(plan, "/v1/status", 5)
    fed = {endpoint["node_id"] for endpoint in plan.endpoints}
    return status is not None and all(
        node["state"] == "done" for node in status["nodes"] if node["node_id"] in fed
    )


def _ask_coordinator(plan: FeedPlan, target: str, timeout: float) -> dict[str, Any] | None:
    """The coordinator's JSON answer; None when it has none to give or is gone itself."""
    address, port = plan.coordinator
    request = urllib.request.Request(
        f"http://{host_and_port(address, port)}{target}",
        headers={"Authorization": f"Bearer {plan.token}"},
    )
    # Never through a proxy of the environment: the address is inside the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as response:
            return json.load(response) if response.status == 200 else None
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return None
