"""A client of Spark Connect for test_connect.py: URL DIRECTORY SCENARIO...

Runs the scenarios one after the other in one session. Each returns what the test is to look at, or
raises; both go to DIRECTORY/SCENARIO.json. Scenarios for tests that kill say on standard output how
far they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pickle
import signal
import socket
import sys
import threading
import traceback

import psutil
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tfos
from support import pages
from support.places import ROOT
from support.programs import ml as ml_programs
from support.programs import nodes as programs
from support.programs import training
from support.waiting import wait_for
from tfos import parallel, util
from tfos.errors import BadInputError, NodeFailedError
from tfos.spark import executor
from tfos.spark.connect import ConnectContext

ROWS = 2000
#: Seconds; a busy machine answers late.
LEASE = 15


def main(url, directory, *scenarios):
    spark = SparkSession.builder.remote(url).getOrCreate()
    for name in scenarios:
        own = pathlib.Path(directory, name)
        own.mkdir()
        try:
            said = {"result": globals()[name](spark, own)}
        except Exception as error:
            said = {"raised": type(error).__name__, "text": str(error)}
            traceback.print_exc()
        part = own.with_suffix(".part")
        part.write_text(json.dumps(said))
        part.rename(own.with_suffix(".json"))
    spark.stop()


def say(event, **what):
    print(event, json.dumps(what), flush=True)


def frame(spark, rows=ROWS, partitions=4):
    """A frame of more partitions than the executors have slots."""
    return spark.range(0, rows, 1, partitions).selectExpr("id", "cast(id as float) / 2 as half")


def fed_ids(directory):
    """The ids that each of two nodes has got."""
    return [
        [int(row.id) for row in pickle.loads((directory / f"rows-{node}").read_bytes())]
        for node in range(2)
    ]


def train(spark, directory):
    arguments = {"dir": str(directory), "batch": 100}
    with tfos.run(spark, programs.collect_rows, nodes=2, args=arguments) as cluster:
        states = [node.state for node in cluster.status()]
        cluster.train(frame(spark), epochs=2)
    fed = fed_ids(directory)
    return {
        "states": states,
        "ended": [node.state for node in cluster.status()],
        "ids": sorted(fed[0] + fed[1]),
        "each": [len(ids) for ids in fed],
        "complaint": cluster.ledger().complaint(),
        "read": cluster.ledger().read,
    }


def train_once_looked_at(spark, directory):
    """The test looks at the cluster's page, and then says so."""
    arguments = {"dir": str(directory), "batch": 100}
    with tfos.run(spark, programs.collect_rows, nodes=2, args=arguments) as cluster:
        say("page", url=cluster.page_url, cluster=cluster.cluster_id)
        sys.stdin.readline()
        cluster.train(frame(spark))
    return cluster.ledger().complaint()


def shuffled_with_validation(spark, directory):
    arguments = {"dir": str(directory), "batch": 100, "queues": ["input", "validation"]}
    arguments |= {"passes": 3, "remainder": "drop"}
    data = frame(spark).selectExpr("half as x", "id as y")
    with tfos.run(spark, training.read_passes, nodes=1, args=arguments) as cluster:
        cluster.train(data, epochs=3, shuffle=7, cache="memory", validation=data.where("y < 200"))
    return cluster.ledger().complaint()


def infer(spark, directory):
    with tfos.run(spark, programs.answer_halves, nodes=2, args={"batch": 50}) as cluster:
        keyed = frame(spark).selectExpr("*", "concat('k', id) as key")
        results = cluster.inference(keyed, schema="twice double", keys=["key"])
        return sorted([row.key, row.twice] for row in results.collect())


def fail(spark, directory):
    with tfos.run(spark, programs.fail_after_first_batch, nodes=2, args={"train": True}) as cluster:
        cluster.train(frame(spark))


def fail_after_all(spark, directory):
    with tfos.run(spark, programs.fail_after_the_feed, nodes=2) as cluster:
        cluster.train(frame(spark))


def stop_early(spark, directory):
    with tfos.run(spark, programs.take_one_batch_and_stop, nodes=2) as cluster:
        cluster.train(frame(spark, 200_000, 8), epochs=100)
    return [node.state for node in cluster.status()]


def wait_for_results(spark, directory):
    run = tfos.run(spark, programs.return_rank, nodes=2, input_mode="tensorflow")
    with run as cluster:
        return cluster.wait(120)


def too_many_nodes(spark, directory):
    tfos.run(spark, programs.return_at_once, nodes=3, registration_timeout=10)


def no_slot_for_the_coordinator(spark, directory):
    """While the tasks of another job fill all slots."""

    def hold(batches):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                (directory / f"held-{number}").touch()
            wait_for((directory / "release").exists, "the end of the test")
            yield batch

    holding = spark.range(0, 2, 1, 2).mapInArrow(hold, "id long")
    holder = threading.Thread(target=holding.collect)
    holder.start()
    try:
        wait_for(lambda: len(list(directory.glob("held-*"))) == 2, "tasks in both slots")
        try:
            tfos.run(spark, programs.return_at_once, nodes=1, registration_timeout=5)
        except NodeFailedError as error:
            failure = {"raised": type(error).__name__, "text": str(error)}
        else:
            raise AssertionError("the coordinator got a slot")
        # The slots are still taken, so its job ends only if it was cancelled.
        wait_for(lambda: not _threads_of_coordinators(), _threads_of_coordinators)
    finally:
        (directory / "release").touch()
        holder.join()
    return failure


