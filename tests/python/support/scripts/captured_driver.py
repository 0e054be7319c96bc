"""The driver of test_capture.py: MASTER DIRECTORY WHAT. Each of two hosts has a slot for a node.

`everything`: it does all that tfos sends between hosts, once encrypted and once open. `keys`: one
short training. It writes to the directory what a listener must not find.
"""

from __future__ import annotations

import errno
import json
import pathlib
import socket
import sys

import numpy as np

import tfos
from support.scripts.two_hosts_driver import session
from tfos.errors import NodeFailedError

#: Not those of other tests, which may run at the same time.
OURS = "10.213.79.1"
ROWS = 2_000
#: A weight that is the same at many places, so that any message with weights holds it twice in a row.
WEIGHT = {"auto": 4321.125, "false": 1234.875}


class Row:
    """Travels as a pickle, which names its class."""

    def __init__(self, text):
        self.text = text


class ConspicuousSealedRow(Row):
    pass


class ConspicuousOpenRow(Row):
    pass


ROW = {"auto": ConspicuousSealedRow, "false": ConspicuousOpenRow}


def main(master, directory, what):
    settings = {
        "spark.broadcast.compress": "false",  # Compressed keys would not be found.
        "spark.locality.wait": "0s",  # Or one host might get all tasks of a job.
    }
    spark = session(master, OURS, **settings)
    if what == "keys":
        secrets = {"auto": train(spark)}
    else:
        secrets = {encrypt: run_all(spark, encrypt) for encrypt in ("auto", "false")}
    spark.stop()
    pathlib.Path(directory, "secrets.json").write_text(json.dumps(secrets))


def train(spark):
    """Returns the token of the cluster."""
    with tfos.run(
        spark, take_all, nodes=2, coordinator_advertised_address=OURS, encrypt="auto"
    ) as cluster:
        cluster.train(spark.range(ROWS, numPartitions=2).selectExpr("float(id) AS x"))
    return [cluster._token]


def run_all(spark, encrypt):
    """Returns the tokens of the clusters."""
    marker = f"conspicuous-{encrypt}"
    tokens = []

    def run(program, **options):
        cluster = tfos.run(
            spark,
            program,
            coordinator_advertised_address=OURS,
            encrypt=encrypt,
            args={"marker": marker, "weight": WEIGHT[encrypt]},
            **options,
        )
        tokens.append(cluster._token)
        return cluster

    one_partition = spark.range(ROWS, numPartitions=1)
    table = one_partition.selectExpr(f"concat('{marker}-column-', id) AS text", "float(id) AS x")
    kind = ROW[encrypt]
    objects = one_partition.rdd.map(lambda row: kind(f"{marker}-object-{row.id}"))
    with run(read_columns, nodes=2) as cluster:
        cluster.train(table)
    with run(read_objects, nodes=2) as cluster:
        cluster.train(objects)
    with run(answer, nodes=1) as cluster:
        # Each host has a slot, so one of the two tasks is not beside the node.
        assert len(cluster.inference(objects.repartition(2)).collect()) == ROWS
    with run(average, nodes=2, input_mode="tensorflow"):
        pass
    with run(push, nodes=2, parameter_servers=1, input_mode="tensorflow"):
        pass
    try:
        with run(fail, nodes=2, input_mode="tensorflow"):
            pass
    except NodeFailedError as error:
        assert f"{marker}-failure" in str(error), error
    else:
        raise AssertionError("a program's failure was lost")
    return tokens


def take_all(ctx):
    for _ in ctx.dataset(100, remainder="drop"):
        pass


def read_columns(ctx):
    for batch in ctx.dataset(100, remainder="drop"):
        assert ctx.args["marker"].encode() in batch[0].numpy()[0]


def read_objects(ctx):
    feed = ctx.feed
    while not feed.should_stop():
        for row in feed.next_batch(100):
            assert row.text.startswith(ctx.args["marker"])
    ctx.report(**{f"{ctx.args['marker'].replace('-', '_')}_metric": 1.0})


def answer(ctx):
    feed = ctx.feed
    while not feed.should_stop():
        feed.batch_results([f"{row.text}-result" for row in feed.next_batch(100)])


def average(ctx):
    import tensorflow  # noqa: F401  (the group of nodes is there with it)

    from tfos import collective

    weights = np.full(10_000, ctx.args["weight"], np.float32)
    np.testing.assert_array_equal(collective.all_reduce([weights], "mean")[0], weights)


def push(ctx):
    weights = [np.full(10_000, ctx.args["weight"], np.float32)]
    with ctx.parameter_server(weights, sync_interval=1) as server:
        server.step()


def fail(ctx):
    if not _is_on_our_host():
        raise ValueError(f"{ctx.args['marker']}-failure")


def _is_on_our_host():
    with socket.socket() as ours:
        try:
            ours.bind((OURS, 0))
        except OSError as error:
            assert error.errno == errno.EADDRNOTAVAIL, error
            return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
