"""What a ``map_fun`` calls: paths, the feed, TensorFlow's server, export."""

from __future__ import annotations

import importlib
import logging

import tfos.feed.datafeed
from tfos.errors import BadInputError
from tfos.files import paths
from tfos.inference import saved_model
from tfos.node import internals, tensorflow_server

logger = logging.getLogger(__name__)

#: Each node's share of a GPU's memory, if this module is imported through a package that sets it.
_GPU_FRACTION = getattr(importlib.import_module(__package__), "GPU_FRACTION", 0.0)


class DataFeed(tfos.feed.datafeed.DataFeed):
    """A feed of tfos with the names and batches of TensorFlowOnSpark.

    With ``input_mapping`` its batches hold lists of the rows' own values, found by position alone:
    column i in sorted order is field i of every row, whatever its name is. Programs ask
    ``if batch["x"]`` and join lists by ``+``, which mean other things for arrays.
    """

    def __init__(
        self, mgr, train_mode=True, qname_in="input", qname_out="output", input_mapping=None
    ):
        if mgr is None:
            raise BadInputError(
                "this node is not fed by Spark: only nodes that train in a cluster with "
                "InputMode.SPARK have a DataFeed"
            )
        super().__init__(mgr, train_mode, qname_in)
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in = qname_in
        self.qname_out = qname_out
        self._told_to_stop = False
        self.input_tensors = None
        if input_mapping is not None:
            self.input_tensors = [tensor for _, tensor in sorted(input_mapping.items())]

    @property
    def done_feeding(self):
        """Whether the end of the feed was reached; programs may also set it."""
        return self.should_stop()

    @done_feeding.setter
    def done_feeding(self, value):
        self._told_to_stop = bool(value)

    def should_stop(self):
        """Whether the feed has ended or was terminated, or ``done_feeding`` was set."""
        return self._told_to_stop or super().should_stop()

    def next_batch(self, batch_size):
        """Up to ``batch_size`` rows; with ``input_mapping`` a dict of tensor name to list."""
        rows = super().next_batch(batch_size)
        if self.input_tensors is None:
            return rows
        wanted = len(self.input_tensors)
        for row in rows:
            if len(row) < wanted:
                raise BadInputError(
                    f"a row has {len(row)} fields and input_mapping {wanted} "
                    f"({', '.join(self.input_tensors)})"
                )
        return {
            tensor: [row[position] for row in rows]
            for position, tensor in enumerate(self.input_tensors)
        }


def hdfs_path(ctx, path):
    """``path`` as a full URI: see ``tfos.files.paths.resolve``."""
    return paths.resolve(ctx.defaultFS, ctx.working_dir, path)


def start_cluster_server(ctx, num_gpus=1, rdma=False):
    """Starts ``tf.distribute.Server`` on the node's port: (ClusterSpec, Server).

    TensorFlow sees the first ``num_gpus`` GPUs of this node; it is an error to ask for more than
    the node has been given where there are GPUs.
    """
    if ctx.node is None:
        raise BadInputError("start_cluster_server needs a ctx that a cluster passed to map_fun")
    if rdma:
        logger.warning(
            "rdma=True: TensorFlow has no verbs transport any more, so its server uses grpc; "
            "tfos.collective and ctx.distribute use UCX"
        )
        from tfos import collective  # with TensorFlow, which this module does without so far

        collective.prefer_rdma()
    if _GPU_FRACTION and not ctx.node.gpu_fraction:
        logger.warning(
            "this node takes %.0f %% of its GPU's memory and shares the GPU with nobody: import "
            "TFCluster from %s, too",
            100 * _GPU_FRACTION,
            __package__,
        )
    cluster_and_server = tensorflow_server.start(
        ctx.node, gpus=num_gpus, gpu_fraction=_GPU_FRACTION
    )
    ctx.tmp_socket = internals.port_socket(ctx.node)
    return cluster_and_server


def export_saved_model(sess, export_dir, tag_set, signatures):
    """Exports a TF1-style session: see ``tfos.inference.saved_model.export_session``."""
    saved_model.export_session(sess, export_dir, tag_set, signatures)


def release_port(ctx):
    """Frees the node's port for the program to bind; ``ctx.tmp_socket`` becomes None."""
    if ctx.node is not None:
        internals.release_port(ctx.node)
    elif ctx.tmp_socket is not None:
        ctx.tmp_socket.close()
    ctx.tmp_socket = None


def next_batch(mgr, batch_size, qname="input"):
    """Deprecated: use ``DataFeed.next_batch``."""
    raise _deprecated("next_batch")


def batch_results(mgr, results, qname="output"):
    """Deprecated: use ``DataFeed.batch_results``."""
    raise _deprecated("batch_results")


def terminate(mgr, qname="input"):
    """Deprecated: use ``DataFeed.terminate``."""
    raise _deprecated("terminate")


def _deprecated(name):
    # The position in a feed belongs to a DataFeed object, which these functions don't have.
    return BadInputError(f"TFNode.{name} is deprecated: use {name} of ctx.get_data_feed() instead")
