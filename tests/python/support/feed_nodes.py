"""Feed servers of nodes and the writers that feed them, all in one process and without Spark."""

from __future__ import annotations

import json
import pickle
import secrets
from typing import Any

from tfos import _native

JOB = b"j" * 16
#: The time of a wait that is to come to its end, on the slowest machine.
TIMEOUT = 120.0
#: The input_mapping of rows of two columns.
XY = {"a": "x", "b": "y"}


class Nodes:
    """Some feed servers on this host and the writers that feed them."""

    def __init__(
        self,
        count: int,
        memory_bytes: int = 64 << 20,
        encrypt: str = "auto",
        pickle: bool = True,
        address: str = "127.0.0.1",
        trained_before: list[Any] | None = None,
    ):
        self.address = address
        self.key = secrets.token_hex(32)
        self.encrypt = encrypt
        self.pickle = pickle
        self.servers = [
            _native.FeedServer(
                node_id=i,
                cluster_id="test",
                key_hex=self.key,
                queues=["input"],
                memory_bytes=memory_bytes,
                cache_memory_bytes=1 << 20,
                cache_directory="/tmp",
                bind_address=address,
                ports="0",
                encrypt=encrypt,
                pickle=pickle,
                trained_queue="input",
                trained_before=trained_before or [],
            )
            for i in range(count)
        ]

    def endpoints(self, local: bool = True) -> list[dict[str, Any]]:
        endpoints = [
            {"node_id": i, "address": self.address, "executor_id": "", **server.endpoint()}
            for i, server in enumerate(self.servers)
        ]
        return endpoints if local else [{**e, "socket": ""} for e in endpoints]

    def plan(self, **changes: Any) -> str:
        """For a writer, also on another host."""
        plan = {
            "endpoints": self.endpoints(),
            "feed_key": self.key,
            "ask_key": self.key,
            "coordinator": {"address": "127.0.0.1", "port": 1},  # nobody listens there
            "encrypt": self.encrypt,
            "pickle": self.pickle,
            "job_id": JOB.hex(),
            "epoch": 0,
            "queue": "input",
            "timeout": TIMEOUT,
            "answer_timeout": 0,
            "region_bytes": 1 << 20,
            "cache": "",
            "replays": 0,
            "shuffle_seed": 0,
            "check_retries": True,
            "until_read": False,
            "bears_losses": False,
            "repeats": False,
            "trained": {},
        }
        plan.update(changes)
        plan["trained"] = {number: json.loads(text) for number, text in plan["trained"].items()}
        return json.dumps(plan)

    def writer(
        self, partition: int = 0, mode: str = "train", attempt: int = 0, **changes: Any
    ) -> Any:
        return _native.FeedWriter(
            plan=self.plan(**changes),
            executor_id="",
            partition=partition,
            attempt=attempt,
            mode=mode,
        )

    def end_feed(self) -> None:
        for server in self.servers:
            server.end_feed()


def pairs(first: int, count: int) -> list[Any]:
    """Rows of two columns, the second of which numbers them."""
    return [([float(n), n + 0.5], n) for n in range(first, first + count)]


def labels(batches: Any) -> list[int]:
    """The second column of all batches of such rows."""
    return [int(label) for _, batch in batches for label in batch]


def read_all(server: Any, batch: int = 7) -> list[Any]:
    reader = server.reader("input")
    rows = []
    while not reader.ended:
        rows += reader.next_rows(batch, True, TIMEOUT)
    return rows


def echo(server: Any, batch: int, partial: bool = True) -> list[int]:
    """Answers every row with itself in a tuple; returns the sizes of the batches."""
    reader = server.reader("input")
    sizes = []
    while not reader.ended:
        rows = reader.next_rows(batch, False, TIMEOUT)
        if rows:
            sizes.append(len(rows))
            middle = len(rows) // 2 if partial else 0
            reader.send_results([("echo", row) for row in rows[:middle]])
            reader.send_results([("echo", row) for row in rows[middle:]])
    reader.finish()
    return sizes


def infer(nodes: Nodes, partition: int, rows: list[Any], chunk: int = 10) -> list[Any]:
    writer = nodes.writer(partition, "inference")
    results = []
    for at in range(0, len(rows), chunk):
        writer.write_rows(rows[at : at + chunk])
        while (some := writer.results(block=False)) is not None:
            results += some
    writer.end()
    while (some := writer.results(block=True)) is not None:
        results += some
    assert writer.finish() == {"items": len(rows), "rows": len(rows), "moved": 0}
    writer.close()
    return results


def datafeed(server: Any, mapping: dict[str, str] | None = None, train: bool = True) -> Any:
    from tfos.feed.datafeed import DataFeed, FeedSource

    return DataFeed(FeedSource(server, None, ["input"]), train, input_mapping=mapping)


class FedNode:
    """A feed server with the source that a program's context would have, and what feeds it."""

    def __init__(self, nodes: Nodes):
        from tfos.feed.datafeed import FeedSource

        self.nodes = nodes
        (self.server,) = nodes.servers
        self.source = FeedSource(self.server, None, ["input"])
        self.partitions = 0

    def feed(self, *chunks: list[Any], pickled: bool = False, epoch: int = 0) -> None:
        """One partition of these chunks."""
        writer = self.nodes.writer(self.partitions, epoch=epoch)
        self.partitions += 1
        for chunk in chunks:
            if pickled:
                writer.write_pickled([pickle.dumps(chunk, 5)])
            else:
                writer.write_rows(chunk)
        writer.finish()
        writer.close()

    def feed_epochs(self, *epochs: list[Any]) -> None:
        for epoch, rows in enumerate(epochs):
            self.feed(rows, epoch=epoch)
            self.server.end_epoch("input", epoch)
