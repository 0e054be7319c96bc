"""A tracking server that is gone does not end the training."""

from __future__ import annotations

import logging
import socket

import pytest

import mlflow
import tfos
from support.programs import mlflow as programs


@pytest.mark.long
def test_training_goes_on_and_each_side_warns_once(
    spark, store, tmp_path, monkeypatch, caplog, capfd
):
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "word-that-is-passed")
    rows = spark.range(1000).selectExpr("array(id % 7 / 7, 0.0D) AS x", "id % 7 / 7 AS y")
    out = tmp_path / "loss"
    with mlflow.start_run() as run, socket.socket() as taken:
        here = mlflow.get_tracking_uri()
        taken.bind(("127.0.0.1", 0))  # Nobody listens there, and nobody else can.
        port = taken.getsockname()[1]
        mlflow.set_tracking_uri(f"http://me:word-of-the-address@127.0.0.1:{port}")
        try:
            with tfos.run(
                spark,
                programs.train_without_mlflow,
                nodes=2,
                args={"learning_rate": 0.1, "epochs": 2, "out": str(out)},
                logs="driver",
                mlflow=tfos.mlflow.Tracking(interval=0.5, environment=["MLFLOW_TRACKING_PASSWORD"]),
            ) as cluster:
                cluster.train(rows, epochs=2)
        finally:
            mlflow.set_tracking_uri(here)
    loss, passed = out.read_text().split()
    assert float(loss) < 1.0
    assert passed == "word-that-is-passed"
    place = f"into run {run.info.run_id} of MLflow at http://127.0.0.1:{port}: "
    (said,) = [r.getMessage() for r in caplog.records if r.name.startswith("tfos.mlflow")]
    assert said.startswith(f"the driver can't write its metrics {place}")
    assert "refused" in said and said.endswith("The training goes on")
    shown = capfd.readouterr().err
    of_nodes = [line for line in shown.splitlines() if place in line]
    of_chief = [line for line in of_nodes if "worker:0 on host" in line]
    assert len([line for line in of_chief if "can't write its metrics" in line]) == 1
    assert len([line for line in of_chief if "can't write the model" in line]) == 1
    assert not [line for line in of_nodes if "worker:1 on host" in line]
    assert "Retrying" not in shown + caplog.text
    for secret in ("word-that-is-passed", "word-of-the-address"):
        assert secret not in shown and secret not in caplog.text
