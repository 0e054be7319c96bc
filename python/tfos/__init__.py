"""tfos: TensorFlow and Keras programs on the Spark, YARN and HDFS clusters you already have.

The public names: :func:`tfos.run` starts a cluster and returns a :class:`tfos.Cluster`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfos.cluster import Cluster, run

__version__ = "0.1.0"
__all__ = ["Cluster", "run", "__version__"]


def __getattr__(name: str) -> Any:
    # Loaded on first use: nodes and feed tasks import this package too, and need no driver code.
    if name in ("Cluster", "run"):
        return getattr(import_module("tfos.cluster"), name)
    raise AttributeError(f"module 'tfos' has no attribute {name!r}")
