"""TensorFlow's own gRPC server for a node, for programs written for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfos.node.context import NodeContext

logger = logging.getLogger(__name__)


def start(node: NodeContext, use_gpu: bool = True) -> tuple[Any, Any]:
    """Starts ``tf.distribute.Server`` on the node's port and returns (ClusterSpec, server).

    Parameter servers get no GPU; a node that shares one takes its share of the memory. The
    port that the node held so far is released first.
    """
    import tensorflow as tf

    if not use_gpu or node.job_name == "ps":
        tf.config.set_visible_devices([], "GPU")
    cluster = tf.train.ClusterSpec(node.cluster_spec)
    # As late as possible: from here until the server listens another process could take the port.
    node.release_port()
    config = tf.compat.v1.ConfigProto()
    if node.gpu_fraction:
        config.gpu_options.per_process_gpu_memory_fraction = node.gpu_fraction
    server = tf.distribute.Server(
        cluster, job_name=node.job_name, task_index=node.task_index, protocol="grpc", config=config
    )
    logger.info("%s:%d: TensorFlow server at %s", node.job_name, node.task_index, server.target)
    return cluster, server
