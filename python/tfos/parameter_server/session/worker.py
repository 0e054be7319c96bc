"""What a Spark task does in the training of a session: trains with its partition, and exchanges
weights with the server."""

from __future__ import annotations

import dataclasses
import itertools
import random
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfos.errors import BadInputError
from tfos.parameter_server import connection, rules
from tfos.parameter_server.session.graph import element, load, variables_by_name

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Combiner:
    """How the server combines its values with those of a worker: one of
    :data:`tfos.parameter_server.rules.PUSHED`, and for the mean of how many workers."""

    kind: str
    count: int = 0

    def rule(self) -> tuple[Any, str]:
        """The native rule, and what is pushed under it."""
        return rules.make_rule(self.kind, None, self.count)


@dataclasses.dataclass(frozen=True)
class WorkerPlan:
    """What all workers of a run need; made by the driver. The key is kept out of its text."""

    meta_graph: bytes = dataclasses.field(repr=False)
    #: Values of all variables but the parameters and the unset ones, by name.
    values: dict[str, np.ndarray] = dataclasses.field(repr=False)
    #: Names of local variables that each worker initializes.
    unset: list[str]
    #: Names in the place of operations and tensors.
    fetches: Any
    feed_names: list[str]
    parameters: list[str]
    batch_size: int
    sync_interval: int
    shuffle: bool
    #: A ``RunOptions``, or None.
    options: Any
    combiner: Combiner
    server: connection.Server
    key: str = dataclasses.field(repr=False)


def batches(rows: Iterable[Any], size: int, columns: int) -> Iterator[list[np.ndarray]]:
    """The rows as columns, ``size`` at a time."""
    rows = iter(rows)
    while batch := list(itertools.islice(rows, size)):
        for row in batch:
            if len(row) != columns:
                raise BadInputError(f"a row has {len(row)} fields for {columns} placeholders")
        yield [np.asarray([row[column] for row in batch]) for column in range(columns)]


class SessionWorker:
    """Trains with one partition. A value that Spark sends to its tasks."""

    def __init__(self, plan: Any):
        """``plan``: a broadcast of a :class:`WorkerPlan`."""
        self._plan = plan

    def __call__(self, index: int, rows: Iterable[Any]) -> Iterator[int]:
        """Yields how many batches there were."""
        yield Training(self._plan.value, index).run(rows)


class Training:
    """One partition's session, and its exchange with the server."""

    def __init__(self, plan: WorkerPlan, index: int):
        self._plan = plan
        graph = tf.Graph()
        with graph.as_default():
            tf1.train.import_meta_graph(tf1.MetaGraphDef.FromString(plan.meta_graph))
        self._session = tf1.Session(graph=graph)
        variables = variables_by_name(graph)
        others = list(plan.values)
        load(
            self._session,
            [variables[name] for name in others],
            [plan.values[name] for name in others],
        )
        self._session.run([variables[name].initializer for name in plan.unset])
        self._fetches = tf.nest.map_structure(graph.as_graph_element, plan.fetches)
        self._feeds = [element(graph, name) for name in plan.feed_names]
        self._parameters = [variables[name] for name in plan.parameters]
        like = [
            np.empty(variable.shape, variable.dtype.base_dtype.as_numpy_dtype)
            for variable in self._parameters
        ]
        self._weights = like
        rule, self._pushed = plan.combiner.rule()
        worker = connection.Worker(
            number=index,
            name=f"partition {index} on host {socket.gethostname()}",
            starts=False,
            workers=plan.combiner.count,
        )
        self._client = connection.connect(
            [plan.server],
            like,
            rule,
            worker,
            plan.key,
            connect_timeout=connection.RUNNING_CONNECT_TIMEOUT,
        )

    def run(self, rows: Iterable[Any]) -> int:
        plan = self._plan
        if plan.shuffle:
            rows = list(rows)
            random.shuffle(rows)
        count = 0
        with self._session:
            for columns in batches(rows, plan.batch_size, len(self._feeds)):
                if count % plan.sync_interval == 0:
                    self._pull()
                self._session.run(
                    self._fetches,
                    dict(zip(self._feeds, columns, strict=True)),
                    options=plan.options,
                )
                count += 1
                if count % plan.sync_interval == 0:
                    self._push()
            if count % plan.sync_interval:
                self._push()
        return count

    def _pull(self) -> None:
        self._client.run(None, True, False, [])
        self._client.copy_values([connection.as_bytes(room) for room in self._weights])
        load(self._session, self._parameters, self._weights)

    def _push(self) -> None:
        values = self._session.run(self._parameters)
        self._client.run(
            self._pushed, False, False, [connection.as_bytes(np.asarray(value)) for value in values]
        )
