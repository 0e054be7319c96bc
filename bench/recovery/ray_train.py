"""The rival of lost_node.py: Ray Train, which starts all workers again when one of them dies.

    python bench/recovery/ray_train.py --repeat 10

Runs in an environment of its own: `pip install 'ray[train]' tensorflow tf_keras`. The model, the
batches and the moment of the signal are those of lost_node.py. Keras 3 can't train across machines
by itself, so this is legacy Keras with MultiWorkerMirroredStrategy, Ray's documented way. It has a
checkpoint of the very step before the signal, which costs Ray nothing here.

Prints a line of JSON for each run: seconds from the signal to the end of the next step on the slowest
worker, and seconds of a step before.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import statistics
import tempfile
import time

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")

NODES = 3
VICTIM = 1
STEPS_OF_AN_EPOCH = 20
STEPS_BEFORE = 50
STEPS_AFTER = 10


def train(config):
    """Runs in every worker: leaves when each of its steps ended."""
    import numpy as np
    import ray.train
    import tensorflow as tf

    directory = pathlib.Path(config["directory"])
    rank = ray.train.get_context().get_world_rank()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    keras = tf.keras
    lost = directory / "lost.json"
    again = lost.exists()
    ends = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(time.monotonic())
            if again:
                self.model.stop_training = len(ends) >= STEPS_AFTER
                return
            if len(ends) == STEPS_BEFORE - 1:
                self.model.save_weights(str(directory / f"weights-{rank}"))
            if len(ends) == STEPS_BEFORE:
                name = f"before-{rank}.json"
                (directory / name).write_text(json.dumps(ends))
                if rank == VICTIM:
                    lost.write_text(json.dumps(time.monotonic()))
                    os.kill(os.getpid(), signal.SIGKILL)

    random = np.random.default_rng(rank)
    x = random.random((STEPS_OF_AN_EPOCH * 64, 28, 28, 1)).astype(np.float32)
    y = random.integers(10, size=len(x))

    def batches(_context):
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(64).repeat()

    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Conv2D(16, 3, activation="relu", input_shape=(28, 28, 1)),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(10),
            ]
        )
        model.compile(
            keras.optimizers.SGD(0.01),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    if again:
        model.load_weights(str(directory / f"weights-{rank}"))
    model.fit(
        strategy.distribute_datasets_from_function(batches),
        steps_per_epoch=10 * STEPS_BEFORE,
        epochs=1,
        verbose=0,
        callbacks=[Clock()],
    )
    (directory / f"after-{rank}.json").write_text(json.dumps(ends))
    ray.train.report({})


def run() -> dict[str, float]:
    """One run: its seconds."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer

    with tempfile.TemporaryDirectory() as name:
        TensorflowTrainer(
            train,
            train_loop_config={"directory": name},
            scaling_config=ScalingConfig(num_workers=NODES),
            run_config=RunConfig(
                storage_path=f"{name}/storage", failure_config=FailureConfig(max_failures=1)
            ),
        ).fit()
        directory = pathlib.Path(name)
        lost = json.loads((directory / "lost.json").read_text())
        after = [json.loads((directory / f"after-{n}.json").read_text()) for n in range(NODES)]
        before = json.loads((directory / f"before-{VICTIM}.json").read_text())
    return {
        "next_step": max(ends[0] for ends in after) - lost,
        "step": statistics.median(b - a for a, b in zip(before[10:], before[11:], strict=False)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()

    import ray

    ray.init(num_cpus=NODES, include_dashboard=False, log_to_driver=False)
    for _ in range(options.repeat):
        print(json.dumps(run()), flush=True)


if __name__ == "__main__":
    main()
