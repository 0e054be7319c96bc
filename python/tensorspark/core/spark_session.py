"""``SparkSession``: a TF1-style session whose train step runs over the partitions of an RDD.

Importing this module switches TensorFlow's eager execution off in this process, as its programs
build their graph at module level: with ``import tensorflow.compat.v1 as tf`` they need no other
change. Python workers of executors import other modules and stay as they are. A program that also
computes eagerly calls ``tf.compat.v1.enable_eager_execution()`` after this import and builds its
graph in ``with tf.Graph().as_default():``.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from pyspark import SparkContext
from pyspark.rdd import RDD

from tensorspark.core.session_worker import SessionWorker, WorkerPlan, load, variables_by_name
from tensorspark.core.weight_combiner import MeanWeightCombiner, WeightCombiner
from tfos.base import network
from tfos.errors import BadInputError
from tfos.parameter_server import connection, rules
from tfos.parameter_server.process import ParameterServerProcess
from tfos.settings import Settings
from tfos.spark.jobs import use_this_python

tf1 = tf.compat.v1
tf1.disable_eager_execution()


class SparkSession:
    """Runs the operations of ``session`` on Spark, with the weights on a parameter server of the
    driver.

    Owner and lifetime: the driver program. The server is a child process of it, kept from one run
    to the next; ``stop_param_server`` (or leaving a ``with`` block) ends it, and so does the
    program's end. Threads: one at a time. Errors: a failing worker's is raised by ``run``.
    """

    def __init__(
        self,
        spark_context: SparkContext | None = None,
        session: Any = None,
        user: str | None = "",
        name: str = "",
        target: str = "",
        server_host: str = "localhost",
        server_port: int = 10080,
        graph: Any = None,
        config: Any = None,
        sync_interval: int = 3,
        batch_size: int = 10000,
        *,
        sc: SparkContext | None = None,
        sess: Any = None,
    ):
        """
        Args:
            spark_context: the SparkContext; also as ``sc``.
            session: a ``tf.compat.v1.Session`` with initialised variables; also as ``sess``.
            user, target, graph, config: accepted for old programs and not used, as are
                ``spark.hdfs.dir`` and ``spark.tmp.dir`` in Spark's configuration: nothing goes
                through files, and the session has a graph.
            name: for messages.
            server_host: where executors find this host; ``localhost``: its address.
            server_port: of the server; 0 for a free one.
            sync_interval: batches between exchanges with the server.
            batch_size: rows of a batch.
        """
        sc = spark_context if spark_context is not None else sc
        session = session if session is not None else sess
        if sc is None or session is None:
            raise BadInputError(
                "a SparkSession needs a SparkContext and a session of TensorFlow: "
                "SparkSession(spark_context, session)"
            )
        if sync_interval < 1 or batch_size < 1:
            raise BadInputError("sync_interval and batch_size must be at least 1")
        self._sc = sc
        self._session = session
        self._name = name or "spark_session"
        self._host = server_host
        self._port = server_port
        self._sync_interval = sync_interval
        self._batch_size = batch_size
        self._server: ParameterServerProcess | None = None
        self._served: Any = None  # what the server was made for

    def run(
        self,
        fetches: Any,
        feed_rdd: RDD | None = None,
        feed_name_list: Sequence[str] | None = None,
        param_list: Sequence[Any] | None = None,
        feed_dict: Any = None,
        weight_combiner: WeightCombiner | None = None,
        shuffle_within_partition: bool = False,
        options: Any = None,
        run_metadata: Any = None,
        server_reusable: bool = False,
    ) -> Any:
        """Runs ``fetches`` for all batches of ``feed_rdd``, a worker for each partition, and gives
        the session the weights that come of it. A task that Spark retries trains with its rows
        again.

        Args:
            fetches: the train step, or a structure of operations and tensors.
            feed_rdd: rows with a field for each placeholder. Without it this is ``sess.run(fetches,
                feed_dict, options, run_metadata)``.
            feed_name_list: the names of the placeholders, in the order of the fields.
            param_list: the variables that workers share.
            feed_dict: for a run without ``feed_rdd``. A combiner in its place is taken for one:
                ``run(step, rdd, names, variables, combiner)``.
            weight_combiner: one of :mod:`tensorspark.core.weight_combiner`; the mean by default.
            shuffle_within_partition: shuffle the rows of a partition first.
            options: ``tf.compat.v1.RunOptions``, also for the workers' sessions.
            run_metadata: filled by a run without ``feed_rdd``; workers have none to fill.
            server_reusable: keep the server for the next run.
        """
        if isinstance(weight_combiner, bool):
            # By position without a feed_dict: ..., combiner, shuffle_within_partition,
            # server_reusable.
            shuffle_within_partition, server_reusable = weight_combiner, shuffle_within_partition
            feed_dict, weight_combiner = None, feed_dict
        elif isinstance(feed_dict, WeightCombiner):
            feed_dict, weight_combiner = None, feed_dict
        if feed_rdd is None:
            return self._session.run(fetches, feed_dict, options, run_metadata)
        if not feed_name_list or not param_list:
            raise BadInputError("run over an RDD needs feed_name_list and param_list")
        combiner = weight_combiner or MeanWeightCombiner(feed_rdd.getNumPartitions())
        if getattr(combiner, "kind", None) is None:
            raise BadInputError(
                f"{type(combiner).__name__} is none of tensorspark.core.weight_combiner's "
                f"combiners: "
                "the server is native and runs no Python"
            )
        values = [np.array(value) for value in self._session.run(list(param_list))]
        try:
            driver = self._driver_client(combiner, values)
            self._write(driver, values)
            plan = self._plan(
                fetches, feed_name_list, param_list, combiner, shuffle_within_partition, options
            )
            self._train(feed_rdd, plan)
            driver.run(None, True, False, [])
            driver.copy_values([connection.as_bytes(value) for value in values])
            load(self._session, list(param_list), values)
        except BaseException:
            self.stop_param_server()  # Its clients may be in the middle of something.
            raise
        if not server_reusable:
            self.stop_param_server()
        return None

    def stop_param_server(self) -> None:
        """Ends the server, if there is one."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        """Ends the server, if there is one. The session stays open: the program made it."""
        self.stop_param_server()

    def get_session(self) -> Any:
        """The session."""
        return self._session

    def __enter__(self) -> SparkSession:
        self._session.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.stop_param_server()
        self._session.__exit__(kind, error, traceback)

    # -- how

    def _driver_client(self, combiner: WeightCombiner, values: list[np.ndarray]) -> Any:
        """A client, of a server that has nothing to do with other weights."""
        count = getattr(combiner, "num", 0)
        served = (combiner.kind, count, [(value.dtype, value.shape) for value in values])
        if self._server is not None and (self._server.ended or self._served != served):
            self.stop_param_server()
        if self._server is None:
            host = network.local_address() if self._host == "localhost" else self._host
            settings = Settings.resolve(lambda key: self._sc.getConf().get(key), {})
            self._server = ParameterServerProcess(host, self._port, settings.tensors_encrypt)
            self._served = served
        rule, _ = rules.make_rule(combiner.kind, None, count)
        worker = connection.Worker(
            number=_DRIVER,
            name=f"the driver on host {socket.gethostname()}",
            starts=True,
            workers=count,
        )
        return connection.connect(
            [self._server.server],
            values,
            rule,
            worker,
            self._server.token,
            connect_timeout=connection.RUNNING_CONNECT_TIMEOUT,
        )

    def _write(self, driver: Any, values: list[np.ndarray]) -> None:
        driver.write(0, [connection.as_bytes(value) for value in values])
        driver.start_at(0)

    def _plan(
        self,
        fetches: Any,
        feed_names: Sequence[str],
        parameters: Sequence[Any],
        combiner: WeightCombiner,
        shuffle: bool,
        options: Any,
    ) -> WorkerPlan:
        graph = self._session.graph
        names = [parameter.name for parameter in parameters]
        variables = variables_by_name(graph)
        if missing := [name for name in names if name not in variables]:
            raise BadInputError(
                f"param_list: {', '.join(missing)} is no variable of the session's graph"
            )
        others = {name: variable for name, variable in variables.items() if name not in names}
        with graph.as_default():
            meta_graph = tf1.train.export_meta_graph(graph=graph, clear_devices=True)
        return WorkerPlan(
            meta_graph=meta_graph.SerializeToString(),
            values=self._session.run(others),
            fetches=tf.nest.map_structure(lambda fetch: fetch.name, fetches),
            feed_names=list(feed_names),
            parameters=names,
            batch_size=self._batch_size,
            sync_interval=self._sync_interval,
            shuffle=shuffle,
            options=options,
            combiner=combiner.kind,
            count=getattr(combiner, "num", 0),
            server=self._server.server,
            token=self._server.token,
        )

    def _train(self, rdd: RDD, plan: WorkerPlan) -> None:
        use_this_python(self._sc)
        sent = self._sc.broadcast(plan)
        try:
            rdd.mapPartitionsWithIndex(SessionWorker(sent)).setName(self._name).count()
        finally:
            sent.destroy()


#: The driver's number among the server's clients; partitions have theirs.
_DRIVER = 0xFFFFFFFF
