"""RDDs that Spark holds pickled, which either feeder passes on unopened."""

from __future__ import annotations

from collections import Counter

from pyspark.serializers import BatchedSerializer, CPickleSerializer

import tfos
from support.programs import nodes as programs


def test_rdds_that_spark_holds_pickled(spark, tmp_path, feed_jvm, caplog):
    caplog.set_level("INFO", "tfos.cluster.feed")
    sc = spark.sparkContext
    text = sc.parallelize([(n, "x" * n) for n in range(1000)], 3)
    cached = sc.parallelize(range(500), 2).map(lambda n: {"n": n, "large": None}).cache()
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(
        spark, programs.collect_rows, nodes=2, args=arguments, feed_jvm=feed_jvm, feed_chunk=1 << 10
    ) as cluster:  # many chunks, each with a batch or two
        cluster.train(text, epochs=2)
        cluster.train(cached)
        by_jvm = "what Spark holds is fed by the executors' JVMs" in caplog.text
        assert by_jvm == (feed_jvm == "on")
        # Nobody has pickled this one yet.
        cluster.train(sc.parallelize(range(1, 11), 2).map(lambda n: -n))
    rows = programs.all_rows_of(tmp_path)
    assert sorted(row for row in rows if isinstance(row, int)) == list(range(-10, 0))
    assert sorted(row["n"] for row in rows if isinstance(row, dict)) == list(range(500))
    assert Counter(row for row in rows if isinstance(row, tuple)) == {
        (n, "x" * n): 2 for n in range(1000)
    }
    cached.unpersist()


def test_many_chunks_of_pickled_batches(spark, tmp_path, feed_jvm):
    rows = [(n, bytes(2_000)) for n in range(400)]
    batches = (
        spark.sparkContext.parallelize(rows, 1)
        ._reserialize(BatchedSerializer(CPickleSerializer(), 1))
        .cache()
    )
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(
        spark, programs.collect_rows, nodes=1, args=arguments, feed_jvm=feed_jvm, feed_chunk=1 << 10
    ) as cluster:
        cluster.train(batches)
    assert programs.all_rows_of(tmp_path) == rows
    batches.unpersist()