def _threads_of_coordinators():
    """Those that wait for the jobs which start them."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("tfos-") and name.endswith("-coordinator")]


def interrupted(spark, directory):
    """Ctrl-C while tasks feed and fill all slots."""
    arguments = {"dir": str(directory)}
    try:
        with tfos.run(spark, programs.read_slowly_with_a_child, nodes=2, args=arguments) as cluster:
            threading.Thread(target=_interrupt_when_fed, args=(cluster,), daemon=True).start()
            cluster.train(frame(spark, 1_000_000, 4))
    except KeyboardInterrupt:
        return [node.state for node in cluster.status()]


def _interrupt_when_fed(cluster):
    wait_for(lambda: any(node.metrics.get("rows") for node in cluster.status()), "rows")
    os.kill(os.getpid(), signal.SIGINT)


def learn(spark, directory):
    points = spark.range(0, 400, 1, 4).selectExpr(
        "array((id * 37 % 100) / 100D, 1D) as x", "float(3 * (id * 37 % 100) / 100D) as y"
    )
    estimator = tfos.ml.Estimator(
        build=ml_programs.build_line,
        inputMapping={"x": "x"},
        labelCol="y",
        nodes=2,
        epochs=30,
        batchSize=10,
        modelDir=str(directory / "models"),
        outputMapping={"output_0": "prediction"},
    )
    model = estimator.fit(points)
    rows = model.transform(points).collect()
    saved = str(directory / "saved")
    model.save(saved)
    again = tfos.ml.Model.load(saved).transform(points).collect()
    estimator.save(str(directory / "estimator"))
    loaded = tfos.ml.Estimator.load(str(directory / "estimator"))
    return {
        "worst": max(abs(row.prediction - row.y) for row in rows),
        "same": [row.prediction for row in rows] == [row.prediction for row in again],
        "epochs": loaded.getEpochs(),
        "overwriting": _refusal(lambda: model.write().overwrite().save(saved)),
    }


def records(spark, directory):
    path = str(directory / "records")
    unknown = _failure(lambda: spark.read.format("tfrecord").load(path).collect())
    unwritten = _failure(lambda: frame(spark).write.format("tfrecord").mode("append").save(path))
    tfos.save_tfrecords(frame(spark), path)
    tfos.register_tfrecords(spark)
    back = spark.read.format("tfrecord").load(path)
    written = str(directory / "by-format")
    frame(spark, 10).write.format("tfrecord").mode("append").save(written)
    return {
        "ids": sorted(row.id for row in back.collect()),
        "columns": back.columns,
        "before_registering": [unknown, unwritten],
        "by_format": spark.read.format("tfrecord").load(written).count(),
    }


def refuse(spark, directory):
    """What each of these says."""
    data = frame(spark)
    with tfos.run(spark, programs.return_at_once, nodes=1) as cluster:
        calls = {
            "train a list": lambda: cluster.train([1, 2]),
            "infer a list": lambda: cluster.inference([1, 2]),
            "infer without schema": lambda: cluster.inference(data),
            "map column": lambda: cluster.train(data.selectExpr("map('a', id) as m")),
            "stream": lambda: cluster.shutdown(streaming_context=object()),
            "jar": lambda: _train_by_jvm(spark),
            "parallel": lambda: parallel.run(spark, print, instances=1),
            "executors": lambda: util.num_executors(spark),
            "on driver": lambda: tfos.run(
                spark,
                print,
                nodes=2,
                parameter_servers=1,
                driver_parameter_servers=True,
                input_mode="tensorflow",
            ),
        }
        jar = calls.pop("jar")
        said = {name: _refusal(call) for name, call in calls.items()}
        said["foreachBatch"] = _refusal_of_batches(spark, lambda df, _: cluster.train(df))
    return {**said, "jar": _refusal(jar)}


def _refusal_of_batches(spark, feed):
    """What is raised first where ``feed`` shall get the batches of a stream."""
    stream = spark.readStream.format("rate").load().writeStream
    try:
        stream.foreachBatch(feed).start().stop()
    except PySparkException as error:
        while error.__context__ is not None:
            error = error.__context__
        return str(error)
    return "was not refused"


def _train_by_jvm(spark):
    with tfos.run(spark, programs.return_at_once, nodes=1, feed_jvm="on") as cluster:
        cluster.train(frame(spark))


def _refusal(call):
    try:
        call()
    except BadInputError as error:
        return str(error)
    return "was not refused"


def resources_given(spark, directory):
    """Nodes with a profile of the program's own."""
    from pyspark.resource import (
        ExecutorResourceRequests,
        ResourceProfileBuilder,
        TaskResourceRequests,
    )

    builder = ResourceProfileBuilder().require(TaskResourceRequests().cpus(1).resource("gpu", 1))
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        executor = ExecutorResourceRequests().cores(1).memory("512m").resource("gpu", 1)
        builder = builder.require(executor)
    return _gpus_of_nodes(spark, directory, resources=builder.build)


