"""Tensors between real nodes: operations, Keras 3 training, and what becomes of failures."""

from __future__ import annotations

import importlib
import itertools
import json
import pathlib

import numpy as np
import pytest

import keras
import tfos
from support.programs import collective as programs
from tfos.errors import BadInputError, NodeFailedError


def run(spark, program, tmp_path, nodes=2, **options):
    """What the nodes reported, by rank."""
    with tfos.run(
        spark,
        program,
        nodes=nodes,
        input_mode="tensorflow",
        chief="chief",
        args={"directory": str(tmp_path)},
        **options,
    ):
        pass
    names = ["chief-0", *(f"worker-{index}" for index in range(nodes - 1))]
    return [json.loads(pathlib.Path(tmp_path, f"{name}.json").read_text()) for name in names]


def test_operations_on_tensors_and_structures(spark, tmp_path, leftovers):
    # Over TCP, as between hosts, with TLS; the other tests use shared memory.
    nodes = run(
        spark,
        programs.operations,
        tmp_path,
        tensors_shared_memory=False,
        encrypt=True,
        tensors_timeline=str(tmp_path / "timeline"),
    )
    assert nodes[0]["rounded"] == nodes[1]["rounded"], "nodes must have the same bits"
    for rank, found in enumerate(nodes):
        assert (found["rank"], found["size"], found["transport"]) == (rank, 2, "tcp with TLS")
        assert found["a"] == [3, 4] and found["b"] == 3 and found["none"]
        assert found["mean"] == pytest.approx([2 / 3])
        assert found["rows"] == [[0, 0], [1, 1], [1, 1]]
        assert found["variable"] == [1, 6]
        assert found["reduced"] == found["half"] == [1]
        assert found["dense"] == [[0.5] * 3, [1.5] * 3, [1] * 3]
        rounded, exact = found["rounded"]
        mean = np.arange(20_000, dtype=np.float32) / 7 + 0.5
        np.testing.assert_allclose(rounded, mean, rtol=2**-7)
        assert not np.array_equal(rounded, mean)
        assert exact == pytest.approx(0.5 + 1 / 3)
        path = tmp_path / "timeline" / ("chief-0.json" if rank == 0 else "worker-0.json")
        trace = json.loads(path.read_text())["traceEvents"]
        operations = [event for event in trace if "bytes" in event.get("args", {})]
        assert any(
            "sent as bfloat16" in event["name"] and event["args"]["bytes"] == 80_000
            for event in operations
        )


def test_keras_trains_as_on_one_machine(spark, tmp_path, leftovers):
    first, second = run(spark, programs.keras_training, tmp_path)
    assert first["weights"] == second["weights"], "nodes must have the same bits"
    x, y = programs.rows_of(256)
    alone_by_name = {name: programs.train_alone(keras, name, x, y) for name in programs.OPTIMIZERS}
    alone_by_name["uneven"] = programs.train_alone(keras, "adam", x[:106], y[:106], epochs=1)
    for name, alone in alone_by_name.items():
        for together, expected in zip(first["weights"][name], alone, strict=True):
            np.testing.assert_allclose(together, expected, rtol=2e-3, atol=2e-5, err_msg=name)
    assert first["saved"] == "AdamW"
    assert first["iterations"] == 16 and first["iterations_after"] == 24
    # A saved model needs no tfos.
    assert "tfos" not in pathlib.Path(tmp_path, "model-0.keras").read_bytes().decode("latin-1")


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_an_optimizer_keeps_what_no_configuration_says(package):
    """As another one would not: exclusions from weight decay, and what a subclass was given."""
    from tfos.keras.optimizer import distribute

    kind = importlib.import_module(package).optimizers.SGD

    class Own(kind):
        def __init__(self, more):
            super().__init__(0.1)
            self.more = more

    own = Own(more=3)
    assert distribute(own) is own and distribute(own) is own
    assert isinstance(own, Own) and type(own).__name__ == "Own" and own.more == 3


