#!/usr/bin/env python3
"""Trains with handwritten digits that the nodes read themselves (TFRecords), and recognises others.

    spark-submit --py-files mnist_dist.py,mnist_files.py,mnist_spark.py mnist_tf.py
        --cluster_size 3 --format tfr --images mnist_data/train --mode train --model mnist_model

As mnist_spark.py, with InputMode.TENSORFLOW: Spark only starts the nodes. `--mode inference` has
every worker leave a file of lines `<label> <prediction>` in `--output`.
"""

import sys

import mnist_dist
import mnist_spark

from tensorflowonspark import TFCluster, TFNode


def map_fun(args, ctx):
    """Runs in every node."""
    import numpy as np
    import pyarrow as pa
    import tensorflow as tf

    from tfos import records

    schema = pa.schema(
        [
            ("image", pa.list_(pa.int64(), args.pixels)),
            ("label", pa.list_(pa.int64(), mnist_dist.CLASSES)),
        ]
    )

    def batches():
        """The batches of this worker's share of the files."""
        for _ in range(args.epochs if args.mode == "train" else 1):
            for file in ctx.node.files(args.images):
                rows = pa.Table.from_batches(records.read(file, schema), schema)
                for batch in rows.to_batches(max_chunksize=args.batch_size):
                    yield tuple(
                        np.array(batch.column(name).to_pylist()) for name in ("image", "label")
                    )

    lines = []

    def answer(labels, predictions):
        lines.extend(
            f"{label} {prediction}\n" for label, prediction in zip(labels, predictions, strict=True)
        )

    mnist_dist.run(args, ctx, batches, answer)
    if args.mode == "inference":
        output = TFNode.hdfs_path(ctx, args.output)
        tf.io.gfile.makedirs(output)
        with tf.io.gfile.GFile(f"{output}/part-{ctx.task_index:05d}", "w") as file:
            file.write("".join(lines))


if __name__ == "__main__":
    sys.exit(mnist_spark.main(map_fun, TFCluster.InputMode.TENSORFLOW))
