"""What a step of a node takes more while `tfos profile` looks at it, at its 100 looks a second.

    python bench/training/profile_cost.py [--repeat 8] [--seconds 10] [--output docs/operate.md]

One node trains; the driver alternates times without a profile and times with one, and each is
compared with the one before it:

- Keras: `fit` of a small convolutional network, most of whose step is native code.
- Python: a loop that never leaves the interpreter, so every look stops it. It is the worst case.

What the thread that looks takes of a core is measured by itself. It is the most by which it can hold
up code that needs Python's lock, and does not depend on what else the machine does, as the times of
steps do. Steps at the edges of a time don't count. Both times must have steps, and the profile must
succeed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)

#: At each end of a time, for the profile to begin and to end.
EDGE_SECONDS = 1.5
BATCH_SIZE = 64
#: Before the first time counts.
WARM_UP_STEPS = 50
WORKLOADS = ("Keras", "Python")


def work(ctx):
    """Runs in the node: leaves when each of its steps ended."""
    directory = pathlib.Path(ctx.args["directory"])
    ends = []

    def has_ended():
        ends.append(time.monotonic())
        if len(ends) == WARM_UP_STEPS:
            (directory / "begun").touch()
        return (directory / "end").exists()

    (directory / "pid").write_text(str(os.getpid()))
    (compute if ctx.args["workload"] == "Python" else fit)(has_ended)
    (directory / "ends.json").write_text(json.dumps(ends))


def compute(has_ended):
    total, ended = 0, False
    while not ended:
        for number in range(200_000):
            total += number * number % 7
        ended = has_ended()


def fit(has_ended):
    import numpy as np
    import tensorflow as tf

    import keras

    random = np.random.default_rng(1)
    x = random.random((BATCH_SIZE, 28, 28, 1)).astype(np.float32)
    y = random.integers(10, size=BATCH_SIZE)
    model = keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if has_ended():
                self.model.stop_training = True

    rows = tf.data.Dataset.from_tensors((x, y)).repeat()
    model.fit(rows, steps_per_epoch=100, epochs=1 << 30, callbacks=[Clock()], verbose=0)


def run(spark, workload, repeat, seconds):
    """For each pair of times, the seconds of a step without a profile and with one; and the share of
    a core that the thread took that looks."""
    import tfos
    from tfos.base import executable

    times, taken = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        arguments = {"directory": folder, "workload": workload}
        with tfos.run(
            spark, work, nodes=1, input_mode="tensorflow", args=arguments, progress=False
        ):
            while not (directory / "begun").exists():
                time.sleep(0.1)
            for _ in range(repeat):
                begin = time.monotonic()
                time.sleep(seconds)
                middle = time.monotonic()
                profile = subprocess.Popen(
                    [executable.path(), "profile", "worker:0", "--seconds", str(seconds)],
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                )
                taken += cpu_seconds_of_looking(int((directory / "pid").read_text()), profile)
                assert profile.returncode == 0
                times.append((begin, middle, time.monotonic()))
            (directory / "end").touch()
        ends = json.loads((directory / "ends.json").read_text())

    def step(begin, end):
        within = [at for at in ends if begin + EDGE_SECONDS < at < end - EDGE_SECONDS]
        return statistics.median(after - before for before, after in zip(within, within[1:]))

    steps = [(step(begin, middle), step(middle, end)) for begin, middle, end in times]
    return steps, taken / (repeat * seconds)


def cpu_seconds_of_looking(pid, profile):
    """What the node's threads took that looked, of which each second has one, until the profile has
    ended. Linux counts it in nanoseconds; the last look at a thread may miss 20 ms of its second."""
    seconds = {}
    while profile.poll() is None:
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            try:
                if (thread / "comm").read_text() == "tfos-profile\n":
                    spent = (thread / "schedstat").read_text().split()[0]
                    seconds[thread.name] = int(spent) / 1e9
            except OSError:  # It has ended.
                continue
        time.sleep(0.02)
    return sum(seconds.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10, help="of each time")
    parser.add_argument(
        "--output", type=pathlib.Path, help="a page whose part of this benchmark is replaced"
    )
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local-cluster[1,1,1024]")
        .appName("profile_cost")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    lines = [
        "| code | a step without a profile | with one | takes more | the thread that looks |",
        "|---|---|---|---|---|",
    ]
    try:
        for workload in WORKLOADS:
            pairs, share = run(spark, workload, options.repeat, options.seconds)
            more = [profiled / quiet - 1 for quiet, profiled in pairs]
            quiet, profiled = (statistics.median(steps) for steps in zip(*pairs))
            lines.append(
                f"| {workload} | {quiet * 1e3:.2f} ms | {profiled * 1e3:.2f} ms "
                f"| {statistics.median(more):.1%} ({min(more):.1%} to {max(more):.1%}) "
                f"| {share:.2%} of a core |"
            )
            print(lines[-1], flush=True)
    finally:
        spark.stop()
    report.publish(
        "profile_cost.py",
        options.repeat,
        f"One node, {options.repeat} pairs of {options.seconds} s; medians, and the least and "
        "most of the pairs.",
        lines,
        options.output,
        folder="training",
    )


if __name__ == "__main__":
    main()
