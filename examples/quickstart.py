#!/usr/bin/env python3
"""The native API in a few lines: two nodes learn y = 3 x1 - 2 x2 + 1 from a DataFrame.

    python examples/quickstart.py

Each node learns by itself from the rows that it gets, and reports what it has learned.
"""

import argparse

import tfos
from tfos.examples import spark_session

TRUTH = (3.0, -2.0, 1.0)


def train(ctx):
    """Runs in every node; a row is a Row of the DataFrame."""
    import numpy as np

    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(ctx.args["learning_rate"]), "mse")
    step = 0
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(ctx.args["batch_size"])
        if rows:
            step += 1
            inputs = np.array([(row.x1, row.x2) for row in rows])
            loss = model.train_on_batch(inputs, np.array([row.y for row in rows]))
            ctx.report(step=step, loss=float(loss))
    weights, bias = model.get_weights()
    ctx.report(w1=weights[0, 0], w2=weights[1, 0], b=bias[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()

    with spark_session.session("quickstart", options.master) as spark:
        data = spark.range(options.rows, numPartitions=4).selectExpr(
            "rand(1) AS x1", "rand(2) AS x2"
        )
        data = data.selectExpr("x1", "x2", "{} * x1 + {} * x2 + {} AS y".format(*TRUTH)).cache()
        with tfos.run(
            spark, train, nodes=2, args={"batch_size": 32, "learning_rate": 0.05}
        ) as cluster:
            cluster.train(data, epochs=options.epochs)
        for node in cluster.status():
            learned = node.metrics
            print(
                "node {}: y = {:.2f} x1 + {:.2f} x2 + {:.2f}".format(
                    node.node_id, learned["w1"], learned["w2"], learned["b"]
                )
            )


if __name__ == "__main__":
    main()
