"""What the feed tasks of a Spark job need to know: made on the driver, read in Spark's Python
workers.

Imports here cost each task; keep them few.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Replay:
    """Epochs that follow the one being fed, of the rows that each node has got of that."""

    #: Where nodes keep the rows: "memory", "disk" or "" (nowhere).
    cache: str = ""
    epochs: int = 0
    #: The seed of the chunks' order; 0: as they came.
    shuffle_seed: int = 0


@dataclass(frozen=True)
class FeedPlan:
    """What the feed tasks of one Spark job need. It travels inside the job; the keys it holds are
    kept out of its text form."""

    #: Opens the nodes' feeds.
    feed_key: str = field(repr=False)
    #: For asking the coordinator why a node was lost.
    ask_key: str = field(repr=False)
    #: dicts with node_id, address, port, socket, executor_id.
    endpoints: list[dict[str, Any]]
    coordinator: tuple[str, int]
    job_id: bytes
    queue: str
    timeout: float
    region_bytes: int
    chunk_bytes: int
    #: Number of the epoch that the job feeds, through the cluster's life.
    epoch: int
    #: ``spark.tfos.encrypt``: which TCP connections are encrypted.
    encrypt: str
    #: ``spark.tfos.feed.pickle``: whether rows may go as pickles.
    pickle: bool
    #: The RDD's elements are batches as Spark pickled them, passed on unopened.
    pickled: bool
    replay: Replay
    #: A partition ends when its rows were read: a node that is lost before leaves them to others.
    until_read: bool = False
    #: ``spark.tfos.feed.checkRetries``: rows that an earlier attempt has fed are compared.
    check_retries: bool = True
    #: A node that is lost ends no task: the driver feeds the job again.
    bears_losses: bool = False
    #: It does so now.
    repeats: bool = False
    #: What an earlier cluster has trained on of the epoch, by partition, as the JSON of a list.
    #: It has for each chunk the first item, the item after the last, the checksum, and whether that
    #: was all of its rows. There may be millions of chunks, and each task unpickles all of this.
    trained: dict[int, str] = field(default_factory=dict, repr=False)
    #: ``spark.tfos.node.answerTimeout`` bounds the time for connecting to nodes; 0: nothing does.
    answer_timeout: float = 0.0

    def to_json(self, partition: int | None = None) -> str:
        """The plan as the native feeders read it (src/feed/feeder/feed_plan.h), keys included; for
        one partition, or for all."""
        trained = self.trained
        if partition is not None:
            trained = {partition: trained[partition]} if partition in trained else {}
        return json.dumps(
            {
                "feed_key": self.feed_key,
                "ask_key": self.ask_key,
                "encrypt": self.encrypt,
                "pickle": self.pickle,
                "endpoints": self.endpoints,
                "coordinator": {"address": self.coordinator[0], "port": self.coordinator[1]},
                "job_id": self.job_id.hex(),
                "queue": self.queue,
                "timeout": self.timeout,
                "answer_timeout": self.answer_timeout,
                "region_bytes": self.region_bytes,
                "chunk_bytes": self.chunk_bytes,
                "epoch": self.epoch,
                "cache": self.replay.cache,
                "replays": self.replay.epochs,
                "shuffle_seed": self.replay.shuffle_seed,
                "until_read": self.until_read,
                "check_retries": self.check_retries,
                "bears_losses": self.bears_losses,
                "repeats": self.repeats,
                "trained": {number: json.loads(chunks) for number, chunks in trained.items()},
            }
        )
