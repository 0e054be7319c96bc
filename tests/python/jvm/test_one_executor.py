"""Several nodes on one executor.

In this folder because a process has one SparkContext at a time, and that of others has two executors.
"""

from __future__ import annotations

import pickle

import tfos
from support.programs import nodes as programs


def test_several_nodes_on_one_executor(spark, tmp_path, leftovers):
    rdd = spark.sparkContext.parallelize(range(3000), 6)
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark, programs.collect_rows, nodes=3, args=arguments) as cluster:
        cluster.train(rdd)
    seen = {path.name: pickle.loads(path.read_bytes()) for path in tmp_path.glob("rows-*")}
    assert sorted(sum(seen.values(), [])) == list(range(3000))
    assert set(seen) == {"rows-0", "rows-1", "rows-2"}
