"""`tfos stop` of trainings whose nodes can't end one by one, and of what else Spark feeds."""

from __future__ import annotations

import functools
import getpass
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import tfos
from support import pages
from support.operating import start, stop_when, wait_for_files
from support.places import ROOT, SCRIPTS
from support.programs import operate
from support.waiting import BOUND_SECONDS, wait_for
from tfos.errors import BadInputError, ClusterStoppedError

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


@pytest.mark.parametrize("way", ["a thread", "a signal handler"])
def test_the_driver_program_stops_it(spark_on, tmp_path, leftovers, capsys, way):
    spark = spark_on(TWO_EXECUTORS)
    args = {"dir": str(tmp_path), "kind": "batches"}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(ClusterStoppedError, match=r"program .* with `cluster\.stop\(\)`"):
            with tfos.run(spark, operate.read_batches_slowly, nodes=2, args=args) as cluster:
                call = functools.partial(cluster.stop, timeout=BOUND_SECONDS)
                if way == "a signal handler":
                    signal.signal(signal.SIGTERM, lambda *_: cluster.stop(timeout=BOUND_SECONDS))
                    call = functools.partial(os.kill, os.getpid(), signal.SIGTERM)

                def stop():
                    try:
                        wait_for_files(tmp_path, "trains")
                    finally:
                        call()

                with ThreadPoolExecutor(1) as thread:
                    stopping = thread.submit(stop)
                    cluster.train(rows_of(spark), epochs=10**6)
        stopping.result()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert {node.state for node in cluster.status()} == {"done"}
    saved = [json.loads((tmp_path / f"saved-{n}").read_text()) for n in range(2)]
    assert [each["steps"] for each in saved] == [4, 3], "they end after the step at hand"
    ledger = cluster.ledger()
    assert all(count["left"] > 0 for count in ledger.nodes.values())
    assert ledger.complaint() is None
    assert " stopped | " in "".join(capsys.readouterr())
    cluster.stop()  # It has ended.


def test_the_driver_program_stops_what_reads_its_data_itself(spark_on, tmp_path, leftovers):
    spark = spark_on(TWO_EXECUTORS)
    with pytest.raises(ClusterStoppedError):
        with start(spark, operate.say_lines_and_wait, tmp_path) as cluster:
            wait_for_files(tmp_path, "said")
            with pytest.raises(BadInputError, match="at most 86400 seconds"):
                cluster.stop(timeout=86401)
            cluster.stop()
            cluster.wait()
    assert {node.state for node in cluster.status()} == {"stopped"}


@pytest.mark.long
@pytest.mark.spark  # The driver, a process of its own, starts it.
@pytest.mark.parametrize("handles", [True, False], ids=["a handler", "no handler"])
def test_a_scheduler_ends_the_driver(tmp_path, leftovers, handles):
    """What the page says of SIGTERM, with the handler that it shows and without one."""
    (block,) = [b for b in pages.blocks(ROOT / "docs/operate.md") if b.language == "python"]
    (tmp_path / "code.py").write_text(block.code)
    errors = tmp_path / "errors"
    with open(errors, "w") as file:
        driver = subprocess.Popen(
            [sys.executable, SCRIPTS / "stopped_driver.py", tmp_path]
            + [tmp_path / "code.py"] * handles,
            stderr=file,
        )
    try:
        # Spark starts first, and then the cluster.
        wait_for(lambda: len(list(tmp_path.glob("trains-*"))) == 2, "nodes", 2 * BOUND_SECONDS)
        driver.terminate()
        code = driver.wait(BOUND_SECONDS)
    finally:
        driver.kill()
        driver.wait()
    saved = [(tmp_path / f"saved-{n}").exists() for n in range(2)]
    assert (code, saved) == ((1, [True] * 2) if handles else (-signal.SIGTERM, [False] * 2))
    stopped = "the driver program has stopped the cluster with `cluster.stop()`"
    assert (stopped in errors.read_text()) == handles


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
