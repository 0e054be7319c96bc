"""tfos: TensorFlow and Keras programs on the Spark, YARN and HDFS clusters you already have.

:func:`tfos.run` starts a cluster and returns a :class:`tfos.Cluster`; its program gets a
:class:`tfos.NodeContext`. :func:`tfos.register_tfrecords` makes the format "tfrecord" known to a
SparkSession. :func:`tfos.jar_path` says where the jar for Spark programs on the JVM is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfos._version import __version__
from tfos.base import lazy

if TYPE_CHECKING:
    from tfos import (
        collective,
        elastic,
        errors,
        inference,
        ml,
        mlflow,
        parallel,
        parameter_server,
        records,
        settings,
        tensorflow,
        util,
    )
    from tfos.cluster.cluster import Cluster
    from tfos.cluster.ledger import Ledger
    from tfos.cluster.start import run
    from tfos.keras.checkpoint.directory import last_checkpoint
    from tfos.node.context import NodeContext
    from tfos.node_status import NodeStatus
    from tfos.records.spark.sessions import register_tfrecords, save_tfrecords

__all__ = [
    "Cluster",
    "Ledger",
    "NodeContext",
    "NodeStatus",
    "__version__",
    "collective",
    "elastic",
    "errors",
    "inference",
    "jar_path",
    "last_checkpoint",
    "ml",
    "mlflow",
    "parallel",
    "parameter_server",
    "records",
    "register_tfrecords",
    "run",
    "save_tfrecords",
    "settings",
    "tensorflow",
    "util",
]


def jar_path() -> str:
    """The jar for the JVM in the installed package (docs/jvm.md), as ``spark-shell --jars`` takes
    it."""
    from tfos.spark import jar

    return jar.path()


__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "Cluster": "tfos.cluster.cluster",
        "run": "tfos.cluster.start",
        "Ledger": "tfos.cluster.ledger",
        "last_checkpoint": "tfos.keras.checkpoint.directory",
        "NodeContext": "tfos.node.context",
        "NodeStatus": "tfos.node_status",
        "register_tfrecords": "tfos.records.spark.sessions",
        "save_tfrecords": "tfos.records.spark.sessions",
        "collective": "tfos.collective",
        "elastic": "tfos.elastic",
        "errors": "tfos.errors",
        "inference": "tfos.inference",
        "ml": "tfos.ml",
        "mlflow": "tfos.mlflow",
        "parallel": "tfos.parallel",
        "parameter_server": "tfos.parameter_server",
        "records": "tfos.records",
        "settings": "tfos.settings",
        "tensorflow": "tfos.tensorflow",
        "util": "tfos.util",
    },
)
