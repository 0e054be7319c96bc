#!/usr/bin/env python3
"""Model parallelism with TensorFlow's own servers: one model, its layers on different nodes.

    python examples/legacy/model_parallel.py [--steps N] [--directory DIR]

The weights of a small network lie on a parameter server; its first layer is computed on one worker
and its second on another. One session drives it all, in the style of TensorFlow 1. At the end it
prints which node computed what. The weights are kept as a checkpoint.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from tensorflowonspark import TFCluster
from tfos.examples import digits, spark_session

HIDDEN = 64
BATCH_SIZE = 128
#: What is where: two variables, two operations.
PLACES = {
    "hidden": "/job:ps/replica:0/task:0",
    "scores": "/job:ps/replica:0/task:0",
    "hidden_layer": "/job:worker/replica:0/task:0",
    "score_layer": "/job:worker/replica:0/task:1",
}


def train(args, ctx):
    """Runs in every node."""
    import numpy as np
    import tensorflow as tf

    from tfos import collective

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    _, server = ctx.start_cluster_server()
    if ctx.job_name == "ps":
        server.join()  # Does not return; tfos ends this node once the workers have finished.
    if ctx.task_index == 1:
        collective.barrier("the end of training")  # Its server computes meanwhile.
        return

    pixels = tf1.placeholder(tf.float32, [None, args.pixels])
    labels = tf1.placeholder(tf.int64, [None])
    with tf1.device(PLACES["hidden"]):
        hidden_weights = tf1.get_variable("hidden", [args.pixels, HIDDEN])
    with tf1.device(PLACES["scores"]):
        score_weights = tf1.get_variable("scores", [HIDDEN, 10])
    with tf1.device(PLACES["hidden_layer"]):
        hidden = tf.nn.relu(tf.matmul(pixels, hidden_weights, name="hidden_layer"))
    with tf1.device(PLACES["score_layer"]):
        scores = tf.matmul(hidden, score_weights, name="score_layer")
        loss = tf1.losses.sparse_softmax_cross_entropy(labels, scores)
    step = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, colocate_gradients_with_ops=True)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, axis=1), labels), tf.float32))

    random = np.random.default_rng(1)
    train_pixels, train_labels = (np.array(column) for column in zip(*args.train, strict=True))
    test_pixels, test_labels = zip(*args.test, strict=True)
    with tf1.Session(server.target) as session:
        session.run(tf1.global_variables_initializer())
        for number in range(args.steps):
            batch = random.integers(len(train_labels), size=BATCH_SIZE)
            _, last_loss = session.run(
                [step, loss], {pixels: train_pixels[batch], labels: train_labels[batch]}
            )
            ctx.report(step=number + 1, loss=last_loss)
        traced = tf1.RunMetadata()
        accuracy = session.run(
            right,
            {pixels: test_pixels, labels: test_labels},
            tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE),
            traced,
        )
        tf1.gfile.MakeDirs(args.directory)
        # The parameter server writes its variables itself, into a directory that it reaches.
        tf1.train.Saver().save(session, args.checkpoint)
    collective.barrier("the end of training")
    computed = {
        node.node_name: device.device
        for device in traced.step_stats.dev_stats
        for node in device.node_stats
    }
    pathlib.Path(args.result).write_text(
        json.dumps(
            {
                "accuracy": float(accuracy),
                "places": {name: computed[name] for name in PLACES},
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--steps", type=int, default=1000)
    spark_session.add_directory_argument(parser)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-model-parallel-")
    args.checkpoint = f"{args.directory}/model"

    args.train, args.test = digits.load(args.mnist)
    args.pixels = len(args.train[0][0])
    scratch = tempfile.mkdtemp(prefix="model-parallel-")
    args.result = str(pathlib.Path(scratch, "result.json"))
    spark = spark_session.session("model_parallel", args.master)
    try:
        cluster = TFCluster.run(
            spark.sparkContext,
            train,
            args,
            num_executors=3,
            num_ps=1,
            driver_ps_nodes=True,
            input_mode=TFCluster.InputMode.TENSORFLOW,
        )
        cluster.shutdown()
        result = json.loads(pathlib.Path(args.result).read_text())
    finally:
        spark.stop()
        shutil.rmtree(scratch)
    for name, device in result["places"].items():
        print(f"{name:>12} on {device}")
    print(f"Accuracy: {result['accuracy']:.2%}. The checkpoint is {args.checkpoint}")
    as_placed = all(result["places"][name].startswith(node) for name, node in PLACES.items())
    return 0 if as_placed and result["accuracy"] > 0.85 else 1


if __name__ == "__main__":
    sys.exit(main())
