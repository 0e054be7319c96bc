"""`tfos stop` while nodes hold far more rows than they have trained on."""

from __future__ import annotations

import json

import pytest

import tfos
from support.operating import stop_when
from support.programs import operate
from support.waiting import BOUND_SECONDS
from tfos.errors import ClusterStoppedError

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)

TWO_EXECUTORS = "local-cluster[2,2,1024]"
ROWS = 4000
#: The one that was begun when the others had heard of the stop.
LAST_STEPS = {0: 4, 1: 3}


def stop_in_training(spark, program, kind, folder):
    """Feeds two nodes, which have all rows of the first epoch, and stops them in their steps. What
    each saved, and the ledger."""
    frame = spark.range(ROWS).selectExpr(f"array(id / {ROWS}) AS x", "id AS y").repartition(4)
    args = {"dir": str(folder), "kind": kind}
    with stop_when(folder, "trains") as stopped, pytest.raises(ClusterStoppedError):
        with tfos.run(spark, program, nodes=2, args=args) as cluster:
            cluster.train(frame, epochs=10**6)
    assert stopped[0].returncode == 0, stopped[0].stderr
    assert {node.state for node in cluster.status()} == {"done"}
    return [json.loads((folder / f"saved-{n}").read_text()) for n in range(2)], cluster.ledger()


def check_ledger(ledger, capsys):
    for name, count in ledger.nodes.items():
        assert 0 < count["rows_read"] <= 8 * max(LAST_STEPS.values()), name
        assert count["left"] == count["delivered"] - count["rows_read"], name
        assert count["left"] > 0 and count["rows_dropped"] == 0, name
    assert ledger.complaint() is None
    said = "".join(capsys.readouterr())
    assert said.count("rows left unread") == 2
    assert "give fit() as many epochs" not in said and "asked for an epoch" not in said


@pytest.mark.parametrize("kind", ["rows", pytest.param("batches", marks=pytest.mark.long)])
def test_nodes_that_train_by_themselves_end_after_the_step_at_hand(
    spark_on, tmp_path, leftovers, capsys, kind
):
    spark = spark_on(TWO_EXECUTORS)
    saved, ledger = stop_in_training(spark, operate.read_batches_slowly, kind, tmp_path)
    assert [each["steps"] for each in saved] == list(LAST_STEPS.values())
    check_ledger(ledger, capsys)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["fit", "fit join"])
def test_nodes_that_train_together_end_at_the_same_step(
    spark_on, tmp_path, leftovers, capsys, kind
):
    spark = spark_on(TWO_EXECUTORS)
    saved, ledger = stop_in_training(spark, operate.fit_slowly, kind, tmp_path)
    assert [each["steps"] for each in saved] == list(LAST_STEPS.values())
    first, second = saved
    # The step that the second one had no rows for, and perhaps one that Keras begins without any.
    assert first["iterations"] == second["iterations"] and first["iterations"] <= 6
    assert first["weights"] == second["weights"]
    assert first["epochs"] == second["epochs"] == 2, "the second one is empty"
    check_ledger(ledger, capsys)
