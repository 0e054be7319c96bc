#!/usr/bin/env python3
"""Asynchronous training with a parameter server, in the style of TensorFlow 1.

    python examples/parameter_server.py [--steps N]

A parameter server on the driver holds the weights of a linear model; two workers on the executors
read and update them whenever they are ready, without waiting for each other.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import spark_session

from tensorflowonspark import TFCluster

TRUTH = (3.0, -2.0)
BATCH_SIZE = 64


def train(args, ctx):
    """Runs in every node: in the parameter server as well as in the workers."""
    import numpy as np
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    cluster, server = ctx.start_cluster_server()
    if ctx.job_name == "ps":
        server.join()  # Does not return; tfos ends this node once the workers have finished.

    worker = f"/job:worker/task:{ctx.task_index}"
    with tf1.device(tf1.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        global_step = tf1.train.get_or_create_global_step()
        x = tf1.placeholder(tf.float32, [None, len(TRUTH)])
        y = tf1.placeholder(tf.float32, [None])
        weights = tf1.get_variable("weights", [len(TRUTH)])
        loss = tf1.reduce_mean(tf1.squared_difference(tf1.linalg.matvec(x, weights), y))
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=global_step)

    random = np.random.default_rng(ctx.task_index)
    # All sessions together stop at this many steps.
    stop = tf1.train.StopAtStepHook(last_step=args.steps)
    # A worker talks to the parameter server only: the other worker may have finished and be gone.
    config = tf1.ConfigProto(device_filters=["/job:ps", worker])
    with tf1.train.MonitoredTrainingSession(
        master=server.target, is_chief=ctx.task_index == 0, hooks=[stop], config=config
    ) as session:
        learned = None
        while not session.should_stop():
            inputs = random.random((BATCH_SIZE, len(TRUTH)))
            _, learned, last_loss, done = session.run(
                [step, weights, loss, global_step], {x: inputs, y: inputs @ np.array(TRUTH)}
            )
            ctx.report(step=int(done), loss=last_loss)
    if learned is not None and ctx.task_index == 0:
        pathlib.Path(args.result).write_text(json.dumps([float(weight) for weight in learned]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--steps", type=int, default=600, help="of both workers together")
    args = parser.parse_args()

    scratch = tempfile.mkdtemp(prefix="parameter-server-")
    args.result = str(pathlib.Path(scratch, "weights.json"))
    spark = spark_session.session("parameter_server", args.master)
    try:
        cluster = TFCluster.run(
            spark.sparkContext, train, args, num_executors=3, num_ps=1, driver_ps_nodes=True,
            input_mode=TFCluster.InputMode.TENSORFLOW,
        )
        cluster.shutdown()
        learned = json.loads(pathlib.Path(args.result).read_text())
    finally:
        spark.stop()
        shutil.rmtree(scratch)
    print("Learned weights:", ", ".join(f"{weight:.3f}" for weight in learned))
    print("True weights:   ", ", ".join(f"{weight:.3f}" for weight in TRUTH))
    return 0 if all(abs(a - b) < 0.2 for a, b in zip(learned, TRUTH, strict=True)) else 1


if __name__ == "__main__":
    sys.exit(main())
