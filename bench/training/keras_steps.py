"""How long a training step of Keras takes on two nodes of this machine, in one run.

    python bench/training/keras_steps.py [--repeat 3] [--steps 40] [--output docs/performance.md]

- `ctx.distribute`: Keras 3, gradients averaged by tfos.
- MultiWorkerMirroredStrategy: legacy Keras, gradients averaged by TensorFlow.
- apart, and apart with legacy Keras: as many nodes at the same time, that do not know of each other.
  What the two above take more, each than its own Keras, is their communication.
- one node: Keras 3 alone on the machine, with the batch of one node.

Each node makes a step of a batch of its own. Runs alternate; of every run the median of its steps
counts, after some that are not counted. Before a time counts, the nodes that train together must
have the same weights, and a smaller loss than at first.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)

WARM_UP_STEPS = 8
NODES = 2
BATCH_SIZE = 64

#: A way to train: the one without communication that it is compared with; "": none.
MODES = {
    "ctx.distribute": "apart",
    "MultiWorkerMirroredStrategy": "apart, legacy Keras",
    "apart": "",
    "apart, legacy Keras": "",
    "one node": "",
}


def small_cnn(keras):
    return keras.Sequential(
        [
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def large_dense(keras):
    return keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(4096, activation="relu"),
            keras.layers.Dense(4096, activation="relu"),
            keras.layers.Dense(1280, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


MODELS = {"small CNN": small_cnn, "dense": large_dense}


def measure(ctx):
    """Runs in every node: leaves for each model its parameters, losses, seconds of each step."""
    mode = ctx.args["mode"]
    if mode in ("MultiWorkerMirroredStrategy", "apart, legacy Keras"):
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    import tensorflow as tf

    keras = tf.keras
    mirrored = mode == "MultiWorkerMirroredStrategy"
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if mirrored else None
    found = {}
    for name, make in MODELS.items():
        found[name] = measure_model(ctx, tf, np, keras, strategy, make)
    pathlib.Path(ctx.args["directory"], f"{ctx.node_id}.json").write_text(json.dumps(found))


def measure_model(ctx, tf, np, keras, strategy, make):
    import time

    random = np.random.default_rng(ctx.node_id)
    x = random.random((BATCH_SIZE, 28, 28, 1)).astype(np.float32)
    y = random.integers(10, size=BATCH_SIZE)

    def batches(_input_context=None):
        return tf.data.Dataset.from_tensors((x, y)).repeat()

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    ends, losses = [], []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(float(logs["loss"]))
            ends.append(time.perf_counter())

    if strategy is not None:
        with strategy.scope():
            model = make(keras)
            model.compile(keras.optimizers.SGD(0.01), loss)
        rows = strategy.distribute_datasets_from_function(batches)
    else:
        rows = batches()
        model = make(keras)
        optimizer = keras.optimizers.SGD(0.01)
        if ctx.args["mode"] == "ctx.distribute":
            optimizer = ctx.distribute(optimizer)
        model.compile(optimizer, loss)
    steps = WARM_UP_STEPS + ctx.args["steps"]
    model.fit(rows, steps_per_epoch=steps, callbacks=[Clock()], verbose=0)
    seconds = [after - before for before, after in zip(ends, ends[1:])]
    weights = model.get_weights()
    return {
        "seconds": seconds[WARM_UP_STEPS - 1 :],
        "losses": losses,
        "parameters": int(sum(weight.size for weight in weights)),
        "sums": [float(weight.astype(np.float64).sum()) for weight in weights],
    }


def run(spark, mode, steps):
    """What the nodes of one run found, checked."""
    import tfos

    nodes = 1 if mode == "one node" else NODES
    with tempfile.TemporaryDirectory() as directory:
        with tfos.run(
            spark,
            measure,
            nodes=nodes,
            input_mode="tensorflow",
            chief="chief",
            args={"mode": mode, "steps": steps, "directory": directory},
        ):
            pass
        found = [json.loads(path.read_text()) for path in sorted(pathlib.Path(directory).iterdir())]
    assert len(found) == nodes
    for name in MODELS:
        for node in found:
            # Keras' loss is the mean since the beginning, which falls as long as the model learns.
            assert node[name]["losses"][-1] < node[name]["losses"][0], (mode, name)
        if MODES[mode]:
            assert all(node[name]["sums"] == found[0][name]["sums"] for node in found), (mode, name)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--output", type=pathlib.Path, help="a page whose part of this benchmark is replaced"
    )
    options = parser.parse_args()

    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local-cluster[{NODES},1,1024]")
        .appName("keras_steps")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    medians = {mode: {name: [] for name in MODELS} for mode in MODES}
    parameters = {}
    try:
        for number in range(options.repeat):
            # Each way has each place once: a machine that grows busier is blamed on none.
            for mode in [*MODES][number % len(MODES) :] + [*MODES][: number % len(MODES)]:
                found = run(spark, mode, options.steps)
                for name in MODELS:
                    parameters[name] = found[0][name]["parameters"]
                    slowest = max(statistics.median(node[name]["seconds"]) for node in found)
                    medians[mode][name].append(slowest)
                shown = ", ".join(
                    f"{name} {medians[mode][name][-1] * 1e3:.1f} ms" for name in MODELS
                )
                print(f"run {number + 1} of {options.repeat}, {mode}: {shown}", flush=True)
    finally:
        spark.stop()

    lines = [
        "| model | step of | milliseconds | runs | of MultiWorkerMirroredStrategy's | communication |",
        "|---|---|---|---|---|---|",
    ]
    for name in MODELS:
        middle = {mode: statistics.median(medians[mode][name]) for mode in MODES}
        for mode, alone in MODES.items():
            runs = medians[mode][name]
            share = 1 - middle[alone] / middle[mode] if alone else None
            of_rival = middle[mode] / middle["MultiWorkerMirroredStrategy"]
            lines.append(
                f"| {name}, {parameters[name]:,} parameters | {mode} | {middle[mode] * 1e3:.1f} "
                f"| {min(runs) * 1e3:.1f} to {max(runs) * 1e3:.1f} "
                f"| {f'{of_rival:.2f}' if alone else ''} "
                f"| {'' if share is None else f'{share:.0%}'} |"
            )
    report.publish(
        "keras_steps.py",
        options.repeat,
        f"{NODES} nodes, batches of {BATCH_SIZE} images of 28x28 on each; medians of the "
        "slower node.",
        lines,
        options.output,
        folder="training",
    )


if __name__ == "__main__":
    main()
