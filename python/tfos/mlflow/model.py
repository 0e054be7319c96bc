"""A model of Keras 3 in a run of MLflow."""

from __future__ import annotations

import sys
from typing import Any

from tfos.mlflow.tracking import Target

#: Keras's backends, as packages.
_BACKENDS = ("tensorflow", "jax", "torch")


def log(model: Any, target: Target, epoch: int) -> None:
    """Logs it as ``model``, with its signature. Raises what MLflow and Keras raise."""
    import mlflow.keras
    from mlflow.models import Model

    Model.log(
        name="model",
        artifact_path=None,
        flavor=mlflow.keras,
        run_id=target.run_id,
        step=epoch,
        model=model,
        signature=signature_of(model),
        # Else it starts a Python that loads the model, to see what that imports.
        pip_requirements=_requirements(),
    )


def signature_of(model: Any) -> Any:
    """What goes in and comes out, by the shapes that the model is made for; None for a model that
    has none, or types that NumPy has not. Several inputs have their names, so that callers pass
    them in a dict."""
    from mlflow.models import ModelSignature

    inputs, outputs = (getattr(model, name, None) for name in ("inputs", "outputs"))
    if not inputs or not outputs:
        return None
    try:
        return ModelSignature(inputs=_schema(inputs), outputs=_schema(outputs))
    except TypeError:
        return None


def _schema(tensors: list[Any]) -> Any:
    import numpy as np
    from mlflow.types import Schema, TensorSpec

    return Schema(
        [
            TensorSpec(
                np.dtype("O" if tensor.dtype == "string" else tensor.dtype),
                [-1, *(-1 if size is None else size for size in tensor.shape[1:])],
                tensor.name if len(tensors) > 1 else None,
            )
            for tensor in tensors
        ]
    )


def _requirements() -> list[str]:
    import keras

    backend = keras.backend.backend()
    names = ["keras", *(name for name in _BACKENDS if name == backend)]
    return [f"{name}=={sys.modules[name].__version__}" for name in names if name in sys.modules]
