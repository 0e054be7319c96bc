"""Trains the variables of a TF1-style session over the partitions of an RDD.

Each partition runs the session's step over its rows in batches, and exchanges the variables with a
parameter server on the driver after every few of them.
"""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfos.base import network
from tfos.errors import BadInputError
from tfos.parameter_server import connection
from tfos.parameter_server.process import ParameterServerProcess
from tfos.parameter_server.session.graph import load, local_names, variables_by_name
from tfos.parameter_server.session.worker import Combiner, SessionWorker, WorkerPlan
from tfos.settings import Settings
from tfos.spark.jobs import use_this_python

tf1 = tf.compat.v1

#: The driver's number among the server's clients; partitions have theirs.
_DRIVER = 0xFFFFFFFF


@dataclasses.dataclass(frozen=True)
class Options:
    """How a session is trained.

    Attributes:
        name: of the Spark jobs.
        host: where executors find this host; None: its address.
        port: of the server; 0 for a free one.
        sync_interval: batches between exchanges with the server.
        batch_size: rows of a batch.
    """

    name: str
    host: str | None = None
    port: int = 0
    sync_interval: int = 10
    batch_size: int = 128

    def __post_init__(self) -> None:
        if self.sync_interval < 1 or self.batch_size < 1:
            raise BadInputError("sync_interval and batch_size must be at least 1")


@dataclasses.dataclass(frozen=True)
class Step:
    """What workers run.

    Attributes:
        fetches: a structure of operations and tensors.
        feed_names: names of placeholders, in the order of a row's fields.
        parameters: the variables that workers share.
        combiner: what the server makes of its values and a worker's.
        shuffle: whether a worker shuffles its rows first.
        options: ``tf.compat.v1.RunOptions``, or None.
    """

    fetches: Any
    feed_names: Sequence[str]
    parameters: Sequence[Any]
    combiner: Combiner
    shuffle: bool = False
    options: Any = None


class SessionTraining:
    """Trains one session, with its variables on a parameter server of the driver.

    Owner and lifetime: the driver program. The server is a child process of it, kept from one run
    to the next; ``stop_server`` ends it, and so does the program's end.
    Threads: one at a time. Errors: a failing worker's is raised by ``run``.
    """

    def __init__(self, spark_context: Any, session: Any, options: Options):
        self._sc = spark_context
        self._session = session
        self._options = options
        self._server: ParameterServerProcess | None = None
        self._served: Any = None  # what the server was made for

    @property
    def server(self) -> ParameterServerProcess | None:
        """The server that is kept, if there is one."""
        return self._server

    def run(self, rdd: Any, step: Step, keep_server: bool = False) -> None:
        """Runs the step for all batches of ``rdd``, a worker for each partition, and gives the
        session the values that come of it. A task that Spark retries trains with its rows again."""
        parameters = list(step.parameters)
        values = [np.array(value) for value in self._session.run(parameters)]
        try:
            server = self._server_for(step.combiner, values)
            driver = _connect(server, step.combiner, values)
            driver.write(0, [connection.as_bytes(value) for value in values])
            driver.start_at(0)
            self._train(rdd, self._plan(step, server))
            driver.run(None, True, False, [])
            driver.copy_values([connection.as_bytes(value) for value in values])
            load(self._session, parameters, values)
        except BaseException:
            self.stop_server()  # Its clients may be in the middle of something.
            raise
        if not keep_server:
            self.stop_server()

    def stop_server(self) -> None:
        """Ends the server, if there is one."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _server_for(
        self, combiner: Combiner, values: Sequence[np.ndarray]
    ) -> ParameterServerProcess:
        """A server that has nothing to do with other variables."""
        served = (combiner, [(value.dtype, value.shape) for value in values])
        if self._server is not None and (self._server.ended or self._served != served):
            self.stop_server()
        if self._server is None:
            options = self._options
            conf = self._sc.getConf()
            settings = Settings.resolve(lambda key: conf.get(key), {})
            own = network.own_address(conf.get("spark.driver.host", ""))
            self._server = ParameterServerProcess(
                options.host or own or network.local_address(), options.port, settings.encrypt
            )
            self._served = served
        return self._server

    def _plan(self, step: Step, server: ParameterServerProcess) -> WorkerPlan:
        graph = self._session.graph
        names = [parameter.name for parameter in step.parameters]
        variables = variables_by_name(graph)
        if missing := [name for name in names if name not in variables]:
            raise BadInputError(
                f"the session's graph has no variable {', '.join(missing)} to train"
            )
        others = {name: variable for name, variable in variables.items() if name not in names}
        unset = self._unset(others)
        with graph.as_default():
            meta_graph = tf1.train.export_meta_graph(graph=graph, clear_devices=True)
        return WorkerPlan(
            meta_graph=meta_graph.SerializeToString(),
            values=self._session.run(
                {name: variable for name, variable in others.items() if name not in unset}
            ),
            unset=unset,
            fetches=tf.nest.map_structure(lambda fetch: fetch.name, step.fetches),
            feed_names=list(step.feed_names),
            parameters=names,
            batch_size=self._options.batch_size,
            sync_interval=self._options.sync_interval,
            shuffle=step.shuffle,
            options=step.options,
            combiner=step.combiner,
            server=server.server,
            key=server.key,
        )

    def _unset(self, variables: dict[str, Any]) -> list[str]:
        """The names of local variables without a value: those of metrics, where the program only
        initialized the global ones. No other worker would need their values."""
        unset = []
        for name in filter(variables.__contains__, local_names(self._session.graph)):
            # An operation that asks would add to the graph with each run.
            try:
                self._session.run(variables[name])
            except tf.errors.FailedPreconditionError:
                unset.append(name)
        return unset

    def _train(self, rdd: Any, plan: WorkerPlan) -> None:
        use_this_python(self._sc)
        sent = self._sc.broadcast(plan)
        try:
            rdd.mapPartitionsWithIndex(SessionWorker(sent)).setName(self._options.name).count()
        finally:
            sent.destroy()


def _connect(
    server: ParameterServerProcess, combiner: Combiner, values: Sequence[np.ndarray]
) -> Any:
    """The driver's client, which gives the server its first values."""
    rule, _ = combiner.rule()
    worker = connection.Worker(
        number=_DRIVER,
        name=f"the driver on host {socket.gethostname()}",
        starts=True,
        workers=combiner.count,
    )
    return connection.connect(
        [server.server],
        values,
        rule,
        worker,
        server.key,
        connect_timeout=connection.RUNNING_CONNECT_TIMEOUT,
    )
