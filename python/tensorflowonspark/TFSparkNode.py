"""The ``ctx`` that a ``map_fun(args, ctx)`` receives."""

from __future__ import annotations

import sys

from tfos.base.roles import SERVICE_JOBS
from tfos.node import internals

from . import TFNode


class TFNodeContext:
    """A node under its names of TensorFlowOnSpark.

    In a cluster it is made by ``of`` and works on the ``tfos.node.context.NodeContext`` in
    ``node``. A program may also build one by itself, to run its ``map_fun`` without a cluster: what
    needs a node then is not available.
    """

    def __init__(
        self,
        executor_id=0,
        job_name="",
        task_index=0,
        cluster_spec=None,
        defaultFS="file://",
        working_dir=".",
        mgr=None,
        tmp_socket=None,
    ):
        self.executor_id = executor_id
        self.worker_num = executor_id
        self.job_name = job_name
        self.task_index = task_index
        self.cluster_spec = cluster_spec or {}
        self.num_workers = sum(
            len(nodes) for job, nodes in self.cluster_spec.items() if job not in SERVICE_JOBS
        )
        self.defaultFS = defaultFS
        self.working_dir = working_dir
        self.mgr = mgr
        self.tmp_socket = tmp_socket
        self.gpus = []
        self.log_dir = None
        self.node = None

    @classmethod
    def of(cls, node):
        """The context of a ``tfos`` node."""
        ctx = cls(
            executor_id=node.node_id,
            job_name=node.job_name,
            task_index=node.task_index,
            cluster_spec=node.cluster_spec,
            defaultFS=node.default_fs,
            working_dir=node.working_dir,
            mgr=internals.feed_source(node),
            tmp_socket=internals.port_socket(node),
        )
        ctx.num_workers = node.size
        ctx.gpus = node.gpus
        ctx.log_dir = node.log_dir
        ctx.node = node
        return ctx

    def absolute_path(self, path):
        """``path`` as a full URI."""
        return TFNode.hdfs_path(self, path)

    def start_cluster_server(self, num_gpus=1, rdma=False):
        """Starts TensorFlow's server of this node: (ClusterSpec, Server)."""
        return TFNode.start_cluster_server(self, num_gpus, rdma)

    def export_saved_model(self, sess, export_dir, tag_set, signatures):
        """Exports a TF1-style session as a SavedModel."""
        TFNode.export_saved_model(sess, export_dir, tag_set, signatures)

    def get_data_feed(
        self, train_mode=True, qname_in="input", qname_out="output", input_mapping=None
    ):
        """The rows that Spark feeds to this node."""
        return TFNode.DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self):
        """Frees the node's port; ``tmp_socket`` becomes None."""
        TFNode.release_port(self)

    def report(self, **metrics):
        """Publishes metrics of the program, as ``tfos.node.context.NodeContext.report`` does."""
        if self.node is not None:
            self.node.report(**metrics)


class Program:
    """A ``map_fun(args, ctx)`` as the ``main(node)`` of ``tfos.run``. Pickled to the nodes. Without
    ``release_port`` the node's port is held until the program releases it."""

    def __init__(self, map_fun, release_port=True):
        self._map_fun = map_fun
        self._release_port = release_port

    def __call__(self, node):
        if not self._release_port:
            internals.hold_port(node)
        use_argv(node.args)
        self._map_fun(node.args, TFNodeContext.of(node))


def use_argv(tf_args):
    """An argv list becomes ``sys.argv``, which the flags of the program are parsed from."""
    if isinstance(tf_args, list):
        sys.argv = list(tf_args)
