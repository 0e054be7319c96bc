"""``TFCluster.run`` and the cluster that it returns, over ``tfos.cluster``."""

from __future__ import annotations

import functools
import importlib
import os

from tfos.cluster import start
from tfos.cluster.plan import ClusterRequest
from tfos.errors import BadInputError
from tfos.spark import sources

from . import TFSparkNode, reservation

#: The share of a GPU for each node, where this module is imported through a package that says so
#: (``tensorflowonspark_gpu10p``).
_GPU_FRACTION = getattr(importlib.import_module(__package__), "GPU_FRACTION", None)

#: Stands in ``cluster_info`` where the old system had a secret; the cluster's token stays hidden.
AUTHKEY_PLACEHOLDER = b"not disclosed"

#: What ``num_epochs=0`` means to ``train`` of an RDD.
DEFAULT_EPOCHS = 10


class InputMode:
    """The reader of the data: the program itself (TENSORFLOW), or Spark, which feeds it (SPARK)."""

    TENSORFLOW = 0
    SPARK = 1


#: {keyword of tfos.run: the variable of the driver's environment that says it in 2.2.5}.
_COORDINATOR_VARIABLES = {
    "coordinator_advertised_address": "TFOS_SERVER_HOST",
    "coordinator_port": "TFOS_SERVER_PORT",
}

_INPUT_MODES = {InputMode.TENSORFLOW: "tensorflow", InputMode.SPARK: "spark"}


def run(
    sc,
    map_fun,
    tf_args,
    num_executors,
    num_ps=0,
    tensorboard=False,
    input_mode=InputMode.TENSORFLOW,
    log_dir=None,
    driver_ps_nodes=False,
    master_node=None,
    reservation_timeout=600,
    queues=("input", "output", "error"),
    eval_node=False,
    release_port=True,
):
    """Starts ``num_executors`` nodes, each of which calls ``map_fun(tf_args, ctx)``.

    Roles are filled in the order ps, ``master_node``, evaluator, worker. Arguments are those of
    ``tfos.run`` under their old names, and so are the errors. ``tf_args.num_gpus``, if there is
    one, is how many GPUs each node that computes gets; a host with fewer is an error. Without it a
    node gets one where its host has GPUs. ``reservation_timeout`` bounds the wait for executors,
    too. ``TFOS_SERVER_HOST`` and ``TFOS_SERVER_PORT`` of the environment say where executors find
    the coordinator.
    """
    num_gpus = getattr(tf_args, "num_gpus", None)
    settings = {"gpu_count_if_any": 1} if num_gpus is None else {"gpu_count": num_gpus}
    if _GPU_FRACTION:
        settings = {"gpu_fraction": _GPU_FRACTION}
    settings["slots_timeout"] = reservation_timeout
    settings.update(
        (setting, os.environ[variable])
        for setting, variable in _COORDINATOR_VARIABLES.items()
        if os.environ.get(variable)
    )
    request = ClusterRequest(
        nodes=num_executors,
        args=tf_args,
        ps=num_ps,
        chief=master_node,
        evaluator=eval_node,
        input_mode=_INPUT_MODES.get(input_mode, input_mode),
        tensorboard=tensorboard,
        log_dir=log_dir,
        driver_parameter_servers=driver_ps_nodes,
        registration_timeout=reservation_timeout,
        queues=tuple(queues),
    )
    program = TFSparkNode.Program(map_fun, release_port)
    cluster = start.start(sc, program, request, settings)
    return TFCluster(cluster, input_mode, queues, release_port)


def reserve(
    sc,
    num_executors,
    num_ps=0,
    tensorboard=False,
    input_mode=InputMode.TENSORFLOW,
    queues=("input", "output", "error"),
):
    """The sizes of a cluster, as programs before ``run`` existed give them first. ``start`` of what
    this returns starts the nodes; until then nothing runs."""
    return _ReservedCluster(
        functools.partial(
            run,
            sc,
            num_executors=num_executors,
            num_ps=num_ps,
            tensorboard=tensorboard,
            input_mode=input_mode,
            queues=queues,
        ),
        input_mode,
        queues,
    )


