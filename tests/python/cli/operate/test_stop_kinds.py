"""`tfos stop` of trainings whose nodes can't end one by one, and of what else Spark feeds."""

from __future__ import annotations

import getpass
import json
import threading

import pytest

import tfos
from support.operating import stop_when
from support.programs import operate
from support.waiting import BOUND_SECONDS
from tfos.errors import ClusterStoppedError

pytestmark = pytest.mark.timeout(3 * BOUND_SECONDS)

TWO_EXECUTORS = "local-cluster[2,2,1024]"
ROWS = 4000
BATCH = 8
#: That a node may have told the coordinator of by its fourth step: see `kBatchesAhead`.
MOST_STEPS = 3 + 16 + 1


def rows_of(spark):
    return spark.range(ROWS).selectExpr(f"array(id / {ROWS}) AS x", "id AS y").repartition(4)


def check_stopped(stopped, cluster, raised, capsys):
    assert stopped[0].returncode == 0, stopped[0].stderr
    assert f"cluster {cluster.cluster_id} has ended" in stopped[0].stdout
    assert str(raised.value).startswith(f"{getpass.getuser()}@")
    assert str(raised.value).endswith("has stopped the cluster with `tfos stop`")
    said = "".join(capsys.readouterr())
    assert " stopped | " in said and " failed | " not in said


@pytest.mark.parametrize(("remainder", "cache"), [("drop", None), ("pad", "memory")])
def test_nodes_in_step_end_after_what_was_granted(
    spark_on, tmp_path, leftovers, capsys, remainder, cache
):
    spark = spark_on(TWO_EXECUTORS)
    args = {"dir": str(tmp_path), "remainder": remainder}
    with stop_when(tmp_path, "trains") as stopped, pytest.raises(ClusterStoppedError) as raised:
        with tfos.run(spark, operate.read_batches_in_step, nodes=2, args=args) as cluster:
            cluster.train(rows_of(spark), epochs=1000, cache=cache)
    check_stopped(stopped, cluster, raised, capsys)
    assert {node.state for node in cluster.status()} == {"done"}
    first, second = [json.loads((tmp_path / f"saved-{n}").read_text()) for n in range(2)]
    assert first == second
    assert first["steps"] <= MOST_STEPS and first["passes"] == 2, "the second one is empty"
    ledger = cluster.ledger()
    for count in ledger.nodes.values():
        assert count["rows_read"] == BATCH * first["steps"]
        assert count["left"] > 0 and count["rows_dropped"] == 0
    assert ledger.complaint() is None


def test_before_the_first_rows(spark_on, tmp_path, leftovers, capsys):
    spark = spark_on(TWO_EXECUTORS)
    rows = spark.sparkContext.parallelize(range(2), 2).filter(lambda _: threading.Event().wait())
    args = {"dir": str(tmp_path)}
    with stop_when(tmp_path, "waits") as stopped, pytest.raises(ClusterStoppedError) as raised:
        with tfos.run(spark, operate.ask_for_the_first_rows, nodes=2, args=args) as cluster:
            cluster.train(rows)
    check_stopped(stopped, cluster, raised, capsys)
    assert {node.state for node in cluster.status()} == {"done"}


@pytest.mark.long
@pytest.mark.failure("node killed", "shutdown")
def test_a_node_is_lost_and_another_comes_in_its_place(spark_on, tmp_path, leftovers, capsys):
    spark = spark_on(TWO_EXECUTORS)
    args = {"dir": str(tmp_path)}
    with stop_when(tmp_path, "lost", nodes=1) as stopped:
        with pytest.raises(ClusterStoppedError) as raised:
            with tfos.run(spark, operate.fit_and_lose_a_node, nodes=(1, 2), args=args) as cluster:
                cluster.train(rows_of(spark), epochs=10**6)
    check_stopped(stopped, cluster, raised, capsys)
    # Whether the other one had come by then, and was let in, is a matter of time.
    states = [node.state for node in cluster.status()]
    assert states[0] == "done" and states[1] in {"done", "lost", "stopped"}
    saved = [json.loads(path.read_text()) for path in tmp_path.glob("saved-*")]
    assert len(saved) == states.count("done")
    assert all(each == saved[0] for each in saved)


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
