"""The driver of test_capture.py: MASTER DIRECTORY WHAT. Each of two hosts has a slot for a node.

`everything`: it does all that tfos sends between hosts, once encrypted and once open. `tensorboard`
and `elastic`: the same of a cluster that has one, and of one that a node joins. `connect`: the same
of a short training over Spark Connect, and MASTER is the URL of its server. `keys`: one short
training. It writes to the directory what a listener must not find.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile

import numpy as np
from pyspark.sql import SparkSession

import tfos
from support.coordinator_port import page_of
from support.scripts.two_hosts_driver import session
from support.waiting import wait_for
from tfos.errors import NodeFailedError

#: Not those of other tests, which may run at the same time.
OURS = "10.213.79.1"
THEIRS = "10.213.79.2"
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
    if what == "connect":
        spark = SparkSession.builder.remote(master).getOrCreate()
    else:
        spark = session(master, OURS, **settings)
    if what == "keys":
        secrets = {"auto": train(spark)}
    else:
        do = {
            "everything": run_all,
            "tensorboard": show_tensorboard,
            "elastic": let_join,
            "connect": train_over_connect,
        }[what]
        options = {"coordinator_advertised_address": THEIRS if what == "connect" else OURS}
        secrets = {"auto": [], "false": []}
        for encrypt, tokens in secrets.items():
            do(
                spark,
                functools.partial(start, spark, directory, encrypt, tokens, **options),
                encrypt,
            )
    spark.stop()
    pathlib.Path(directory, "secrets.json").write_text(json.dumps(secrets))


def train(spark):
    """Returns the token of the cluster."""
    with tfos.run(
        spark, take_all, nodes=2, coordinator_advertised_address=OURS, encrypt="auto"
    ) as cluster:
        cluster.train(spark.range(ROWS, numPartitions=2).selectExpr("float(id) AS x"))
    return [cluster._token]


def start(spark, directory, encrypt, tokens, program, **options):
    """A cluster, whose token is added to `tokens`."""
    cluster = tfos.run(
        spark,
        program,
        encrypt=encrypt,
        args={"marker": marker_of(encrypt), "weight": WEIGHT[encrypt], "dir": directory},
        **options,
    )
    tokens.append(cluster._token)
    return cluster


def marker_of(encrypt):
    return f"conspicuous-{encrypt}"


def run_all(spark, run, encrypt):
    marker = marker_of(encrypt)
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


def show_tensorboard(spark, run, encrypt):
    """Looks at TensorBoard once its node is on the other host, which is Spark's choice."""
    marker = marker_of(encrypt)
    while True:
        with (
            tempfile.TemporaryDirectory() as logs,
            run(
                summarise, nodes=2, input_mode="tensorflow", tensorboard=True, log_dir=logs
            ) as cluster,
        ):
            [node, *_] = cluster.status()
            if node.address == OURS:
                continue
            url = cluster.tensorboard_url()

            def is_shown(url=url):
                with contextlib.suppress(OSError):
                    return f"{marker}-summary".encode() in page_of(url, "/data/runs")

            wait_for(is_shown, f"a run at {url}")
            return


def let_join(spark, run, encrypt):
    """A node of the other host dies, and comes again."""
    with run(step_until_one_came_again, nodes=(1, 2), input_mode="tensorflow"):
        pass


def train_over_connect(spark, run, encrypt):
    """The coordinator and its keeper, which Spark's server asks, are on the other host. Spark chooses
    that, so it is tried again where they are not."""
    table = spark.range(ROWS, numPartitions=1).selectExpr(
        f"concat('{marker_of(encrypt)}-column-', id) AS text", "float(id) AS x"
    )
    while True:
        try:
            with run(read_columns, nodes=2) as cluster:
                cluster.train(table)
            return
        except NodeFailedError as error:
            if f"nothing listens at {THEIRS}" not in str(error):
                raise


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


def summarise(ctx):
    import tensorflow as tf

    if ctx.node_id == 0:
        folder = f"{ctx.log_dir}/{ctx.args['marker']}-summary"
        with tf.summary.create_file_writer(folder).as_default():
            tf.summary.scalar("loss", 0.5, step=1)


def step_until_one_came_again(ctx):
    import tensorflow as tf

    from tfos import collective

    dead = pathlib.Path(ctx.args["dir"], f"{ctx.args['marker']}-dead")
    weights = tf.Variable(np.full(10_000, ctx.args["weight"], np.float32))
    text = f"{ctx.args['marker']}-state"
    with tfos.elastic.State(weights=weights, sizes=[], text=text) as state:
        while state.sizes[-3:] != [2, 1, 2]:
            size = int(collective.all_reduce(tf.ones([1]), "sum")[0])
            if state.sizes[-1:] != [size]:
                state.sizes.append(size)
            state.commit()
            if size == 2 and not _is_on_our_host() and not dead.exists():
                dead.touch()
                os.kill(os.getpid(), signal.SIGKILL)


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
