"""``SparkSession``: a TF1-style session whose train step runs over the partitions of an RDD.

Importing this module switches TensorFlow's eager execution off in this process, as its programs
build their graph at module level: with ``import tensorflow.compat.v1 as tf`` they need no other
change. Python workers of executors import other modules and stay as they are. A program that also
computes eagerly calls ``tf.compat.v1.enable_eager_execution()`` after this import and builds its
graph in ``with tf.Graph().as_default():``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from pyspark import SparkContext
from pyspark.rdd import RDD

from tensorspark.core.weight_combiner import COMBINERS, MeanWeightCombiner, WeightCombiner
from tfos.errors import BadInputError
from tfos.parameter_server.session.training import Options, SessionTraining, Step
from tfos.parameter_server.session.worker import Combiner

tf1 = tf.compat.v1
tf1.disable_eager_execution()


class SparkSession:
    """Runs the operations of ``session`` on Spark: see
    :class:`tfos.parameter_server.session.training.SessionTraining`.

    ``stop_param_server``, or leaving a ``with`` block, ends the server.
    """

    def __init__(
        self,
        spark_context: SparkContext | None = None,
        session: Any = None,
        user: str | None = "",
        name: str = "",
        target: str = "",
        server_host: str = "localhost",
        server_port: int | None = None,
        graph: Any = None,
        config: Any = None,
        sync_interval: int = 3,
        batch_size: int = 10000,
        *,
        sc: SparkContext | None = None,
        sess: Any = None,
    ):
        """
        The first version of the package had no ``target``, ``graph`` and ``config``: without
        keywords, ``server_host`` was the fifth argument, and ``server_port`` to ``batch_size`` came
        next. A call like that is told from others by the port, or by a host, which no ``target``
        is, and means what it meant.

        Args:
            spark_context: the SparkContext; also as ``sc``, as in the first version.
            session: a ``tf.compat.v1.Session`` with initialised variables; also as ``sess``.
            user, target, graph, config: accepted for old programs and not used, as are
                ``spark.hdfs.dir`` and ``spark.tmp.dir`` in Spark's configuration: nothing goes
                through files, and the session has a graph.
            name: for messages.
            server_host: where executors find this host; ``localhost``: its address.
            server_port: of the server, 10080 by default; 0 for a free one.
            sync_interval: batches between exchanges with the server.
            batch_size: rows of a batch.
        """
        #: The first version shuffled and kept its server unless it was told otherwise.
        names_host = bool(target) and target != "local" and "://" not in target
        self._is_first_version = (
            sc is not None or sess is not None or names_host or isinstance(server_host, int)
        )
        if isinstance(server_host, int):
            sync_interval = sync_interval if server_port is None else server_port
            batch_size = batch_size if graph is None else graph
            server_host, server_port = target, server_host
        elif names_host and server_host == "localhost":
            server_host = target
        sc = spark_context if spark_context is not None else sc
        session = session if session is not None else sess
        if sc is None or session is None:
            raise BadInputError(
                "a SparkSession needs a SparkContext and a session of TensorFlow: "
                "SparkSession(spark_context, session)"
            )
        self._session = session
        self._training = SessionTraining(
            sc,
            session,
            Options(
                name=name or "spark_session",
                host=None if server_host == "localhost" else server_host,
                port=10080 if server_port is None else server_port,
                sync_interval=sync_interval,
                batch_size=batch_size,
            ),
        )

    def run(
        self,
        fetches: Any,
        feed_rdd: RDD | None = None,
        feed_name_list: Sequence[str] | None = None,
        param_list: Sequence[Any] | None = None,
        feed_dict: Any = None,
        weight_combiner: WeightCombiner | None = None,
        shuffle_within_partition: bool | None = None,
        options: Any = None,
        run_metadata: Any = None,
        server_reusable: bool | None = None,
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
            shuffle_within_partition: shuffle the rows of a partition first. By default only in a
                session that was made as the first version of the package made it.
            options: ``tf.compat.v1.RunOptions``, also for the workers' sessions.
            run_metadata: filled by a run without ``feed_rdd``; workers have none to fill.
            server_reusable: keep the server for the next run. The default is that of
                ``shuffle_within_partition``.
        """
        if isinstance(weight_combiner, bool):
            # By position without a feed_dict: ..., combiner, shuffle_within_partition,
            # server_reusable.
            if shuffle_within_partition is not None:
                server_reusable = shuffle_within_partition
            shuffle_within_partition = weight_combiner
            feed_dict, weight_combiner = None, feed_dict
        elif isinstance(feed_dict, WeightCombiner):
            feed_dict, weight_combiner = None, feed_dict
        if feed_rdd is None:
            return self._session.run(fetches, feed_dict, options, run_metadata)
        if not feed_name_list or not param_list:
            raise BadInputError("run over an RDD needs feed_name_list and param_list")
        combiner = weight_combiner or MeanWeightCombiner(feed_rdd.getNumPartitions())
        if type(combiner) not in COMBINERS:
            raise BadInputError(
                "weight_combiner must be one of tensorspark.core.weight_combiner, not "
                f"{type(combiner).__name__}: the server is native and runs no Python"
            )
        step = Step(
            fetches,
            feed_name_list,
            param_list,
            Combiner(combiner.kind, getattr(combiner, "num", 0)),
            self._or_default(shuffle_within_partition),
            options,
        )
        self._training.run(feed_rdd, step, keep_server=self._or_default(server_reusable))
        return None

    def _or_default(self, asked: bool | None) -> bool:
        return self._is_first_version if asked is None else asked

    def stop_param_server(self) -> None:
        """Ends the server, if there is one."""
        self._training.stop_server()

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
