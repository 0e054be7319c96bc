"""Nodes whose Keras runs on PyTorch, without TensorFlow: `make test-backends` alone runs this."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

import tfos
from support.programs import backends as programs

EPOCHS = 3

pytestmark = pytest.mark.skipif(
    "TFOS_TESTS_PYTHON" not in os.environ,
    reason="PyTorch takes gigabytes: make test-backends names a Python that has it",
)


@pytest.fixture
def run(spark: Any, tmp_path: Any) -> Any:
    """Trains a program and gives what both nodes have told."""

    def run(program: Any, rows: int, **feeding: Any) -> Any:
        with tfos.run(
            spark,
            program,
            nodes=2,
            keras_backend="torch",
            python=os.environ["TFOS_TESTS_PYTHON"],
            args={"dir": str(tmp_path), "epochs": EPOCHS},
        ) as cluster:
            cluster.train(programs.table(spark, rows), epochs=EPOCHS, **feeding)
        return programs.told(tmp_path)

    return run


def test_torch_trains_one_model_on_two_nodes(run: Any, leftovers: None) -> None:
    first, second = run(programs.train_with_torch, 500, shuffle=1)
    assert (first["processes"], second["processes"]) == ([0, 2], [1, 2])
    assert first["total"] == second["total"] == [3]
    # Both made as many steps, and the same ones: each saw the gradients of the rows of both.
    assert first["steps"] == second["steps"] == EPOCHS * (500 // 32)
    assert first["weights"] == second["weights"]
    assert first["losses"] != second["losses"]  # each of its own rows
    assert all(node["losses"][-1] < node["losses"][0] for node in (first, second))


def test_keras_fits_from_batches_on_each_node(run: Any, spark: Any) -> None:
    nodes = run(programs.fit_alone, 300, validation=programs.table(spark, 100))
    assert [node["backend"] for node in nodes] == ["torch", "torch"]
    assert [node["steps"] for node in nodes] == [EPOCHS * math.ceil(300 / 32)] * 2
    for node in nodes:
        assert len(node["losses"]) == len(node["validation"]) == EPOCHS
        assert node["losses"][-1] < node["losses"][0]
