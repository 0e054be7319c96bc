#!/usr/bin/env python3
"""TensorFlow's ParameterServerStrategy: a chief that hands steps to workers, whose variables lie on
a parameter server.

    python examples/legacy/parameter_server_strategy.py [--steps N]

The chief coordinates: it schedules steps, and whichever worker is free takes the next one. Keras 3
does not know this strategy, so the step is written out.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from tensorflowonspark import TFCluster
from tfos.examples import spark_session

TRUTH = (3.0, -2.0)
BATCH_SIZE = 64


def train(args, ctx):
    """Runs in every node."""
    import tensorflow as tf

    from tfos import collective

    if ctx.job_name == "ps":
        _, server = ctx.start_cluster_server()
        server.join()  # Does not return; tfos ends this node once the others have finished.
    if ctx.job_name == "worker":
        ctx.start_cluster_server()
        collective.barrier("the end of training")  # Its server computes meanwhile.
        return

    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([len(TRUTH)]))
        done = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step():
        inputs = tf.random.uniform([BATCH_SIZE, len(TRUTH)])
        with tf.GradientTape() as tape:
            errors = tf.linalg.matvec(inputs, weights) - tf.linalg.matvec(
                inputs, tf.constant(TRUTH)
            )
            loss = tf.reduce_mean(tf.square(errors))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        done.assign_add(1)
        return loss

    losses = [coordinator.schedule(step) for _ in range(args.steps)]
    coordinator.join()
    ctx.report(step=int(done.numpy()), loss=float(losses[-1].fetch()))
    pathlib.Path(args.result).write_text(
        json.dumps(
            {"weights": [float(weight) for weight in weights.numpy()], "device": weights.device}
        )
    )
    collective.barrier("the end of training")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--steps", type=int, default=600, help="of both workers together")
    args = parser.parse_args()

    scratch = tempfile.mkdtemp(prefix="parameter-server-strategy-")
    args.result = str(pathlib.Path(scratch, "result.json"))
    spark = spark_session.session("parameter_server_strategy", args.master, cores=3)
    try:
        cluster = TFCluster.run(
            spark.sparkContext,
            train,
            args,
            num_executors=4,
            num_ps=1,
            driver_ps_nodes=True,
            master_node="chief",
            input_mode=TFCluster.InputMode.TENSORFLOW,
        )
        cluster.shutdown()
        result = json.loads(pathlib.Path(args.result).read_text())
    finally:
        spark.stop()
        shutil.rmtree(scratch)
    print(f"Weights on {result['device']}")
    print("Learned weights:", ", ".join(f"{weight:.3f}" for weight in result["weights"]))
    print("True weights:   ", ", ".join(f"{weight:.3f}" for weight in TRUTH))
    close = all(abs(a - b) < 0.05 for a, b in zip(result["weights"], TRUTH, strict=True))
    return 0 if close and "/job:ps/" in result["device"] else 1


if __name__ == "__main__":
    sys.exit(main())
