"""What is left of the throughput when nodes are killed again and again.

    python bench/recovery/goodput.py [--steps 1000] [--failures 50] [--step-seconds 0.5] [--output ...]

Two nodes train with `nodes=(1, 2)` until they have trained a given number of batches, once
undisturbed and once while the driver kills one of them (SIGKILL) at even distances, in turn. Each
comes again and trains on. A step waits for most of its time, as one does that an accelerator
computes, so the processor is free for what comes again.

Goodput is the time of the undisturbed run, divided by that of the other one. Batches count when their
step has ended: a step of one node alone counts for one batch, and one of both for two.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)

NODES = 2
BATCH = 64
STEPS_OF_AN_EPOCH = 20
#: A bound for a run that goes wrong, in seconds.
LONGEST = 3600
#: Between two looks at how far the nodes are.
LOOK_SECONDS = 0.1
#: Undisturbed steps before the time counts.
WARM_UP = 10


def train(ctx):
    """Runs in every node, until the driver has said which step is the last."""
    import numpy as np
    import tensorflow as tf

    import keras
    from tfos import collective

    steps = pathlib.Path(ctx.args["directory"], f"steps-{ctx.rank}")
    last = pathlib.Path(ctx.args["directory"], "last")

    class Accelerator(keras.layers.Layer):
        """Hands on what it gets after the time that the accelerator of a larger model takes."""

        def call(self, inputs):
            def compute(values):
                time.sleep(ctx.args["step_seconds"])
                return values

            outputs = tf.numpy_function(compute, [inputs], inputs.dtype, stateful=True)
            outputs.set_shape(inputs.shape)
            # TensorFlow knows no gradient of a Python function.
            return inputs + tf.stop_gradient(outputs - inputs)

    class Steps(keras.callbacks.Callback):
        """Writes the number of each step, its end and its nodes."""

        def on_train_batch_end(self, batch, logs=None):
            line = [int(self.model.optimizer.iterations), time.monotonic(), collective.size()]
            with steps.open("a") as file:
                file.write(json.dumps(line) + "\n")

        def on_epoch_end(self, epoch, logs=None):
            # The driver wrote it long before that step, so all nodes see the same.
            if last.exists() and int(self.model.optimizer.iterations) >= int(last.read_text()):
                self.model.stop_training = True

    random = np.random.default_rng(ctx.rank)
    x = random.random((STEPS_OF_AN_EPOCH * BATCH, 32)).astype(np.float32)
    y = random.integers(10, size=len(x))
    model = keras.Sequential(
        [
            keras.Input((32,)),
            keras.layers.Dense(64, activation="relu"),
            Accelerator(),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        ctx.distribute(keras.optimizers.SGD(0.01)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)
    model.fit(dataset, epochs=10_000, verbose=0, callbacks=[Steps()])


def steps_of(directory):
    """(number, end, nodes) of each step that a node has ended, in order. What a node was killed in
    has the word of the other one."""
    steps = {}
    for path in pathlib.Path(directory).glob("steps-*"):
        whole, _, _ = path.read_text().rpartition("\n")
        for number, end, nodes in map(json.loads, whole.splitlines()):
            known = steps.get(number)
            steps[number] = (number, max(end, known[1]) if known else end, nodes)
    return sorted(steps.values())


class Driver(threading.Thread):
    """Kills a node at even distances: each of the two in turn, and never the only one that trains.
    Ends the training when nodes have trained ``batches`` after the warm-up."""

    def __init__(self, cluster, directory, every, failures, batches):
        super().__init__(daemon=True)
        self._cluster, self._directory = cluster, pathlib.Path(directory)
        self._every, self._failures, self._batches = every, failures, batches
        self.cluster_ended = threading.Event()
        self.killed = 0

    def run(self):
        due, since = WARM_UP + self._every, 0
        while not self.cluster_ended.wait(LOOK_SECONDS):
            steps = steps_of(self._directory)
            if sum(nodes for _, _, nodes in steps[WARM_UP:]) >= self._batches:
                part = self._directory / "last.part"
                part.write_text(str(steps[-1][0] + STEPS_OF_AN_EPOCH))
                part.rename(self._directory / "last")
                return
            # The one that was killed last must be in again.
            is_in = len({nodes for _, _, nodes in steps[since:]}) == NODES or not self.killed
            if self.killed < self._failures and steps[due:] and is_in and steps[-1][2] == NODES:
                self._kill(self.killed % NODES)
                due, since = due + self._every, len(steps)

    def _kill(self, victim):
        node = next(node for node in self._cluster.status() if node.node_id == victim)
        os.kill(node.pid, signal.SIGKILL)
        self.killed += 1


def run(spark, options, failures):
    """(seconds from the end of the warm-up, steps in them, nodes killed) of one run."""
    import tfos

    with tempfile.TemporaryDirectory() as name:
        batches = options.steps * NODES
        with tfos.run(
            spark,
            train,
            nodes=(1, NODES),
            input_mode="tensorflow",
            args={"directory": name, "step_seconds": options.step_seconds},
        ) as cluster:
            every = options.steps // (options.failures + 1)
            driver = Driver(cluster, name, every, failures, batches)
            driver.start()
            cluster.wait(timeout=LONGEST)
            driver.cluster_ended.set()
            driver.join()
        steps = steps_of(name)
    assert [number for number, _, _ in steps] == list(range(1, len(steps) + 1)), "a step is missing"
    counted, done = steps[WARM_UP:], 0
    for count, (_, end, nodes) in enumerate(counted, start=1):
        done += nodes
        if done >= batches:
            return end - steps[WARM_UP - 1][1], count, driver.killed
    raise SystemExit("the nodes ended before they had trained all batches")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--steps", type=int, default=1000, help="of both nodes, undisturbed")
    parser.add_argument("--failures", type=int, default=50)
    parser.add_argument("--step-seconds", type=float, default=0.5)
    parser.add_argument("--output", type=pathlib.Path, help="a page whose part is replaced")
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local-cluster[{NODES},1,1024]")
        .appName("goodput")
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "1000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        plain, plain_steps, _ = run(spark, options, 0)
        print(f"undisturbed: {plain_steps} steps, {plain:.1f} s", flush=True)
        disturbed, steps, killed = run(spark, options, options.failures)
        print(f"with {killed} nodes killed: {steps} steps, {disturbed:.1f} s", flush=True)
    finally:
        spark.stop()
    report.publish(
        "goodput.py",
        options.failures,
        f"Two nodes, `nodes=(1, 2)`, steps of {options.step_seconds:g} s, of which the processor "
        f"works for a few milliseconds; {options.steps * NODES} batches.",
        [
            "| nodes killed | steps | seconds | goodput |",
            "|---|---|---|---|",
            f"| 0 | {plain_steps:,} | {plain:.1f} | 1 |",
            f"| {killed} | {steps:,} | {disturbed:.1f} | {plain / disturbed:.2f} |",
        ],
        options.output,
        folder="recovery",
        option="failures",
    )


if __name__ == "__main__":
    main()
