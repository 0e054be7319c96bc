#!/usr/bin/env python3
"""Training on a stream, a DStream or Structured Streaming with foreachBatch, and answering one.

    python examples/streaming.py [--source structured|dstream] [--steps N] [--directory DIR]

Two nodes learn y = 2 x + 1 from what arrives, until each has done its steps and asks for no more. What
they have learned is kept, and answers a streaming query, which needs no cluster.
"""

import argparse
import json
import math
import pathlib
import shutil
import sys
import tempfile
import threading

import tfos
import tfos.ml
from tfos.examples import spark_session

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
    for step in range(1, ctx.args["steps"] + 1):
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

    if ctx.is_chief:

        class Line(tf.Module):
            def __init__(self):
                super().__init__()
                self.slope, self.offset = slope, offset

            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
            def serve(self, x):
                return {"y": self.slope * x + self.offset}

        line = Line()
        tf.saved_model.save(line, ctx.args["model"], signatures={"serving_default": line.serve})


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
        f"value * {MIXER} % {ROWS_OF_A_MICRO_BATCH} / {ROWS_OF_A_MICRO_BATCH} AS x"
    )
    rows = xs.selectExpr("x", f"{SLOPE}D * x + {OFFSET}D AS y")
    query = rows.writeStream.foreachBatch(feed).start()
    while query.isActive and not enough.wait(SECONDS_BETWEEN_LOOKS):
        pass
    query.stop()
    if query.exception():
        raise query.exception()
    cluster.shutdown()


def answer(spark, model_dir, directory):
    """Answers what arrives as files in `directory`: [(x, y)]."""
    pathlib.Path(directory, "first.json").write_text(
        "".join(json.dumps({"x": x / 10}) + "\n" for x in range(10))
    )
    model = tfos.ml.Model(modelDir=model_dir, inputMapping={"x": "x"}, outputMapping={"y": "y"})
    answers = model.transform(spark.readStream.schema("x double").json(directory))
    found = []
    query = (
        answers.writeStream.trigger(availableNow=True)
        .foreachBatch(lambda micro_batch, number: found.extend(micro_batch.collect()))
        .start()
    )
    query.awaitTermination()
    return [(row.x, row.y) for row in found]


SOURCES = {"dstream": feed_dstream, "structured": feed_structured}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    spark_session.add_master_argument(parser)
    parser.add_argument("--source", choices=SOURCES, default="structured")
    parser.add_argument("--steps", type=int, default=60, help="of each node")
    spark_session.add_directory_argument(parser)
    options = parser.parse_args()

    scratch = pathlib.Path(tempfile.mkdtemp(prefix="streaming-"))
    arriving = scratch / "arriving"
    arriving.mkdir()
    directory = options.directory or tempfile.mkdtemp(prefix="tfos-streaming-")
    arguments = {"steps": options.steps, "model": f"{directory}/model"}
    spark = spark_session.session("streaming", options.master, NODES)
    try:
        with tfos.run(spark, train, nodes=NODES, args=arguments) as cluster:
            SOURCES[options.source](spark, cluster, options.steps)
        learned = [node.metrics for node in cluster.status()]
        answers = answer(spark, arguments["model"], str(arriving))
    finally:
        spark.stop()
        shutil.rmtree(scratch)
    for number, metrics in enumerate(learned):
        print(
            "node {}: y = {:.2f} x + {:.2f} after {:.0f} steps".format(
                number, metrics["slope"], metrics["offset"], metrics["step"]
            )
        )
    for x, y in answers[:3]:
        print(f"x = {x}: y = {y:.2f}")
    print(f"The model is {directory}/model")
    right = all(abs(m["slope"] - SLOPE) + abs(m["offset"] - OFFSET) < 0.3 for m in learned)
    answered = [abs(y - SLOPE * x - OFFSET) < 0.3 for x, y in answers]
    return 0 if right and answered and all(answered) else 1


if __name__ == "__main__":
    sys.exit(main())
