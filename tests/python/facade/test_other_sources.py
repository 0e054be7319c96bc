"""Data of other sources than RDDs and files of records: Hive's tables, TensorFlow 1's queues."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tensorflowonspark import TFCluster

pytestmark = pytest.mark.long

BOUND_SECONDS = 300

#: A metastore of its own takes a session of its own.
HIVE_PROGRAM = """
import sys

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster

spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    .config("spark.sql.warehouse.dir", f"{sys.argv[1]}/warehouse")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL",
            f"jdbc:derby:;databaseName={sys.argv[1]}/metastore;create=true")
    .enableHiveSupport().getOrCreate())
spark.sql("CREATE TABLE points (id BIGINT, x DOUBLE) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE")
spark.range(1000).selectExpr("id", "id / 2").repartition(4).write.insertInto("points")
described = {row.col_name: row.data_type for row in spark.sql("DESCRIBE EXTENDED points").collect()}
assert described["Provider"] == "hive", described


def double(args, ctx):
    feed = ctx.get_data_feed(False)
    while not feed.should_stop():
        feed.batch_results([(row[0], 2 * row[1]) for row in feed.next_batch(100)])


cluster = TFCluster.run(spark.sparkContext, double, [], 2, input_mode=TFCluster.InputMode.SPARK)
answers = cluster.inference(spark.table("points").rdd.map(tuple)).collect()
cluster.shutdown()
print(sorted(answers) == [(n, float(n)) for n in range(1000)])
"""


@pytest.mark.spark
def test_rows_of_a_hive_table_reach_the_nodes(tmp_path, leftovers):
    (tmp_path / "program.py").write_text(HIVE_PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py", str(tmp_path)],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=BOUND_SECONDS,
    )
    assert done.stdout.splitlines()[-1:] == ["True"], f"{done.stdout}\n{done.stderr[-6000:]}"


@pytest.mark.parametrize("where", ["local", "hdfs"])
def test_queue_runners_of_tensorflow_1_read_records(spark, request, tmp_path, where, leftovers):
    directory = (
        tmp_path.as_uri() if where == "local" else f"{request.getfixturevalue('hdfs').uri}/queues"
    )
    spark.range(100).selectExpr("id").repartition(3).write.format("tfrecord").mode(
        "overwrite"
    ).save(directory)
    answer = str(tmp_path / "answer")

    def read(args, ctx):
        import json

        import tensorflow as tf

        v1 = tf.compat.v1
        v1.disable_eager_execution()
        files = [f"{args}/{name}" for name in tf.io.gfile.listdir(args) if name.startswith("part-")]
        queue = v1.train.string_input_producer(files, num_epochs=2)
        _, record = v1.TFRecordReader().read(queue)
        number = v1.io.parse_single_example(record, {"id": v1.io.FixedLenFeature([], tf.int64)})[
            "id"
        ]
        batch = v1.train.shuffle_batch(
            [number],
            7,
            capacity=50,
            min_after_dequeue=20,
            num_threads=2,
            allow_smaller_final_batch=True,
        )
        found = []
        with v1.train.MonitoredTrainingSession() as session:
            while not session.should_stop():
                found.extend(session.run(batch).tolist())
        with open(answer, "w") as file:
            json.dump(sorted(found), file)

    cluster = TFCluster.run(spark.sparkContext, read, directory, 1)
    cluster.shutdown()
    with open(answer) as file:
        assert file.read() == str(sorted(2 * list(range(100))))
