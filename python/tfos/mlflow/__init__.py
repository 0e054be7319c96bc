"""MLflow: all nodes of a cluster in one run, with ``tfos.run(..., mlflow=True)``.

The driver writes the metrics of all nodes, which it has anyway; the chief writes what ``fit`` of
Keras 3 says, and the model. MLflow's own client does both. See docs/mlflow.md.
"""

from __future__ import annotations

from tfos.mlflow.tracking import Tracking

__all__ = ["Tracking"]
