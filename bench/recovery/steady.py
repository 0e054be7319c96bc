"""What training that survives costs while nothing fails: generations, and checkpoints.

    python bench/recovery/steady.py [--repeat 10] [--seconds 15] [--every 5] [--models small,large]
        [--output docs/performance.md]

Three clusters of two nodes train the same model, each a block of steps in turn, while the others
wait:

- plain: `nodes=2`. A lost node would end it.
- generations: `nodes=(2, 2)`. Each operation ends with a barrier, so that nodes can be lost.
- checkpoints: `nodes=2`, and `ctx.checkpoint` with a checkpoint every `--every` seconds.

A block counts from its first step's begin to its last step's end on the slower node. Of each round,
the other clusters' blocks are compared with the plain one's. What a checkpoint costs is the
difference, divided by the number of checkpoints in the block. At one a minute, its share is that of
60 s. It does not depend on `--every`, as long as one is written before the next is due. Before a time
counts, both nodes of each cluster must have ended with the same weights.

`small` is a convolutional network, and `large` has dense layers. Both train with Adam, whose state is
twice as large as the weights.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)

NODES = 2
BATCH = 64
BATCHES_OF_DATA = 20
#: Steps in a second, about, by model: so a block takes about as long as it is to.
SPEEDS = {"small": 60, "large": 3}
WAYS = {"plain": NODES, "generations": (NODES, NODES), "checkpoints": NODES}
#: Between two blocks: what a checkpoint still writes is not for the next cluster to pay.
PAUSE_SECONDS = 5
POLL_SECONDS = 0.01
#: A bound for a run that goes wrong.
LONGEST = 3600


def train(ctx):
    """Runs in every node: makes a block of steps each time when it is this cluster's turn."""
    import numpy as np
    import tensorflow as tf

    import keras

    directory = pathlib.Path(ctx.args["directory"])
    steps, blocks = ctx.args["steps"], ctx.args["blocks"]

    class Turns(keras.callbacks.Callback):
        begin = 0.0

        def on_train_batch_begin(self, batch, logs=None):
            if batch % steps == 0:
                while not (directory / f"turn-{batch // steps}").exists():
                    time.sleep(POLL_SECONDS)
                self.begin = time.monotonic()

        def on_train_batch_end(self, batch, logs=None):
            if (batch + 1) % steps == 0:
                block = directory / f"block-{batch // steps}-{ctx.rank}"
                part = block.with_suffix(".part")
                part.write_text(json.dumps([self.begin, time.monotonic()]))
                part.rename(block)

    random = np.random.default_rng(ctx.rank)
    x = random.random((BATCHES_OF_DATA * BATCH, 28, 28, 1)).astype(np.float32)
    y = random.integers(10, size=len(x))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(BATCH).take(steps * blocks)
    if ctx.args["model"] == "small":
        layers = [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
        ]
    else:
        layers = [keras.layers.Flatten()]
        layers += [keras.layers.Dense(size, activation="relu") for size in (4096, 4096, 1280)]
    model = keras.Sequential([keras.Input((28, 28, 1)), *layers, keras.layers.Dense(10)])
    model.compile(
        ctx.distribute(keras.optimizers.Adam(1e-4)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    # All in one epoch, as there is a checkpoint at the end of each. The last one needs a turn.
    callbacks = []
    if ctx.args["every"]:
        callbacks = [ctx.checkpoint(directory / "checkpoints", every_seconds=ctx.args["every"])]
    model.fit(dataset, verbose=0, callbacks=[*callbacks, Turns()])
    found = {
        "parameters": model.count_params(),
        "sums": [float(weight.astype(np.float64).sum()) for weight in model.get_weights()],
    }
    (directory / f"model-{ctx.rank}").write_text(json.dumps(found))


def seconds_of_block(directory, number):
    """Gives the cluster of ``directory`` its turn, and waits for the end of the block."""
    (directory / f"turn-{number}").touch()
    ends = [directory / f"block-{number}-{rank}" for rank in range(NODES)]
    deadline = time.monotonic() + LONGEST
    while not all(end.exists() for end in ends):
        if time.monotonic() > deadline:
            raise SystemExit(f"a block did not end within {LONGEST} s")
        time.sleep(POLL_SECONDS)
    begins, ends = zip(*(json.loads(end.read_text()) for end in ends), strict=True)
    return max(ends) - min(begins)


def run(spark, model, options):
    """({way: seconds of each block}, checkpoints in a block, parameters, steps of a block)."""
    import tfos

    steps = max(1, round(options.seconds * SPEEDS[model]))
    blocks = options.repeat + 1  # The first one does not count.
    found = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        clusters, directories = {}, {}
        for way, nodes in WAYS.items():
            directories[way] = pathlib.Path(name, way)
            directories[way].mkdir()
            arguments = {
                "directory": str(directories[way]),
                "model": model,
                "steps": steps,
                "blocks": blocks,
                "every": options.every if way == "checkpoints" else None,
            }
            clusters[way] = stack.enter_context(
                tfos.run(spark, train, nodes=nodes, input_mode="tensorflow", args=arguments)
            )
        for number in range(blocks):
            ways = list(WAYS) if number % 2 else list(reversed(WAYS))
            for way in ways:
                found[way].append(seconds_of_block(directories[way], number))
                time.sleep(PAUSE_SECONDS)
            now = ", ".join(f"{way} {found[way][-1]:.2f} s" for way in WAYS)
            print(f"{model}, round {number} of {options.repeat}: {now}", flush=True)
        for cluster in clusters.values():
            cluster.wait(timeout=LONGEST)
        written = max(
            node.metrics.get("checkpoints", 0) for node in clusters["checkpoints"].status()
        )
        for way in WAYS:
            models = [(directories[way] / f"model-{rank}").read_text() for rank in range(NODES)]
            assert len(set(models)) == 1, f"{way}: the weights differ"
        parameters = json.loads(models[0])["parameters"]
    # The last one is that of the epoch's end.
    return (
        {way: times[1:] for way, times in found.items()},
        (written - 1) / blocks,
        parameters,
        steps,
    )


def shown(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def rows_of(model, found, checkpoints, parameters, steps):
    """Lines of the table."""
    pairs = list(zip(found["plain"], found["generations"], found["checkpoints"], strict=True))
    step = statistics.median(found["plain"]) / steps * 1e3
    cost = [(with_them - plain) / checkpoints for plain, _, with_them in pairs]
    cells = [
        f"{model}, {parameters:,} parameters",
        f"{step:.1f}",
        shown([generations / plain for plain, generations, _ in pairs], ".3f"),
        f"{checkpoints:.1f}",
        shown([1e3 * each for each in cost], ".0f"),
        shown([each / 60 for each in cost], ".2%"),
    ]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=15, help="of a block, about")
    parser.add_argument("--every", type=float, default=5, help="seconds between checkpoints")
    parser.add_argument("--models", default=",".join(SPEEDS))
    parser.add_argument("--output", type=pathlib.Path, help="a page whose part is replaced")
    options = parser.parse_args()
    models = options.models.split(",")
    if unknown := set(models) - set(SPEEDS):
        parser.error(f"{', '.join(sorted(unknown))}: the models are {', '.join(SPEEDS)}")

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local-cluster[{NODES},{len(WAYS)},1024]")
        .appName("steady")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        rows = [rows_of(model, *run(spark, model, options)) for model in models]
    finally:
        spark.stop()
    report.publish(
        "steady.py",
        options.repeat,
        f"Two nodes, batches of {BATCH} on each, Adam; blocks of about {options.seconds:g} s, a "
        f"checkpoint every {options.every:g} s on the local disk. Medians with minimum and maximum.",
        [
            "| model | plain step, ms | step with generations, of plain | checkpoints in a block "
            "| cost of a checkpoint, ms | of the time, at one a minute |",
            "|---|---|---|---|---|---|",
            *rows,
        ],
        options.output,
        folder="recovery",
    )


if __name__ == "__main__":
    main()
