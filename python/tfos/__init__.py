"""tfos: TensorFlow and Keras programs on the Spark, YARN and HDFS clusters you already have.

The public names: :func:`tfos.run` starts a cluster and returns a :class:`tfos.Cluster`;
:func:`tfos.register` makes the format "tfrecord" known to a SparkSession. :func:`tfos.jar_path` says where
the jar for Spark programs on the JVM is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfos.cluster import Cluster, run
    from tfos.tfrecord_source import register, save_tfrecords

__version__ = "0.1.0"
__all__ = ["Cluster", "jar_path", "register", "run", "save_tfrecords", "__version__"]


def jar_path() -> str:
    """The jar for the JVM inside the installed package (docs/jvm.md), as ``spark-shell --jars`` takes it."""
    from tfos import jar

    return jar.path()


def __getattr__(name: str) -> Any:
    # Loaded on first use: nodes and feed tasks import this package too, and need no driver code.
    if name in ("Cluster", "run"):
        return getattr(import_module("tfos.cluster"), name)
    if name in ("register", "save_tfrecords"):
        return getattr(import_module("tfos.tfrecord_source"), name)
    raise AttributeError(f"module 'tfos' has no attribute {name!r}")
