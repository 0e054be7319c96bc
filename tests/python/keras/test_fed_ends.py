"""Programs of fed nodes that end at different times, or read other queues than the one in step."""

from __future__ import annotations

import pathlib

import pytest

import tfos
from support.waiting import BOUND_SECONDS

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * BOUND_SECONDS)]

TWO_EXECUTORS = "local-cluster[2,2,1024]"
ROWS = 400


def fit_for_some_epochs(ctx):
    """The second node ends its fit first."""
    import keras

    model = keras.Sequential([keras.Input([1], name="x"), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")
    dataset = ctx.dataset(8, features="x", label="y", remainder=ctx.args["remainder"])
    steps = []

    class Count(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            steps.append(batch)

    model.fit(dataset, epochs=1 if ctx.rank == 1 else 3, verbose=0, callbacks=[Count()])
    pathlib.Path(ctx.args["directory"], f"steps-{ctx.rank}").write_text(str(len(steps)))


@pytest.mark.parametrize("remainder", ["drop", None])
def test_a_node_whose_program_has_returned_holds_up_nobody(
    spark_on, leftovers, tmp_path, remainder
):
    spark = spark_on(TWO_EXECUTORS)
    frame = spark.range(ROWS).selectExpr("array(id / 400) AS x", "id / 400 AS y").repartition(4)
    args = {"directory": str(tmp_path), "remainder": remainder}
    with tfos.run(spark, fit_for_some_epochs, nodes=2, args=args, feed_memory="64k") as cluster:
        cluster.train(frame, epochs=3)
    assert {node.state for node in cluster.status()} == {"done"}
    first, second = (int((tmp_path / f"steps-{rank}").read_text()) for rank in (0, 1))
    assert first > second, "the other one goes on; it does not get what this one had already"


def evaluate_after_fit(ctx):
    import keras

    model = keras.Sequential([keras.Input([1], name="x"), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")
    model.fit(ctx.dataset(8, features="x", label="y"), epochs=1, verbose=0)
    rows = 0
    for x, _ in ctx.dataset(8, features="x", label="y", queue="validation"):
        rows += len(x)
    pathlib.Path(ctx.args["directory"], f"rows-{ctx.rank}").write_text(str(rows))


def test_an_elastic_cluster_reads_validation_rows_by_themselves(spark_on, leftovers, tmp_path):
    spark = spark_on(TWO_EXECUTORS)
    frame = spark.range(ROWS).selectExpr("array(id / 400) AS x", "id / 400 AS y").repartition(4)
    with tfos.run(
        spark, evaluate_after_fit, nodes=(1, 2), args={"directory": str(tmp_path)}
    ) as cluster:
        cluster.train(frame)
        cluster.train(frame, queue="validation")
    assert sum(int(path.read_text()) for path in tmp_path.glob("rows-*")) == ROWS