class TFCluster:
    """A running cluster: see ``tfos.Cluster``, which is in ``cluster``."""

    def __init__(self, cluster, input_mode, queues, release_port):
        self.cluster = cluster
        self.input_mode = input_mode
        self.queues = list(queues)
        self._release_port = release_port

    def start(self, map_fun, tf_args):
        """For programs of ``reserve``. What ``run`` returned has been started by ``run``."""
        raise BadInputError(
            "the nodes of this cluster run their program already: TFCluster.run has "
            "started them. Don't call start, or use TFCluster.reserve instead of run"
        )

    def train(self, dataRDD, num_epochs=0, feed_timeout=600, qname="input"):
        """Feeds an RDD (or DataFrame) ``num_epochs`` times, or every RDD of a DStream once."""
        is_stream = sources.is_stream(dataRDD)
        epochs = 1 if is_stream else num_epochs or DEFAULT_EPOCHS
        self.cluster.train(dataRDD, epochs=epochs, feed_timeout=feed_timeout, queue=qname)

    def inference(self, dataRDD, feed_timeout=600, qname="input"):
        """A lazy RDD of results, one for each input row, in order."""
        return self.cluster.inference(dataRDD, feed_timeout=feed_timeout, queue=qname)

    def shutdown(self, ssc=None, grace_secs=0, timeout=259200):
        """Ends the feed, waits for the nodes, and raises what failed in them. With a
        ``timeout`` of 0 or less it waits for ever."""
        self.cluster.shutdown(
            ssc, service_grace=grace_secs, timeout=timeout if timeout > 0 else None
        )

    def tensorboard_url(self):
        """The address of TensorBoard, or None."""
        return self.cluster.tensorboard_url()

    @property
    def sc(self):
        return self.cluster.spark_context

    @property
    def defaultFS(self):
        return self.cluster.default_fs

    @property
    def working_dir(self):
        return self.cluster.working_dir

    @property
    def num_executors(self):
        return len(self.cluster.status())

    @functools.cached_property
    def nodeRDD(self):
        """The numbers of the nodes on executors, each in a partition of its own."""
        numbers = [node.node_id for node in self.cluster.status() if node.executor_id != "driver"]
        return self.sc.parallelize(numbers, max(1, len(numbers)))

    @property
    def cluster_id(self):
        return self.cluster.cluster_id

    @property
    def server(self):
        return reservation.Server(self.cluster.coordinator_address)

    @property
    def cluster_info(self):
        """One dict for each node; ``executor_id`` is the number of the node, as it always was."""
        return [_node_info(node) for node in self.cluster.status()]

    @property
    def meta(self):
        """``cluster_meta`` under its other name."""
        return self.cluster_meta

    @property
    def cluster_meta(self):
        template = {}
        for node in self.cluster.status():
            template.setdefault(node.job_name, []).append(node.node_id)
        return {
            "id": self.cluster_id,
            "cluster_template": template,
            "num_executors": self.num_executors,
            "default_fs": self.defaultFS,
            "working_dir": self.working_dir,
            "server_addr": self.cluster.coordinator_address,
            "release_port": self._release_port,
        }


class _ReservedCluster(TFCluster):
    """A cluster that ``reserve`` has described and ``start`` starts."""

    def __init__(self, start, input_mode, queues):
        self._start = start
        self.input_mode = input_mode
        self.queues = list(queues)
        self._started = None
        self._release_port = True

    def start(self, map_fun, tf_args):
        """Starts the nodes, each of which calls ``map_fun(tf_args, ctx)``."""
        if self._started is not None:
            super().start(map_fun, tf_args)
        self._started = self._start(map_fun, tf_args).cluster

    @property
    def cluster(self):
        """The ``tfos.Cluster``."""
        if self._started is None:
            raise BadInputError("this cluster was only reserved: call start(map_fun, args) first")
        return self._started


def _node_info(node):
    return {
        "executor_id": node.node_id,
        "host": node.address,
        "job_name": node.job_name,
        "task_index": node.task_index,
        "port": node.port,
        "tb_pid": node.tensorboard_pid or 0,
        "tb_port": node.tensorboard_port or 0,
        "addr": (node.address, node.feed_port) if node.feed_port else None,
        "authkey": AUTHKEY_PLACEHOLDER,
    }
