"""TensorFlow's own gRPC server for a node, for programs written for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tfos.errors import BadInputError
from tfos.node.internals import share_port

if TYPE_CHECKING:
    from tfos.node.context import NodeContext

logger = logging.getLogger(__name__)


def start(node: NodeContext, gpus: int | None = None, gpu_fraction: float = 0.0) -> tuple[Any, Any]:
    """Starts ``tf.distribute.Server`` on the node's port and returns (ClusterSpec, server).

    TensorFlow sees the first ``gpus`` of the node's GPUs (None: all), and none on a parameter
    server. It takes the share of their memory that the node has, else ``gpu_fraction`` (0: all of
    it). The node goes on holding the port beside the server. BadInputError when the node has some
    GPUs and fewer than ``gpus``.
    """
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto()
    _limit_gpus(tf, node, gpus, config)
    cluster = tf.train.ClusterSpec(node.cluster_spec)
    share_port(node)
    if fraction := node.gpu_fraction or gpu_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = fraction
    server = tf.distribute.Server(
        cluster, job_name=node.job_name, task_index=node.task_index, protocol="grpc", config=config
    )
    logger.info("%s:%d: TensorFlow server at %s", node.job_name, node.task_index, server.target)
    return cluster, server


def _limit_gpus(tf: Any, node: NodeContext, wanted: int | None, config: Any) -> None:
    """Hides from TensorFlow, and in ``config`` from the server, what it is not to use. Before
    TensorFlow uses any GPU."""
    if node.job_name == "ps":
        wanted = 0
    if wanted is None:
        return
    visible = tf.config.list_physical_devices("GPU")
    if visible and len(visible) < wanted:
        raise BadInputError(
            f"{node.job_name}:{node.task_index} has {len(visible)} GPU(s), and its server "
            f"was to use {wanted}: "
            f"ask for as many for each node (gpu_count={wanted}; args.num_gpus={wanted} "
            f"with TFCluster.run)"
        )
    tf.config.set_visible_devices(visible[:wanted], "GPU")
    # The server makes its own devices, of which only its configuration tells.
    config.device_count["GPU"] = wanted
