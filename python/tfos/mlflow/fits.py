"""Runs of MLflow for fits of an estimator in threads that have none, as in a CrossValidator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


def active_run_id() -> str | None:
    """The id of this thread's active run, or None. Imports no MLflow itself, as a program that has
    not imported it has no run."""
    mlflow = sys.modules.get("mlflow")
    run = mlflow.active_run() if mlflow is not None else None
    return None if run is None else run.info.run_id


@contextmanager
def run_below(parent_id: str | None) -> Iterator[None]:
    """Gives this thread an active run: its own, or else a new one below ``parent_id``. Does nothing
    if there is no parent, or if it has ended. Raises what MLflow raises."""
    if parent_id is None or active_run_id() is not None:
        yield
        return
    import mlflow

    parent = mlflow.MlflowClient().get_run(parent_id).info
    if parent.status != "RUNNING":
        yield
        return
    with mlflow.start_run(experiment_id=parent.experiment_id, nested=True, parent_run_id=parent_id):
        yield
