"""The driver of test_two_hosts.py: MASTER DIRECTORY. Each of two hosts has a slot for a node."""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import pathlib
import sys

import numpy as np
from pyspark.sql import SparkSession

import tfos
from support.programs import nodes as programs
from support.waiting import wait_for

OURS = "10.213.77.1"
ROWS = 20_000


def main(master, directory):
    spark = session(master)
    run = functools.partial(tfos.run, spark)
    feed_from_both(spark, run, directory)
    feed_from_one(spark, run, directory)
    train_together(spark, run, directory)
    train_through_a_server(run, directory)
    spark.stop()

    # Whatever counts as a failure ends the job.
    spark = session(
        master,
        **{
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.5",
            "spark.task.maxFailures": "1",
        },
    )
    feed_with_speculation(spark, directory)
    spark.stop()


def session(master, ours=OURS, **settings):
    """``ours``: the driver's address, which the other host reaches."""
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", ours)
        .config("spark.driver.bindAddress", ours)
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "512m")
        .config("spark.jars", tfos.jar_path())
        .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
    )
    return builder.config(map=settings).getOrCreate()


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

    # Some 40 MB: a node that answers late must not find that all are with the other one already.
    one = spark.sparkContext.parallelize(range(ROWS), 1).map(lambda n: ([float(n)] * 200, n))
    with run(count_batches, nodes=2, args={"dir": directory}) as cluster:
        assert len({node.address for node in cluster.status()}) == 2, cluster.status()
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
        found = {
            "weights": [weight.tolist() for weight in model.get_weights()],
            "transport": collective.group().transport,
        }
        pathlib.Path(ctx.args["dir"], f"{ctx.args['name']}-{ctx.task_index}").write_text(
            json.dumps(found)
        )

    x = np.random.default_rng(1).normal(size=(4_000, 2)).astype("float32")
    rows = [(row.tolist(), float(row @ [2, -3] + 1)) for row in x]
    data = spark.createDataFrame(rows, "x array<float>, y float").repartition(4)
    for name in ("open", "encrypted"):
        arguments = {"dir": directory, "name": name}
        with run(train, nodes=2, args=arguments, encrypt=name == "encrypted") as cluster:
            cluster.train(data, epochs=2)
        rows_read = sum(node["rows_read"] for node in cluster.ledger().nodes.values())
        assert rows_read == 2 * len(rows), cluster.ledger()


def train_through_a_server(run, directory):
    """A parameter server on one host, a worker on the other."""

    def push(ctx):
        weights = [np.zeros(100_000, np.float32)]
        with ctx.parameter_server(weights, sync_interval=1) as server:
            for _ in range(5):
                weights[0] += 1
                server.step()
        with server:  # What all have pushed.
            found = {
                "local_servers": server.local_servers,
                "values": sorted(set(weights[0].tolist())),
            }
        pathlib.Path(ctx.args["dir"], "pushed").write_text(json.dumps(found))

    with run(push, nodes=2, parameter_servers=1, input_mode="tensorflow", args={"dir": directory}):
        pass


def feed_with_speculation(spark, directory):
    """A copy of a task takes over on the other host while the nodes read nothing."""
    go_on = pathlib.Path(directory, "go-on")

    def read_when_told(ctx):
        wait_for(go_on.exists, go_on)
        programs.collect_rows(ctx)

    # A partition of few rows, which tells Spark that the other one takes long.
    rows = (
        spark.range(0, ROWS, numPartitions=2)
        .where(f"id < 10 OR id >= {ROWS // 2}")
        .selectExpr("id", "concat(repeat('x', 1000), id) AS text")
    )
    store = spark._jsc.sc().statusStore()

    def taken_over():
        lists = [
            store.taskList(stage, 0, 10)
            for stage in spark.sparkContext.statusTracker().getActiveStageIds()
        ]
        return any(
            tasks.apply(number).status() == "KILLED"
            for tasks in lists
            for number in range(tasks.size())
        )

    arguments = {"dir": f"{directory}/speculation", "batch": 500}
    os.mkdir(arguments["dir"])
    with tfos.run(
        spark,
        read_when_told,
        nodes=2,
        args=arguments,
        feed_memory=4 << 20,
        feed_region=1 << 20,
        feed_chunk=1 << 16,
        feed_jvm="on",
    ) as cluster:
        feeding = concurrent.futures.ThreadPoolExecutor().submit(cluster.train, rows)
        wait_for(lambda: feeding.done() or taken_over(), "the copy to take over")
        assert not feeding.done(), feeding.exception()
        go_on.touch()
        feeding.result()
    assert cluster.ledger().complaint() is None, cluster.ledger()


if __name__ == "__main__":
    main(*sys.argv[1:])
