"""`tfos stop` of what Spark feeds beside trainings on a DataFrame."""

from __future__ import annotations

import getpass

import pytest

import tfos
from support.operating import stop_when
from support.programs import operate
from support.waiting import BOUND_SECONDS
from tfos.errors import ClusterStoppedError

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)

TWO_EXECUTORS = "local-cluster[2,2,1024]"
ROWS = 4000


def check_stopped(stopped, cluster, raised, capsys):
    assert stopped[0].returncode == 0, stopped[0].stderr
    assert f"cluster {cluster.cluster_id} has ended" in stopped[0].stdout
    assert str(raised.value).startswith(f"{getpass.getuser()}@")
    assert str(raised.value).endswith("has stopped the cluster with `tfos stop`")
    said = "".join(capsys.readouterr())
    assert " stopped | " in said and " failed | " not in said


def test_rows_that_are_inferred(spark_on, tmp_path, leftovers, capsys):
    spark = spark_on(TWO_EXECUTORS)
    args = {"dir": str(tmp_path)}
    with stop_when(tmp_path, "answers") as stopped, pytest.raises(ClusterStoppedError) as raised:
        with tfos.run(spark, operate.answer_the_first_rows, nodes=2, args=args) as cluster:
            results = cluster.inference(spark.range(ROWS, numPartitions=2), schema="id long")
            results.collect()
    check_stopped(stopped, cluster, raised, capsys)
    assert {node.state for node in cluster.status()} == {"done"}


@pytest.mark.filterwarnings("ignore:DStream is deprecated")
def test_a_stream(spark_on, tmp_path, leftovers, capsys):
    from pyspark.streaming import StreamingContext

    spark = spark_on(TWO_EXECUTORS)
    args = {"dir": str(tmp_path)}
    streaming = StreamingContext(spark.sparkContext, 1)
    batches = [spark.sparkContext.parallelize(range(40), 2) for _ in range(1000)]
    with stop_when(tmp_path, "reads") as stopped, pytest.raises(ClusterStoppedError) as raised:
        with tfos.run(spark, operate.read_rows_and_say_so, nodes=2, args=args) as cluster:
            cluster.train(streaming.queueStream(batches))
            streaming.start()
            cluster.shutdown(streaming)
    check_stopped(stopped, cluster, raised, capsys)
    assert {node.state for node in cluster.status()} == {"done"}
    assert all((tmp_path / f"saved-{n}").exists() for n in range(2))
    streaming.stop(stopSparkContext=False)
