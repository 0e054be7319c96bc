"""``tfos.ml.Estimator`` with ``nodes=(least, most)``, on a cluster that loses a node."""

from __future__ import annotations

import pytest

from support.programs import ml as ml_programs
from tfos import ml

THREE_EXECUTORS = "local-cluster[3,2,1024]"


@pytest.mark.failure("node killed", "training")
def test_the_model_is_written_without_the_chief(spark_on, leftovers, tmp_path):
    rows = (
        spark_on(THREE_EXECUTORS)
        .range(3000)
        .selectExpr("id % 7 / 7D AS a", "id % 11 / 11D AS b")
        .selectExpr("array(a, b) AS x", "3 * a - 2 * b + 1 AS y")
        .repartition(6)
        .localCheckpoint()
    )
    model = ml.Estimator(
        build=ml_programs.build_line,
        callbacks=ml_programs.lose_worker_0,
        inputMapping={"x": "x"},
        labelCol="y",
        nodes=(2, 3),
        batchSize=10,
        modelDir=str(tmp_path),
        outputMapping={"output_0": "found"},
        settings={"late_nodes": False},
    ).fit(rows)
    far = model.transform(rows).where("abs(found - y) > 0.1").count()
    assert far == 0
