"""The driver of test_two_hosts.py: MASTER DIRECTORY. Each of two hosts has a slot for a node."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import sys

import numpy as np
import programs
from pyspark.sql import SparkSession

import tfos

OURS = "10.213.77.1"
ROWS = 20_000


def main(master, directory):
    spark = (SparkSession.builder.master(master)
             .config("spark.driver.host", OURS).config("spark.driver.bindAddress", OURS)
             .config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
             .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"]).getOrCreate())
    run = functools.partial(tfos.run, spark, coordinator_advertised_address=OURS)
    feed_from_both(spark, run, directory)
    feed_from_one(spark, run, directory)
    train_together(spark, run, directory)
    train_through_a_server(run, directory)
    spark.stop()


def feed_from_both(spark, run, directory):
    """More tasks at once than either host has slots, and one node."""
    def rows(index, numbers):
        host = os.readlink("/proc/self/ns/net")
        return ((host, n) for n in numbers)

    data = spark.sparkContext.parallelize(range(ROWS), 8).mapPartitionsWithIndex(rows)
    with run(programs.collect_rows, nodes=1, args={"dir": directory, "batch": 500}) as cluster:
        cluster.train(data)
    ledger = cluster.ledger()
    assert ledger.complaint() is None and ledger.read == ROWS, ledger
    with run(programs.echo, nodes=1, args={"batch": 100}) as cluster:
        results = [row for _, row in cluster.inference(data).collect()]
    assert [n for _, n in results] == list(range(ROWS))


def feed_from_one(spark, run, directory):
    """One task, on one of the hosts, and a node on each: both get their share."""
    def count_batches(ctx):
        batches = sum(1 for _ in ctx.dataset(100, remainder="drop"))
        pathlib.Path(ctx.args["dir"], f"batches-{ctx.node_id}").write_text(str(batches))

    one = spark.sparkContext.parallelize(range(ROWS), 1).map(lambda n: ([float(n)] * 50, n))
    with run(count_batches, nodes=2, args={"dir": directory}) as cluster:
        assert len({node["address"] for node in cluster.nodes}) == 2, cluster.nodes
        cluster.train(one)
    assert cluster.ledger().complaint() is None, cluster.ledger()


def train_together(spark, run, directory):
    """One model on both hosts, whose gradients are sent between them, also encrypted."""
    def train(ctx):
        import keras

        from tfos import collective

        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")
        model.fit(ctx.dataset(50), epochs=2, verbose=0)
        found = {"weights": [weight.tolist() for weight in model.get_weights()],
                 "transport": collective.group().transport}
        pathlib.Path(ctx.args["dir"], f"{ctx.args['name']}-{ctx.task_index}").write_text(json.dumps(found))

    x = np.random.default_rng(1).normal(size=(4_000, 2)).astype("float32")
    rows = [(row.tolist(), float(row @ [2, -3] + 1)) for row in x]
    data = spark.createDataFrame(rows, "x array<float>, y float").repartition(4)
    for name in ("open", "encrypted"):
        arguments = {"dir": directory, "name": name}
        with run(train, nodes=2, args=arguments, tensors_encrypt=name == "encrypted") as cluster:
            cluster.train(data, epochs=2)


def train_through_a_server(run, directory):
    """A parameter server on one host, a worker on the other."""
    def push(ctx):
        weights = [np.zeros(100_000, np.float32)]
        with ctx.parameter_server(weights, sync_interval=1) as server:
            for _ in range(5):
                weights[0] += 1
                server.step()
        with server:  # What all have pushed.
            found = {"local_servers": server.local_servers, "values": sorted(set(weights[0].tolist()))}
        pathlib.Path(ctx.args["dir"], "pushed").write_text(json.dumps(found))

    with run(push, nodes=2, parameter_servers=1, input_mode="tensorflow", args={"dir": directory}):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
