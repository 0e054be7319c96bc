#!/usr/bin/env python3
"""Asynchronous training in the style of TensorFlow 1: between-graph replication, with rows from Spark.

    python examples/legacy/between_graph.py [--epochs N] [--directory DIR]

A parameter server holds the weights; two workers compute each its own steps on the rows that Spark
feeds it, and update the weights whenever they are ready, without waiting for each other. Each node
is on an executor, so the cluster needs three. The weights are kept as a checkpoint, which the first
worker writes: the other one's last steps may be missing in it. A second run with the same DIR goes on
from there.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from tensorflowonspark import TFCluster
from tfos.examples import digits, spark_session

BATCH_SIZE = 32


def train(args, ctx):
    """Runs in every node: in the parameter server as well as in the workers."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    cluster, server = ctx.start_cluster_server()
    if ctx.job_name == "ps":
        server.join()  # Does not return; tfos ends this node once the workers have finished.

    worker = f"/job:worker/task:{ctx.task_index}"
    with tf1.device(tf1.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        global_step = tf1.train.get_or_create_global_step()
        pixels = tf1.placeholder(tf.float32, [None, args.pixels])
        labels = tf1.placeholder(tf.int64, [None])
        weights = tf1.get_variable("weights", [args.pixels, 10])
        bias = tf1.get_variable("bias", [10], initializer=tf1.zeros_initializer())
        scores = tf.matmul(pixels, weights) + bias
        loss = tf1.losses.sparse_softmax_cross_entropy(labels, scores)
        step = tf1.train.AdagradOptimizer(0.2).minimize(loss, global_step=global_step)
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, axis=1), labels), tf.float32))

    feed = ctx.get_data_feed()
    test_pixels, test_labels = zip(*args.test, strict=True)
    # A worker talks to the parameter server only: the other worker may have finished and be gone.
    config = tf1.ConfigProto(device_filters=["/job:ps", worker])
    with tf1.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=ctx.task_index == 0,
        checkpoint_dir=args.directory,
        config=config,
    ) as session:
        steps = 0
        while not feed.should_stop():
            rows = feed.next_batch(BATCH_SIZE)
            if rows:
                batch_pixels, batch_labels = zip(*rows, strict=True)
                _, last_loss = session.run(
                    [step, loss], {pixels: batch_pixels, labels: batch_labels}
                )
                steps += 1
                ctx.report(step=steps, loss=last_loss)
        accuracy, all_steps = session.run(
            [right, global_step], {pixels: test_pixels, labels: test_labels}
        )
    pathlib.Path(args.results, f"{ctx.task_index}.json").write_text(
        json.dumps({"accuracy": float(accuracy), "steps": steps, "steps_of_all": int(all_steps)})
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    digits.add_mnist_argument(parser)
    parser.add_argument("--epochs", type=int, default=5)
    spark_session.add_directory_argument(parser)
    args = parser.parse_args()
    args.directory = args.directory or tempfile.mkdtemp(prefix="tfos-between-graph-")

    rows, args.test = digits.load(args.mnist)
    args.pixels = len(rows[0][0])
    args.results = tempfile.mkdtemp(prefix="between-graph-")
    spark = spark_session.session("between_graph", args.master, cores=3)
    try:
        cluster = TFCluster.run(
            spark.sparkContext,
            train,
            args,
            num_executors=3,
            num_ps=1,
            input_mode=TFCluster.InputMode.SPARK,
        )
        cluster.train(spark.sparkContext.parallelize(rows, 6), args.epochs)
        cluster.shutdown()
        results = [
            json.loads(path.read_text()) for path in sorted(pathlib.Path(args.results).iterdir())
        ]
    finally:
        spark.stop()
        shutil.rmtree(args.results)
    for number, result in enumerate(results):
        print(
            f"Worker {number}: {result['steps']} steps, {result['steps_of_all']} of all when it ended, "
            f"accuracy {result['accuracy']:.2%}"
        )
    print(f"The checkpoint is in {args.directory}")
    return 0 if len(results) == 2 and max(result["accuracy"] for result in results) > 0.85 else 1


if __name__ == "__main__":
    sys.exit(main())
