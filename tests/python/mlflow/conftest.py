"""A store of runs for each module."""

from __future__ import annotations

import pytest

import mlflow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A client of MLflow, whose runs are files, as on storage that all hosts share. The process has no
    other store meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.delenv("MLFLOW_RUN_ID", raising=False)
        mlflow.set_tracking_uri((tmp_path_factory.mktemp("mlflow") / "runs").as_uri())
        yield mlflow.MlflowClient()
        mlflow.set_tracking_uri("")
