"""What ``Cluster.train`` is asked to do, checked before anything is fed."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfos.base.quantities import whole_number
from tfos.cluster.feed.position import Position
from tfos.cluster.resumption import Resumption
from tfos.errors import BadInputError
from tfos.feed.datafeed import VALIDATION_QUEUE
from tfos.feed.plan import Replay
from tfos.feed.shuffling import partitions_of
from tfos.spark import row_order
from tfos.spark.connect import is_connect
from tfos.spark.sources import is_frame, is_rdd, is_stream

#: Nodes hand out cached rows for so many epochs more (src/feed/queue/epochs.cc).
_MOST_REPLAYS = 1 << 16
_CACHES = (None, "memory", "disk")
_SEED_BITS = 62


@dataclass(frozen=True)
class Training:
    """How epochs are fed."""

    #: Spark jobs for each source, one after the other; none where all epochs are done.
    jobs: int
    #: Epochs that the nodes make themselves after each job.
    replay: Replay
    #: The seed of the rows' order; 0: as they are.
    seed: int
    #: Spark keeps the rows from one job to the next: "memory" or "disk".
    kept_by_spark: str | None = None
    #: Epochs before the first job that an earlier cluster has trained.
    done: int = 0
    #: What it has trained on of the first epoch that the queue of ``position`` gets.
    position: Position | None = None
    #: Why that is not used, and the epoch begins anew.
    begins_anew: str = ""

    def seed_of_job(self, number: int) -> int:
        """Another one for each job, never 0 when rows are to be shuffled."""
        if not self.seed:
            return 0
        return random.Random(f"{self.seed} {self.done + number}").getrandbits(_SEED_BITS) or 1


def sources_of_training(data: Any, queue: str, validation: Any) -> dict[str, Any]:
    """What is fed, by queue: first what is trained on. Raises :class:`BadInputError` where both
    would go to one queue."""
    sources = {queue: data}
    if validation is not None:
        if queue == VALIDATION_QUEUE:
            raise BadInputError(f"data and validation can't both go to the queue {queue!r}")
        sources[VALIDATION_QUEUE] = validation
    return sources


def kind_of(value: Any) -> str:
    """Its type as people name it, such as pandas.DataFrame."""
    module = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    return name if module == "builtins" else f"{module}.{name}"


def plan_training(
    sources: Mapping[str, Any],
    epochs: int,
    shuffle: bool | int,
    cache: str | None,
    may_lose_nodes: bool = False,
    resumption: Resumption | None = None,
) -> Training:
    """The plan for feeding each of ``sources`` (by queue, the first is what is trained on) so
    often. ``may_lose_nodes``: whether the cluster goes on without a node that is lost. What that
    node had kept would be gone, so Spark keeps the rows then. ``resumption``: says which of the
    epochs are done.

    Raises :class:`BadInputError` for what can't be fed so.
    """
    epochs = whole_number("epochs", epochs)
    if epochs < 1:
        raise BadInputError(f"epochs must be at least 1, not {epochs}")
    if not isinstance(shuffle, bool):
        shuffle = whole_number("shuffle", shuffle)
    if cache not in _CACHES:
        raise BadInputError(f"cache={cache!r} is neither 'memory' nor 'disk'")
    queue, *_ = sources
    data, *others = sources.values()
    for source in sources.values():
        if not (is_frame(source) or is_rdd(source) or is_stream(source)):
            raise BadInputError(
                f"train takes a DataFrame, an RDD or a DStream of Spark, not {kind_of(source)}; "
                "spark.createDataFrame makes a DataFrame of a list, sc.parallelize an RDD"
            )
    endless = any(is_stream(source) for source in sources.values())
    if endless and (epochs > 1 or others or shuffle is not False or cache):
        raise BadInputError(
            "a DStream has no end: it can't be combined with epochs, validation, shuffle or cache"
        )
    if endless and resumption:
        raise BadInputError("resume: a DStream has no epochs, so none of them can be done")
    for other in others:
        _check_alike(data, other)
    seed = 0
    if shuffle is not False:
        given = secrets.randbits(_SEED_BITS) if shuffle is True else shuffle
        seed = given % (1 << _SEED_BITS) or 1
    if cache and not may_lose_nodes and epochs > 1 + _MOST_REPLAYS:
        raise BadInputError(
            f"with cache={cache!r} a call of train can have {1 + _MOST_REPLAYS:,} epochs at most, "
            f"not {epochs:,}: divide them among several calls"
        )
    done = resumption.pass_over(queue, epochs) if resumption else 0
    epochs -= done
    keeps = bool(cache) and epochs > 1
    position, begins_anew = None, ""
    if resumption and resumption.position and resumption.position.queue == queue:
        position = resumption.position
        begins_anew = _why_anew(position, data, shuffle, keeps and not may_lose_nodes)
    if begins_anew:
        position = None
    told: dict[str, Any] = {"done": done, "position": position, "begins_anew": begins_anew}
    if keeps and may_lose_nodes:
        return Training(epochs, Replay(), seed, cache, **told)
    if keeps and cache:
        return Training(1, Replay(cache, epochs - 1, seed), seed, **told)
    return Training(epochs, Replay(), seed, **told)


def _why_anew(position: Position, data: Any, shuffle: bool | int, nodes_keep: bool) -> str:
    """Why rows that were trained on can't be left out; "" where they can."""
    if nodes_keep:
        return "with cache=, the nodes keep the rows of whole epochs"
    if shuffle is True:
        return "shuffle=True has another order each time: give it a seed"
    if row_order.may_change(data):
        return (
            "its rows come of a shuffle, or of something random, and Spark does not promise that "
            "they come in the same order again. Sort them by a key that is different in each row, "
            "or read them from a file"
        )
    if is_rdd(data):
        partitions = data.getNumPartitions()
    elif is_connect(data.sparkSession):  # It does not tell before the rows were fed.
        return ""
    else:
        partitions = partitions_of(data)
    if partitions < position.partitions:
        return f"the data has {partitions} partitions, and had {position.partitions} at least"
    return ""


def _check_alike(data: Any, validation: Any) -> None:
    """The program learns from the first rows of ``data`` what those of ``validation`` hold."""
    if is_frame(data) != is_frame(validation):
        raise BadInputError(
            "data and validation must both be DataFrames or both be RDDs, as their rows must "
            f"look alike: they are {type(data).__name__} and {type(validation).__name__}"
        )
    if not is_frame(data):
        return
    ours, theirs = (
        [(f.name, f.dataType.simpleString()) for f in frame.schema] for frame in (data, validation)
    )
    if ours != theirs:
        raise BadInputError(
            "validation must have the columns of data: it has "
            + ", ".join(f"{name} {kind}" for name, kind in theirs)
            + " instead of "
            + ", ".join(f"{name} {kind}" for name, kind in ours)
        )
