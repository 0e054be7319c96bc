"""How soon training goes on after a node is lost, and how soon the node trains again.

    python bench/recovery/lost_node.py [--repeat 10] [--ray PYTHON] [--output docs/performance.md]

Three nodes train a small model on one machine with `nodes=(2, 3)`. One of them is killed (SIGKILL) or
frozen (SIGSTOP) between two steps, and is started again by its launch task. Times are of the
kernel's monotonic clock, which all processes of a host share:

- next step: from the signal to the end of the next step on the slower one of the others.
- trains again: from the signal to the end of the lost node's first step in its new process.
- of it, program: from the first line of the program in the new process. The rest is to end the old
  process and to start Python.

Before a time counts, all nodes must have ended with the same weights, and no step may be missing.

`--ray` names a Python that has Ray Train (ray_train.py says what it needs). It then has its turn in
each round: the time in its row is from the signal to the end of the next step on the slowest worker,
all of which Ray starts again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)

NODES = 3
VICTIM = 1
STEPS_OF_AN_EPOCH = 20
#: The victim has trained as many when it is lost.
STEPS_BEFORE = 50
#: A bound for a run that goes wrong.
EPOCHS = 2000
#: Seconds without an answer after which a frozen node is lost.
ANSWER_TIMEOUT = 5

FAILURES = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}


def train(ctx):
    """Runs in every node: leaves when each of its steps ended."""
    begun = time.monotonic()
    directory = pathlib.Path(ctx.args["directory"])
    life = len(list(directory.glob(f"life-{ctx.rank}-*")))
    (directory / f"life-{ctx.rank}-{life}").touch()

    import numpy as np
    import tensorflow as tf

    import keras
    from tfos import collective

    ends = []

    class Clock(keras.callbacks.Callback):
        first = None
        complete = False

        def on_epoch_begin(self, epoch, logs=None):
            self.first = epoch if self.first is None else self.first
            # The epoch in which the node came again had begun without it on the others.
            again = epoch > self.first and (directory / f"life-{VICTIM}-1").exists()
            self.complete = again and collective.size() == NODES

        def on_train_batch_end(self, batch, logs=None):
            step = int(self.model.optimizer.iterations)
            ends.append((step, time.monotonic()))
            if ctx.rank == VICTIM and life == 0 and step == STEPS_BEFORE:
                lost = {"step": step, "time": time.monotonic()}
                (directory / "lost.json").write_text(json.dumps(lost))
                os.kill(os.getpid(), ctx.args["signal"])

        def on_epoch_end(self, epoch, logs=None):
            # The same on all nodes.
            self.model.stop_training = self.complete

    random = np.random.default_rng(ctx.rank)
    x = random.random((STEPS_OF_AN_EPOCH * 64, 28, 28, 1)).astype(np.float32)
    y = random.integers(10, size=len(x))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        ctx.distribute(keras.optimizers.SGD(0.01)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[Clock()])
    found = {
        "begun": begun,
        "life": life,
        "ends": ends,
        "sums": [float(weight.astype(np.float64).sum()) for weight in model.get_weights()],
    }
    (directory / f"node-{ctx.rank}.json").write_text(json.dumps(found))


@dataclasses.dataclass(frozen=True)
class Recovery:
    """Seconds of one run; see the top of this file."""

    step: float
    next_step: float
    trains_again: float
    program: float


def run(spark, failure: str) -> Recovery:
    """One run, checked."""
    import tfos

    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        with tfos.run(
            spark,
            train,
            nodes=(NODES - 1, NODES),
            input_mode="tensorflow",
            args={"directory": name, "signal": int(FAILURES[failure])},
            node_answer_timeout=ANSWER_TIMEOUT,
        ) as cluster:
            cluster.wait(timeout=300)
        lost = json.loads((directory / "lost.json").read_text())
        nodes = [json.loads((directory / f"node-{n}.json").read_text()) for n in range(NODES)]
    assert all(node["sums"] == nodes[0]["sums"] for node in nodes), "the weights differ"
    joiner = nodes[VICTIM]
    assert joiner["life"] == 1
    others = [dict(node["ends"]) for number, node in enumerate(nodes) if number != VICTIM]
    for ends in others:
        assert sorted(ends) == list(range(1, max(ends) + 1)), "a step is missing"
    before = [ends[step] - ends[step - 1] for ends in others for step in range(10, lost["step"])]
    return Recovery(
        step=statistics.median(before),
        next_step=max(ends[lost["step"] + 1] for ends in others) - lost["time"],
        trains_again=joiner["ends"][0][1] - lost["time"],
        program=joiner["ends"][0][1] - joiner["begun"],
    )


def run_ray(python: str) -> dict[str, float]:
    """One run of the rival: its seconds."""
    command = [python, str(HERE / "ray_train.py"), "--repeat", "1"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def shown(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def rows_of(found: dict[str, list[Recovery]], ray: list[dict[str, float]]) -> list[str]:
    lines = [
        "| node is | step before, ms | next step, s | trains again, s | of it, program, s |",
        "|---|---|---|---|---|",
    ]
    for failure, runs in found.items():
        cells = [f"{statistics.median(r.step for r in runs) * 1e3:.0f}"]
        for field in ("next_step", "trains_again", "program"):
            cells.append(shown([getattr(recovery, field) for recovery in runs]))
        lines.append(f"| {failure} | {' | '.join(cells)} |")
    if ray:
        step = statistics.median(run["step"] for run in ray) * 1e3
        seconds = shown([run["next_step"] for run in ray])
        lines.append(f"| killed, Ray Train | {step:.0f} | {seconds} | {seconds} | |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument(
        "--output", type=pathlib.Path, help="a page whose part of this benchmark is replaced"
    )
    parser.add_argument("--ray", metavar="PYTHON", help="a Python that has Ray Train")
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local-cluster[{NODES},1,1024]")
        .appName("lost_node")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, list[Recovery]] = {failure: [] for failure in FAILURES}
    ray = []
    try:
        for number in range(options.repeat):
            round_of = f"run {number + 1} of {options.repeat}"
            for failure, runs in found.items():
                runs.append(run(spark, failure))
                print(f"{round_of}, {failure}: {runs[-1]}", flush=True)
            if options.ray:
                ray.append(run_ray(options.ray))
                print(f"{round_of}, Ray Train: {ray[-1]}", flush=True)
    finally:
        spark.stop()
    report.publish(
        "lost_node.py",
        options.repeat,
        f"{NODES} nodes on the machine's cores, `nodes=({NODES - 1}, {NODES})`; medians with "
        f"minimum and maximum. A frozen node is lost after {ANSWER_TIMEOUT} s without an answer.",
        rows_of(found, ray),
        options.output,
        folder="recovery",
    )


if __name__ == "__main__":
    main()