def resources_refused(spark, directory):
    """A profile for whose tasks no executor says that it has GPUs."""
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    profile = ResourceProfileBuilder().require(TaskResourceRequests().resource("gpu", 9)).build
    return _refusal(lambda: _gpus_of_nodes(spark, directory, resources=profile))


def gpu_each(spark, directory):
    """Nodes with a GPU each, where Spark's other tasks share them."""
    return _gpus_of_nodes(spark, directory, gpu_count=1)


def hold_executors(spark, directory):
    """What runs beside an executor, with no task there for longer than Spark keeps idle ones."""
    held = []
    place = ConnectContext(spark).run_on_executor(executor.executor_id, None, held)
    _use_all_executors(spark, directory / "first")
    _wait_until_left(spark, {place})
    held.pop().unpersist()
    _wait_until_none_is_left(spark)
    arguments = {"dir": str(directory), "batch": 100}
    with tfos.run(spark, programs.collect_rows, nodes=2, args=arguments) as cluster:
        _use_all_executors(spark, directory / "second")
        places = {node.executor_id for node in cluster.status()}
        _wait_until_left(spark, places | {cluster._coordinator.executor_id})
        cluster.train(frame(spark))
    _wait_until_none_is_left(spark)
    return cluster.ledger().complaint()


#: How many Workers the test has for `hold_executors`, each with one executor of two slots.
EXECUTORS = 3


def _use_all_executors(spark, directory):
    """Runs so many tasks at the same time that Spark needs all Workers for them."""
    directory.mkdir()

    def arrive(batches):
        (directory / str(os.getppid())).touch()
        wait_for(lambda: len(list(directory.iterdir())) >= EXECUTORS, "tasks in all executors")
        yield from batches

    spark.range(0, 2 * EXECUTORS, 1, 2 * EXECUTORS).mapInArrow(arrive, "id long").collect()


def _wait_until_left(spark, ids):
    """Waits until the executors with `ids` are all that the server has."""
    wait_for(lambda: _executors(spark) == ids, lambda: f"{_executors(spark)} to be {ids}")


def _wait_until_none_is_left(spark):
    # Spark's server keeps the last plans of a session, and with them what they have kept.
    for number in range(300):
        _ = spark.range(number).schema
    _wait_until_left(spark, set())


def _executors(spark):
    application = spark.conf.get("spark.app.id")
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if application in words and "--executor-id" in words:
                found.add(words[words.index("--executor-id") + 1])
    return found


def _gpus_of_nodes(spark, directory, **options):
    with tfos.run(
        spark,
        programs.write_gpus,
        nodes=2,
        args=str(directory),
        input_mode="tensorflow",
        **options,
    ) as cluster:
        cluster.wait()
    return {
        "gpus": [json.loads(path.read_text())["gpus"] for path in directory.iterdir()],
        "executors": [node.executor_id for node in cluster.status()],
        "coordinator": cluster._coordinator.executor_id,
    }


def _failure(call):
    """What Spark raises."""
    try:
        call()
    except PySparkException as error:
        return str(error)
    return "did not fail"


def train_apart(spark, directory):
    """As `train`, from a host that reaches the server only."""
    arguments = {"dir": str(directory), "batch": 100}
    with tfos.run(spark, programs.collect_rows, nodes=2, args=arguments) as cluster:
        try:
            socket.create_connection(cluster.coordinator_address, timeout=5).close()
            reached = True
        except OSError:
            reached = False
        cluster.train(frame(spark))
    fed = fed_ids(directory)
    return {"reached": reached, "ids": sorted(fed[0] + fed[1])}


def follow_the_page(spark, directory):
    """Runs the program of docs/connect.md, on this server."""
    namespace = {"__name__": "__main__"}
    for block in pages.blocks(ROOT / "docs/connect.md"):
        if block.language == "python":
            code = block.code.replace("sc://spark-server:15002", sys.argv[1])
            assert code != block.code
            exec(compile(code, str(block), "exec", dont_inherit=True), namespace)
    return [node.state for node in namespace["cluster"].status()]


def feed_for_ever(spark, directory):
    """For kills: nodes that are fed, until something is killed."""
    arguments = {"dir": str(directory)}
    with tfos.run(
        spark, programs.read_slowly_with_a_child, nodes=2, args=arguments, connect_lease=LEASE
    ) as cluster:
        say("cluster", place=cluster._coordinator._channel.name)
        # More than the nodes' queues hold. With less, the feed ends while they read, and its progress
        # may never say that it feeds.
        cluster.train(frame(spark, 10_000_000, 4))


if __name__ == "__main__":
    main(*sys.argv[1:])
