"""What tests submit: two nodes fit a line, and the driver prints where everything ran.

submitted_program.py DIRECTORY: of which each node tells what is in it first.
submitted_program.py wait: the nodes stay until the application is killed.
"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

import tfos


def fit(ctx):
    """Runs in every node: y = w x by steps along the gradient."""
    weight, rows = 0.0, 0
    while not ctx.feed.should_stop():
        for x, y in ctx.feed.next_batch(10):
            weight += 0.1 * (y - weight * x) * x
            rows += 1
    found = names_in(ctx.args)[0]
    ctx.report(weight=weight, rows=rows, python=sys.executable, found=found)


def names_in(directory):
    """The names in a directory of a file system that only the cluster's configuration may tell."""
    from tfos.files.access import access_for

    access, path = access_for(directory)
    return [os.path.basename(status.path) for status in access.list(path)]


def stay(ctx):
    """Runs in every node until it is ended from outside."""
    while True:
        time.sleep(3600)


def main():
    spark = SparkSession.builder.getOrCreate()
    if sys.argv[1:] == ["wait"]:
        with tfos.run(spark, stay, nodes=2) as cluster:
            print(json.dumps({"nodes": len(cluster.status())}), flush=True)
    else:
        rows = spark.sparkContext.parallelize([(n / 100, 3 * n / 100) for n in range(100)], 2)
        with tfos.run(spark, fit, nodes=2, args=sys.argv[1]) as cluster:
            cluster.train(rows, epochs=20)
        print(
            json.dumps(
                {
                    "driver": sys.executable,
                    "container": os.environ.get("CONTAINER_ID"),
                    "nodes": [node.metrics for node in cluster.status()],
                }
            ),
            flush=True,
        )
    spark.stop()


if __name__ == "__main__":
    main()
