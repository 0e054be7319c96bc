#!/usr/bin/env python3
"""Mixed precision, on GPUs or without: layers compute in 16 bits, weights stay in 32 bits.

    python examples/mixed_precision.py [--gpus N] [--policy NAME] [--directory DIR]

Where hosts have GPUs, each node gets one (`--gpus 0`: none) and the policy is mixed_float16, else it is
mixed_bfloat16. Numbers of float16 go only down to 6e-8, so losses are scaled before gradients are
computed. `ctx.distribute` adds that scaling by itself: when a gradient overflows on one node, all nodes
skip the step and halve the scale. All nodes need the same policy: name it if only some hosts have GPUs.
"""

import argparse
import os
import sys
import tempfile

import tfos
from tfos.examples import digits, spark_session

POLICIES = ("mixed_float16", "mixed_bfloat16", "float32")


def train(ctx):
    """Runs in every node."""
    import numpy as np
    import tensorflow as tf

    import keras

    args = ctx.args
    if args.gpus == 0:
        tf.config.set_visible_devices([], "GPU")
    gpus = tf.config.get_visible_devices("GPU")
    policy = args.policy or ("mixed_float16" if gpus else "mixed_bfloat16")
    # Before the first layer is made: each takes the policy of that moment.
    keras.mixed_precision.set_dtype_policy(policy)
    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((args.side * args.side,)),
            layers.Reshape((args.side, args.side, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu", name="hidden"),
            layers.Dense(10),
            # Probabilities and the loss are computed in 32 bits.
            layers.Activation("softmax", dtype="float32"),
        ]
    )
    optimizer = ctx.distribute(keras.optimizers.Adam(0.003))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])

    class Report(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            ctx.report(step=int(optimizer.iterations), **logs)

    model.fit(
        ctx.dataset(32, features="pixels", label="label"),
        epochs=args.epochs,
        callbacks=[ctx.average_metrics(), Report()],
        verbose=0,
    )
    hidden = model.get_layer("hidden")
    scale = getattr(optimizer, "dynamic_scale", None)  # Of a LossScaleOptimizer alone.
    pixels, labels = (np.array(column) for column in zip(*args.test, strict=True))
    ctx.report(
        policy=policy,
        device=tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else "CPU",
        computes=hidden.compute_dtype,
        weights=hidden.variable_dtype,
        loss_scale="none" if scale is None else f"{float(scale):g}",
        reached=model.evaluate(pixels, labels, verbose=0)[1],
    )
    if ctx.is_chief:
        tf.io.gfile.makedirs(args.directory)
        model.save(args.model)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument(
        "--gpus", type=int, help="for each node (default: one where a host has some); 0: none"
    )
    parser.add_argument("--policy", choices=POLICIES, help="default: by the device")
    parser.add_argument("--epochs", type=int, default=6)
    spark_session.add_directory_argument(parser)
    parser.add_argument("--min-accuracy", type=float, default=0.9)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-mixed-precision-")
    args.model = os.path.join(args.directory, "model.keras")
    known, args.test = digits.load(args.mnist)
    args.side = digits.side(known)

    wanted = {"gpu_count_if_any": 1} if args.gpus is None else {"gpu_count": args.gpus}
    with spark_session.session("mixed_precision", args.master) as spark:
        rows = spark.createDataFrame(known, "pixels array<float>, label int").repartition(4).cache()
        with tfos.run(spark, train, nodes=2, chief="chief", args=args, **wanted) as cluster:
            cluster.train(rows, epochs=args.epochs, shuffle=True)
        nodes = cluster.status()

    for node in nodes:
        print(
            "node {}: {policy} on {device}: computes in {computes}, keeps weights in {weights}, "
            "loss scale {loss_scale}".format(node.node_id, **node.metrics)
        )
    accuracy = min(node.metrics["reached"] for node in nodes)
    print(f"Accuracy: {accuracy:.2%} (at least {args.min_accuracy:.0%} is expected)")
    print(f"The model is {args.model}")
    same = len({node.metrics["policy"] for node in nodes}) == 1
    return 0 if same and accuracy >= args.min_accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
