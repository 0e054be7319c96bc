"""Nodes whose Keras runs on JAX: what they find in their environment, and their training together."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import pytest

import tfos
from support.programs import backends as programs
from tfos.node import backends

EPOCHS = 3
#: The nodes' Python; `make test-backends` names one without TensorFlow. Empty: that of the tests.
PYTHON = os.environ.get("TFOS_TESTS_PYTHON", "")


def node(node_id: int, job: str, index: int, address: str, port: int) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "job_name": job,
        "task_index": index,
        "rank": {"chief": 0, "worker": 1}.get(job, -1),
        "address": address,
        "port": port,
    }


NODES = [
    node(0, "ps", 0, "10.0.0.1", 1000),
    node(1, "chief", 0, "10.0.0.2", 2000),
    node(2, "worker", 0, "fd00::3", 3000),
    node(3, "evaluator", 0, "10.0.0.4", 4000),
]


def test_variables_of_a_node_that_trains() -> None:
    assert backends.environment(NODES, 2) == {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.2:2000",
        "MASTER_ADDR": "10.0.0.2",
        "MASTER_PORT": "2000",
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.0.2:2000,[fd00::3]:3000",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "1",
    }


def test_nodes_that_do_not_train_have_none() -> None:
    assert [backends.environment(NODES, node_id) for node_id in (0, 3)] == [{}, {}]


def test_nodes_that_come_and_go_are_in_no_group_of_their_libraries(spark: Any) -> None:
    with tfos.run(
        spark,
        programs.tell_environment,
        nodes=(1, 2),
        input_mode="tensorflow",
        keras_backend="torch",
    ) as cluster:
        told = [environment for _, _, environment, _ in cluster.wait()]
    for environment in told:
        assert environment["KERAS_BACKEND"] == "torch"
        assert not environment.keys() & {"WORLD_SIZE", "MASTER_ADDR", "TF_CONFIG"}


@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_a_node_tells_its_libraries_of_the_cluster(spark: Any, backend: str) -> None:
    with tfos.run(
        spark,
        programs.tell_environment,
        nodes=2,
        input_mode="tensorflow",
        keras_backend=backend,
    ) as cluster:
        (address, port, first, imported), (_, _, second, _) = cluster.wait()
    assert not imported
    assert first["KERAS_BACKEND"] == second["KERAS_BACKEND"] == backend
    if backend == "tensorflow":
        assert json.loads(second["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
        assert "RANK" not in first and "JAX_COORDINATOR_ADDRESS" not in first
    else:
        assert "TF_CONFIG" not in first and "TF_CONFIG" not in second
        assert first["MASTER_ADDR"] == second["MASTER_ADDR"] == address
        assert second["JAX_COORDINATOR_ADDRESS"] == f"{address}:{port}"
        assert (first["RANK"], second["RANK"]) == ("0", "1")


def test_jax_trains_one_model_on_two_nodes(spark: Any, tmp_path: Any, leftovers: None) -> None:
    with tfos.run(
        spark,
        programs.train_with_jax,
        nodes=2,
        keras_backend="jax",
        python=PYTHON,
        args={"dir": str(tmp_path), "epochs": EPOCHS},
    ) as cluster:
        cluster.train(programs.table(spark, 500), epochs=EPOCHS, shuffle=1)
    first, second = programs.told(tmp_path)
    assert (first["processes"], second["processes"]) == ([0, 2], [1, 2])
    assert first["gathered"] == second["gathered"] == [1, 2]
    assert first["total"] == second["total"] == [3]
    # Both made as many steps, and the same ones: each saw the gradients of the rows of both.
    assert first["steps"] == second["steps"] == EPOCHS * (500 // 32)
    assert first["weights"] == second["weights"]
    assert first["losses"] == second["losses"]
    assert first["losses"][-1] < first["losses"][0]
    ledger = cluster.ledger()
    assert (ledger.read, ledger.complaint()) == (EPOCHS * 500, None)
    dropped = sum(counts["rows_dropped"] for counts in ledger.nodes.values())
    assert dropped == EPOCHS * (500 % 32)


def test_keras_fits_from_batches_on_each_node(spark: Any, tmp_path: Any) -> None:
    with tfos.run(
        spark,
        programs.fit_alone,
        nodes=2,
        keras_backend="jax",
        python=PYTHON,
        args={"dir": str(tmp_path), "epochs": EPOCHS},
    ) as cluster:
        # Nodes get the same share of all rows so far, so a few rows may all be for one of them.
        cluster.train(
            programs.table(spark, 300), epochs=EPOCHS, validation=programs.table(spark, 300)
        )
    nodes = programs.told(tmp_path)
    assert [node["backend"] for node in nodes] == ["jax", "jax"]
    assert [node["steps"] for node in nodes] == [EPOCHS * math.ceil(300 / 32)] * 2
    for node in nodes:
        assert len(node["losses"]) == len(node["validation"]) == EPOCHS
        assert node["losses"][-1] < node["losses"][0]
