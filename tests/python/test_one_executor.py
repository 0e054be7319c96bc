"""Several nodes on one executor. Apart from other tests: a process has one SparkContext at a time."""

import pathlib
import pickle

import programs

import tfos


def test_several_nodes_on_one_executor(spark_one_executor, tmp_path, leftovers):
    rdd = spark_one_executor.sparkContext.parallelize(range(3000), 6)
    arguments = {"dir": str(tmp_path), "batch": 7}
    with tfos.run(spark_one_executor, programs.collect_rows, nodes=3, args=arguments) as cluster:
        cluster.train(rdd)
    seen = {path.name: pickle.loads(path.read_bytes())
            for path in pathlib.Path(tmp_path).glob("rows-*")}
    assert sorted(sum(seen.values(), [])) == list(range(3000))
    assert set(seen) == {"rows-0", "rows-1", "rows-2"}