@pytest.mark.long
def test_uneven_batches_train_as_one_machine_does_with_the_rows_of_all_nodes(
    spark, tmp_path, leftovers
):
    x, y = programs.rows_of(203)
    rows = spark.createDataFrame(list(zip(x.tolist(), y[:, 0].tolist())), "x array<float>, y float")
    with tfos.run(
        spark, programs.fed_unevenly, nodes=2, chief="chief", args={"directory": str(tmp_path)}
    ) as cluster:
        for _ in range(3):
            cluster.train(rows.repartition(5))
    found = [json.loads(path.read_text()) for path in sorted(pathlib.Path(tmp_path).iterdir())]
    for remainder in ("pad", "join"):
        # A step of the nodes that still have rows; where they end early, the others go on.
        parts = [node[remainder]["batches"] for node in found]
        steps = [
            [np.concatenate(columns) for columns in zip(*filter(any, present))]
            for present in itertools.zip_longest(*parts, fillvalue=([], []))
        ]
        assert sum(len(x) for x, _ in steps) == 203
        longest = max(found, key=lambda node: len(node[remainder]["batches"]))
        expected = programs.train_on_batches(keras, steps)
        for together, alone in zip(longest[remainder]["weights"], expected, strict=True):
            np.testing.assert_allclose(together, alone, rtol=2e-3, atol=2e-5, err_msg=remainder)
    assert len(found[0]["pad"]["batches"]) == len(found[1]["pad"]["batches"])
    assert found[0]["pad"]["weights"] == found[1]["pad"]["weights"]
    assert found[0]["fit"] == found[1]["fit"]


def test_an_overflow_on_one_node_skips_the_step_on_all(spark, tmp_path, leftovers):
    first, second = run(spark, programs.mixed_precision, tmp_path)
    assert first == second
    assert first["iterations"] == 5
    assert np.isfinite(np.concatenate([np.ravel(weight) for weight in first["weights"]])).all()


@pytest.mark.long
def test_every_kind_of_model_is_the_same_on_all_nodes(spark, tmp_path, leftovers):
    first, second = run(spark, programs.kinds_of_models, tmp_path)
    assert first == second
    assert set(first["heard"]) == {"loss", "mae"}
    assert all(first["history"][name][-1] == first["heard"][name] for name in first["heard"])
    assert len(first["warned"]) == 1


def test_other_shapes_are_an_error_naming_both(spark, tmp_path, leftovers):
    with pytest.raises(NodeFailedError) as failure:
        run(spark, programs.different_shapes, tmp_path)
    assert 'all_reduce "(100,) odd of float32"' in str(failure.value)
    assert 'all_reduce "(101,) odd of float32"' in str(failure.value)


@pytest.mark.parametrize("compression", ["int8", "float32", True])
def test_only_narrow_floats_compress(compression):
    from tfos import collective

    with pytest.raises(BadInputError, match="neither 'bfloat16' nor 'float16'"):
        collective.wire_of(compression)


@pytest.mark.failure("node killed", "training")
@pytest.mark.failure("out-of-memory kill", "training")
def test_a_node_that_dies_ends_the_others_operations(spark, tmp_path, leftovers):
    with pytest.raises(NodeFailedError, match="worker:0"):
        run(spark, programs.one_dies, tmp_path, tensors_shared_memory=False, rdma="required")


def test_a_program_that_wants_rdma_where_tensors_are_encrypted_hears_it_at_once(monkeypatch):
    from tfos import collective
    from tfos.base import training_nodes

    monkeypatch.setattr(training_nodes, "_known", None)
    training_nodes.use([], 0, "", -1, encrypt="true", rdma="false")
    with pytest.raises(BadInputError, match="encrypts everything"):
        collective.prefer_rdma()


def test_what_cant_be_encrypted_is_refused(spark):
    with pytest.raises(BadInputError, match="can't be encrypted"):
        tfos.run(spark, programs.operations, nodes=2, encrypt=True, rdma=True)
