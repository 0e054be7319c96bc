#!/usr/bin/env python3
"""Training on a stream: a DStream, or Structured Streaming with foreachBatch.

    python examples/streaming.py [--source structured|dstream] [--steps N]

Two nodes learn y = 2 x + 1 from what arrives, until each has done its steps and asks for no more.
"""

import argparse
import math
import sys
import threading

import spark_session

import tfos

SLOPE, OFFSET = 2.0, 1.0
NODES = 2
BATCH_SIZE = 50
ROWS_OF_A_MICRO_BATCH = 400
MIXER = 617  # shares no factor with it: the rows come in a mixed order, as if shuffled
SECONDS_BETWEEN_LOOKS = 0.5


def train(ctx):
    """Runs in every node; a row is (x, y)."""
    import tensorflow as tf

    slope, offset = tf.Variable(0.0), tf.Variable(0.0)
    for step in range(1, ctx.args + 1):
        rows = ctx.feed.next_batch(BATCH_SIZE)
        if not rows:
            break
        x, y = (tf.constant(column, tf.float32) for column in zip(*rows, strict=True))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(slope * x + offset - y))
        by_slope, by_offset = tape.gradient(loss, (slope, offset))
        slope.assign_sub(0.5 * by_slope)
        offset.assign_sub(0.5 * by_offset)
        ctx.report(step=step, loss=loss, slope=slope.numpy(), offset=offset.numpy())
    ctx.feed.terminate()


def feed_dstream(spark, cluster, steps):
    """Feeds every RDD of a DStream until the nodes have had enough, which ends the stream."""
    from pyspark.streaming import StreamingContext

    sc = spark.sparkContext
    streaming = StreamingContext(sc, batchDuration=1)
    numbers = sc.parallelize(range(ROWS_OF_A_MICRO_BATCH), 2)
    xs = numbers.map(lambda n: n * MIXER % ROWS_OF_A_MICRO_BATCH / ROWS_OF_A_MICRO_BATCH)
    rows = xs.map(lambda x: (x, SLOPE * x + OFFSET))
    # Stands for what arrives: once the queue is empty, its default comes again and again.
    cluster.train(streaming.queueStream([rows], default=rows))
    streaming.start()
    cluster.shutdown(streaming)


def feed_structured(spark, cluster, steps):
    """Feeds the micro-batches of a streaming query that together are enough for all nodes."""
    enough = threading.Event()
    last = math.ceil(steps * BATCH_SIZE * NODES / ROWS_OF_A_MICRO_BATCH)

    def feed(micro_batch, number):
        cluster.train(micro_batch)
        if number == last:
            enough.set()

    arriving = spark.readStream.format("rate-micro-batch")
    values = arriving.option("rowsPerBatch", ROWS_OF_A_MICRO_BATCH).load()
    xs = values.selectExpr(
        f"value * {MIXER} % {ROWS_OF_A_MICRO_BATCH} / {ROWS_OF_A_MICRO_BATCH} AS x")
    rows = xs.selectExpr("x", f"{SLOPE}D * x + {OFFSET}D AS y")
    query = rows.writeStream.foreachBatch(feed).start()
    while query.isActive and not enough.wait(SECONDS_BETWEEN_LOOKS):
        pass
    query.stop()
    if query.exception():
        raise query.exception()
    cluster.shutdown()


SOURCES = {"dstream": feed_dstream, "structured": feed_structured}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--source", choices=SOURCES, default="structured")
    parser.add_argument("--steps", type=int, default=60, help="of each node")
    options = parser.parse_args()

    spark = spark_session.session("streaming", options.master, NODES)
    with tfos.run(spark, train, nodes=NODES, args=options.steps) as cluster:
        SOURCES[options.source](spark, cluster, options.steps)
    learned = [node["metrics"] for node in cluster.status()]
    spark.stop()
    for number, metrics in enumerate(learned):
        print("node {}: y = {:.2f} x + {:.2f} after {:.0f} steps".format(
            number, metrics["slope"], metrics["offset"], metrics["step"]))
    right = all(abs(m["slope"] - SLOPE) + abs(m["offset"] - OFFSET) < 0.3 for m in learned)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
