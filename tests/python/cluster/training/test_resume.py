"""``tfos.run(..., resume=directory)``: the driver feeds the epochs that the checkpoint does not
have."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys

import pytest

import tfos
from support.operating import stop_when
from support.places import SCRIPTS
from support.programs import checkpoints as programs
from support.waiting import BOUND_SECONDS
from tfos.cluster.feed.position import Position
from tfos.cluster.resumption import Resumption, is_in_stream
from tfos.cluster.training import plan_training
from tfos.errors import BadInputError, ClusterStoppedError, NodeFailedError
from tfos.feed.plan import Replay
from tfos.keras.checkpoint.directory import CheckpointDirectory
from tfos.node.context import NodeContext

ROWS = 160
#: Of ``fit_and_note_rows``.
BATCH = 8


def noted(directory):
    """What the nodes of the last cluster have noted, which is the same."""
    first, second = (json.loads((directory / f"node-{rank}").read_text()) for rank in range(2))
    assert first == second
    return first


@pytest.mark.long
def test_epochs_that_are_done_are_not_fed_again(spark, leftovers, tmp_path, capfd):
    def run(epochs, done):
        """The epochs that Keras went through, the rows that were fed, and the steps in all.
        ``done``: the epochs that the ledger knows from clusters before."""
        args = {"epochs": epochs, "notes": str(tmp_path)}
        with tfos.run(
            spark,
            programs.fit_what_is_left,
            nodes=2,
            args=args,
            resume=tmp_path / "run",
            progress=True,
        ) as cluster:
            cluster.train(programs.rows_to_fit(spark), epochs=epochs)
        found, ledger = noted(tmp_path), cluster.ledger()
        assert ledger.epochs_before == done
        return found["epochs"], ledger.delivered, found["steps"]

    epochs, fed, steps = run(2, 0)
    assert (epochs, fed) == ([0, 1], 2 * ROWS)
    epochs, fed, more = run(3, 2)
    assert (epochs, fed) == ([2], ROWS)
    assert more > steps
    assert run(3, 3) == ([], 0, more)
    shown = capfd.readouterr().err
    assert f"resume | no epochs are done in file://{tmp_path}/run" in shown
    assert f"resume | 2 epochs are done in file://{tmp_path}/run" in shown
    assert "resume | these 3 epochs are done: nothing is fed" in shown


def start(spark, folder, epochs, **args):
    return tfos.run(
        spark,
        programs.fit_what_is_left,
        nodes=2,
        args={"epochs": epochs, "notes": str(folder), **args},
        resume=folder / "run",
    )


@pytest.mark.long
def test_a_call_that_has_fed_no_epoch_uses_none_up(spark, leftovers, tmp_path):
    rows = programs.rows_to_fit(spark)
    with start(spark, tmp_path, 1) as cluster:
        cluster.train(rows)
    with start(spark, tmp_path, 2) as cluster:
        with pytest.raises(BadInputError, match="decimals"):
            cluster.train(spark.sql("SELECT CAST(1 AS DECIMAL(3, 1)) AS x"), epochs=2)
        for of_stream in ("sql.streaming.queryId", "spark.streaming.internal.batchTime"):
            # As Spark sets it in the threads of foreachBatch and foreachRDD.
            spark.sparkContext.setLocalProperty(of_stream, "1")
            with pytest.raises(BadInputError, match="what comes of a stream has no epochs"):
                cluster.train(rows, epochs=2)
            spark.sparkContext.setLocalProperty(of_stream, None)
        cluster.train(rows, epochs=2)
    ledger = cluster.ledger()
    assert (ledger.delivered, ledger.epochs_before) == (ROWS, 1)


def test_what_a_stream_brings_has_no_epochs_to_pass_over(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n")
    found = []
    stream = spark.readStream.text(str(tmp_path / "in"))
    query = (
        stream.writeStream.foreachBatch(
            lambda frame, _: found.append(is_in_stream(spark.sparkContext))
        )
        .option("checkpointLocation", str(tmp_path / "query"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(BOUND_SECONDS)
    assert found == [True]
    assert not is_in_stream(spark.sparkContext)


@pytest.mark.timeout(3 * BOUND_SECONDS)
@pytest.mark.parametrize(
    "how", [pytest.param("rows break off", marks=pytest.mark.long), "tfos stop"]
)
def test_the_rest_of_an_epoch_that_was_cut_short_is_fed(spark, leftovers, tmp_path, how):
    rows = programs.rows_that_break_off(spark, tmp_path, fails=how != "tfos stop")
    if how == "tfos stop":
        with pytest.raises(ClusterStoppedError):
            with start(spark, tmp_path, 3) as cluster:
                cluster.train(programs.rows_to_fit(spark))
                with stop_when(tmp_path, "trains"):
                    cluster.train(rows)
    else:
        with start(spark, tmp_path, 3) as cluster:
            cluster.train(programs.rows_to_fit(spark))
            with pytest.raises(Exception, match="no more rows can be read"):
                cluster.train(rows)
    checkpoints = CheckpointDirectory(tmp_path / "run")
    saved = checkpoints.newest()
    assert saved.checkpoint.epoch == 1 and saved.checkpoint.step > 0
    trained = Position(*checkpoints.trained(saved)).rows
    assert trained > 0, "in the second one"
    with start(spark, tmp_path, 3) as cluster:
        cluster.train(programs.rows_to_fit(spark), epochs=3)
    assert noted(tmp_path)["epochs"] == [1, 2]
    nodes = cluster.ledger().nodes.values()
    assert sum(node["rows_read"] for node in nodes) == 2 * ROWS - trained
    assert cluster.ledger().complaint() is None
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (3, 0)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"fit": {"steps_per_epoch": 5}}, "this fit counts epochs of 5 steps"),
        pytest.param({"repeat": 2}, "this one has read to the end of 2", marks=pytest.mark.long),
        pytest.param({"repeat": None}, "this one has read to the end of 4", marks=pytest.mark.long),
    ],
)
def test_epochs_of_fit_must_be_those_that_are_fed(spark, leftovers, tmp_path, args, message):
    with pytest.raises(NodeFailedError, match=message):
        with start(spark, tmp_path, 4, **args) as cluster:
            cluster.train(programs.rows_to_fit(spark), epochs=4)
    assert tfos.last_checkpoint(tmp_path / "run") is None


@pytest.mark.long
def test_a_dataset_that_repeats_itself_may_read_one_epoch(spark, leftovers, tmp_path):
    with start(spark, tmp_path, 1, repeat=None) as cluster:
        cluster.train(programs.rows_to_fit(spark))
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (1, 0)


@pytest.mark.long
@pytest.mark.failure("driver killed", "training")
def test_the_next_driver_goes_on_after_a_kill(tmp_path):
    def drive(*arguments):
        return subprocess.run(
            [
                sys.executable,
                str(SCRIPTS / "resumed_driver.py"),
                str(tmp_path),
                "3",
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=2 * BOUND_SECONDS,
        )

    killed = drive("dies")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    resumed = drive()
    assert resumed.returncode == 0, resumed.stderr[-4000:]
    # Nodes may finish the epoch that they have the rows of, and keep it, before they hear of the end.
    epochs = noted(tmp_path)["epochs"]
    assert epochs in ([1, 2], [2])
    assert resumed.stdout.split() == [str(len(epochs) * ROWS)]
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (3, 0)


@pytest.mark.long
@pytest.mark.timeout(6 * BOUND_SECONDS)
@pytest.mark.failure("driver killed", "training")
@pytest.mark.parametrize(("kind", "remainder"), [("frame", ""), ("frame", "drop"), ("rdd", "join")])
def test_each_row_of_an_epoch_is_trained_on_once_though_drivers_die(tmp_path, kind, remainder):
    def drive(run, *after):
        return subprocess.run(
            [
                sys.executable,
                str(SCRIPTS / "resumed_within_epoch.py"),
                str(tmp_path),
                str(run),
                kind,
                remainder,
                *after,
            ],
            capture_output=True,
            text=True,
            timeout=2 * BOUND_SECONDS,
        )

    for run, after in enumerate(("4", "16")):
        killed = drive(run, after)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    resumed = drive(2)
    assert resumed.returncode == 0, resumed.stderr[-4000:]
    assert re.search("1 epoch and [0-9,]+ rows of the next one are done in", resumed.stderr)
    runs = [programs.noted_rows(tmp_path, run) for run in range(3)]
    steps = [{passed_over for passed_over, _ in nodes} for nodes in runs]
    assert [len(passed_over) for passed_over in steps] == [1, 1, 1], "the same on all nodes"
    [none], [first], [second] = steps
    assert none == 0 and first >= 4 and second >= max(first + 1, 16)
    trained = []
    # What was trained on after a checkpoint went with the driver.
    for nodes, made in zip(runs, (first, second - first, None), strict=True):
        for _, batches in nodes:
            trained += [row for batch in batches[:made] for row in batch]
    if remainder == "drop":  # The rest of an epoch is evened out as a whole one.
        assert len({len(batches) for _, batches in runs[-1]}) == 1
        assert len(set(trained)) == len(trained) > programs.NUMBERED - 2 * BATCH
    else:
        assert sorted(trained) == list(range(programs.NUMBERED))
    assert tfos.last_checkpoint(tmp_path / "run")[1:] == (3, 0)


def test_nodes_and_driver_must_find_the_same_checkpoint(spark, leftovers, tmp_path, monkeypatch):
    # As where each host has a directory of its own by that name.
    monkeypatch.setattr(Resumption, "of", lambda *_: Resumption(f"file://{tmp_path}/run", epochs=2))
    args = {"epochs": 3, "notes": str(tmp_path)}
    with pytest.raises(NodeFailedError, match="this node finds 0 epochs .* the driver found 2"):
        with tfos.run(
            spark, programs.fit_what_is_left, nodes=2, args=args, resume=tmp_path / "run"
        ) as cluster:
            cluster.train(programs.rows_to_fit(spark), epochs=3)


@pytest.mark.quick
def test_each_queue_passes_over_its_own_epochs():
    resumption = Resumption("file:///run", epochs=3)
    assert [resumption.pass_over("input", epochs) for epochs in (2, 2, 2)] == [2, 1, 0]
    assert resumption.pass_over("validation", 5) == 3
    assert Resumption("file:///run", epochs=None).pass_over("input", 2) == 0


def test_what_is_left_of_a_call(spark):
    sources = {"input": spark.range(3)}

    def plan(done, epochs, cache=None, **how):
        return plan_training(sources, epochs, 5, cache, resumption=Resumption("", done), **how)

    whole, left = plan_training(sources, 4, 5, None), plan(2, 4)
    assert (left.jobs, left.done) == (2, 2)
    # Each epoch has the order that it would have had.
    assert [left.seed_of_job(job) for job in range(2)] == [whole.seed_of_job(job) for job in (2, 3)]
    assert (plan(3, 3).jobs, plan(4, 3).jobs) == (0, 0)
    cached = plan(1, 4, "memory")
    assert (cached.jobs, cached.replay) == (1, Replay("memory", 2, 5))
    assert plan(3, 4, "memory").replay == Replay()
    assert plan(1, 4, "disk", may_lose_nodes=True).kept_by_spark == "disk"


def test_a_stream_has_no_epochs_to_pass_over():
    class Stream:
        def foreachRDD(self, feed): ...

    with pytest.raises(BadInputError, match="a DStream has no epochs"):
        plan_training({"input": Stream()}, 1, False, None, resumption=Resumption("", 0))


def test_checkpoints_that_cannot_be_read_start_nothing(spark, tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(BadInputError, match=r"resume: the checkpoints in file://.*/run can't be"):
        tfos.run(spark, print, nodes=2, resume=tmp_path / "run")


@pytest.mark.parametrize(
    ("resume", "directory", "message"),
    [
        (None, None, "needs a directory, or a cluster of"),
        ("file:///run", "/other", "given file:///other, and tfos.run.resume=.... file:///run"),
    ],
)
def test_a_node_needs_one_directory(resume, directory, message):
    node = {
        "default_fs": "file://",
        "working_dir": "/wd",
        "log_dir": None,
        "resume": resume and {"directory": resume, "epochs": 0},
    }
    bootstrap = {
        **dict.fromkeys(["node_id", "task_index", "num_workers", "port"], 0),
        **dict.fromkeys(["executor_id", "job_name", "host", "address"], ""),
        "cluster_spec": {},
        "gpus": [],
        "gpu_fraction": 0.0,
        "node": node,
    }
    ctx = NodeContext(bootstrap, None, None, None, None)
    with pytest.raises(BadInputError, match=message):
        ctx.checkpoint(directory)
