#!/usr/bin/env python3
"""Trainings with something wrong in each, to practise how to find it.

    python examples/trouble.py slow-rows|slow-step|stuck|frozen|diverging [--master URL] [--epochs N]

While one runs, look for the cause from another terminal of this host: `tfos top`, `tfos profile`,
`tfos stack` and the page whose link the program prints. docs/diagnosis.md solves each. Ctrl-C
ends it.
"""

import argparse
import os
import signal
import sys
import threading
import time

import tfos
from tfos.examples import spark_session

TROUBLES = ("slow-rows", "slow-step", "stuck", "frozen", "diverging")
#: From this step on something is wrong.
STEP = 20


def augment_slowly():
    """Work of the program in each step that takes longer than the step."""
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        sum(range(1000))


def wait_for_a_lock():
    """A lock that this thread has already, as after a mistake in a callback."""
    lock = threading.Lock()
    with lock:
        lock.acquire()


def train(ctx):
    """Runs in every node."""
    import keras

    trouble = ctx.args.trouble

    class Trouble(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if trouble == "slow-step":
                augment_slowly()
            if ctx.is_chief or self.model.optimizer.iterations != STEP:
                return
            if trouble == "stuck":
                wait_for_a_lock()
            if trouble == "frozen":
                os.kill(os.getpid(), signal.SIGSTOP)

    model = keras.Sequential([keras.layers.Input((2,), name="x"), keras.layers.Dense(1)])
    rate = 1e6 if trouble == "diverging" else 0.01
    model.compile(ctx.distribute(keras.optimizers.SGD(rate)), "mse")
    model.fit(
        ctx.dataset(64, features="x", label="y"),
        epochs=ctx.args.epochs,
        callbacks=[Trouble()],
        verbose=0,
    )


def rows(spark, trouble):
    """10,000 rows of x and y = x[0] - x[1]."""
    from pyspark.sql import functions

    frame = spark.range(10000).selectExpr("array(id % 7 / 7, id % 11 / 11) AS x")
    frame = frame.selectExpr("x", "x[0] - x[1] AS y")
    if trouble != "slow-rows":
        return frame.cache()

    @functions.udf("double")
    def looked_up(value):
        """As if each row asked a service."""
        time.sleep(0.001)
        return value

    return frame.withColumn("y", looked_up("y"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("trouble", choices=TROUBLES)
    parser.add_argument("--epochs", type=int, default=1000)
    args = parser.parse_args()
    with spark_session.session("trouble", args.master) as spark:
        with tfos.run(spark, train, nodes=2, args=args) as cluster:
            cluster.train(rows(spark, args.trouble), epochs=args.epochs)


if __name__ == "__main__":
    sys.exit(main())
