"""A driver program for support/driver_process.py: says on its standard output how far it is.

    python drive.py DIRECTORY [PROGRAM ACTION]

Started by `tfos submit`, it runs on the cluster that is named there, else on a local-cluster. Runs one program and ends as any driver would, with its error. Or, without one, those that the lines
of its standard input name, [program, action, directory] each, and says what they `raised`.
"""

import collections
import json
import os
import pathlib
import signal
import sys
import threading
import traceback

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import tfos
from support.programs import nodes as programs
from support.waiting import wait_for

PAYLOAD = b"x" * 1000

#: Those actions for which Spark has the jar, so that the executors' JVMs feed.
FED_BY_JVM = ("feed a frame", "feed pickled rows")


def say(event, **what):
    print(event, json.dumps(what), flush=True)


def context(master, with_jar):
    conf = SparkConf().setAppName("tfos-kill-test")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # of the JVM of spark-submit, which has a master
        conf.setMaster(master)
    conf.set("spark.ui.enabled", "false")
    if with_jar:
        conf.set("spark.jars", tfos.jar_path())
    conf.set("spark.tfos.slots.timeout", "300")  # the machine may be busy with other tests
    conf.set("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
    conf.set("spark.executorEnv.TFOS_TEST_DIRECTORY", sys.argv[1])
    return SparkContext(conf=conf)


def main():
    directory, *rest = sys.argv[1:]
    sc = context("local-cluster[2,1,1024]", with_jar=any(word in FED_BY_JVM for word in rest))
    if rest:
        run(sc, *rest, directory)
        return
    for line in sys.stdin:
        try:
            run(sc, *json.loads(line))
            raised = ""
        except Exception:
            raised = traceback.format_exc()
        sc.cancelAllJobs()
        say("raised", text=raised)


def run(sc, name, action, directory):
    program = getattr(programs, name)
    if isinstance(program, type):
        program = program(directory)
    action, _, end = action.partition(" and ")

    def stop_once_told():
        sys.stdin.readline()
        sc.stop()

    then = stop_once_told if end == "stop" else lambda: None
    if action == "start":
        start(sc, program, directory, then)
        return
    if action == "lose":
        lose_one_of_two(sc, program)
        return
    options = {"args": {"dir": directory, "batch": 10}, "nodes": 2}
    if action in ("wait", "train", "push"):
        options["input_mode"] = "tensorflow"
    if action == "push":
        options["parameter_servers"] = 1
        options["late_nodes"] = False  # A lost server ends the cluster, too.
    if action in FED_BY_JVM:
        options["feed_jvm"] = "on"
    with tfos.run(sc, program, **options) as cluster:
        servers = options.get("parameter_servers", 0)
        say("cluster", id=cluster.cluster_id, programs=options["nodes"] - servers)
        if action == "load":
            say("load")
            cluster.train(sc.parallelize(range(10), 2))
        elif action == "feed":
            rows = sc.parallelize(range(1_000_000), 4).map(lambda n: (n, PAYLOAD))
            feed_until_killed(cluster, rows, 10, then)
        elif action == "feed a frame":
            rows = SparkSession(sc).range(1_000_000, numPartitions=4)
            rows = rows.selectExpr("id", f"repeat('x', {len(PAYLOAD)}) AS payload")
            feed_until_killed(cluster, rows, 10, then)
        elif action == "feed pickled rows":
            rows = sc.parallelize([(n, PAYLOAD + b"%d" % n) for n in range(10_000)], 4)
            feed_until_killed(cluster, rows, 1000, then)
        elif action == "infer":
            infer_until_killed(sc, cluster, then)
        elif action == "cache":
            cluster.train(sc.parallelize(range(100), 2), epochs=10_000, cache="memory")
            say("cache")
            in_background(then)
            cluster.shutdown()
        elif action == "wait":
            wait_until_killed(cluster, action, lambda node: node.state == "running", then)
        elif action in ("train", "push"):
            wait_until_killed(cluster, action, lambda node: node.metrics.get("step", 0) > 0, then)
        elif action == "shutdown":
            say("shutdown")
            in_background(then)
            cluster.shutdown()
        elif action == "count":
            count(sc, cluster, directory)
        elif action == "count cached":
            count(sc, cluster, directory, epochs=2, cache="memory")


def in_background(function):
    """What it raises ends the driver, and so the test that waits for what it was to say."""

    def run_or_end():
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(70)

    threading.Thread(target=run_or_end, daemon=True).start()


def wait_until_killed(cluster, action, is_under_way, then):
    """Says the action's name once all programs are under way, and calls ``then``."""

    def say_when_under_way():
        def are():
            return all(is_under_way(node) for node in cluster.status() if node.job_name != "ps")

        wait_for(are, f"all programs to {action}")
        say(action)
        then()

    in_background(say_when_under_way)
    cluster.wait()


def feed_until_killed(cluster, rows, epochs, then):
    """Says `feed` once a node has rows and a feed task is in its middle, and calls ``then``."""

    def say_when_fed():
        wait_for(
            lambda: any(node.metrics.get("rows", 0) > 0 for node in cluster.status()),
            "a row in a node",
        )
        say("feed")
        then()

    in_background(say_when_fed)
    cluster.train(rows, epochs=epochs)


def infer_until_killed(sc, cluster, then):
    """Says `infer` once there are results, and calls ``then``. The tasks must fail, and the error
    says why."""

    def say_when_answered():
        wait_for(
            lambda: any(node.metrics.get("result_rows", 0) > 0 for node in cluster.status()),
            "results of a node",
        )
        say("infer")
        then()

    in_background(say_when_answered)
    cluster.inference(sc.range(1_000_000, numSlices=4)).count()
    raise AssertionError("inference went on, and so did the cluster")


def count(sc, cluster, directory, **options):
    """A task whose worker says its pid in the middle of its partition and waits to be killed; the
    retried one goes through. Then says how many rows the nodes were given, and how often each."""
    marker = os.path.join(directory, "worker")

    def rows(index, numbers):
        for position, n in enumerate(numbers):
            yield n
            if index == 1 and position == 1500 and not os.path.exists(marker):
                with open(marker + ".part", "w") as file:
                    file.write(str(os.getpid()))
                os.rename(marker + ".part", marker)
                signal.pause()

    def say_worker():
        wait_for(lambda: os.path.exists(marker), marker)
        say("worker", pid=int(pathlib.Path(marker).read_text()))

    in_background(say_worker)
    cluster.train(sc.parallelize(range(4000), 2).mapPartitionsWithIndex(rows), **options)
    cluster.shutdown()
    seen = collections.Counter(programs.all_rows_of(directory))
    say("counted", rows=len(seen), times=sorted(set(seen.values())))


def lose_one_of_two(sc, program):
    """Says `lose` once two nodes train together, `alone` once one goes on without the other, and
    `ended` with what they returned."""

    def say_how_many():
        def make_steps(count):
            return [node.metrics.get("size") for node in cluster.status()].count(count) >= count

        wait_for(lambda: make_steps(2), "both nodes to train")
        say("lose")
        wait_for(lambda: make_steps(1), "one to go on alone")
        say("alone")

    with tfos.run(sc, program, nodes=(1, 2), input_mode="tensorflow") as cluster:
        in_background(say_how_many)
        results = cluster.wait()
    say("ended", results=results)


def start(sc, program, directory, then):
    """One executor slot is taken, so one of two nodes starts and waits for the other. Calls ``then``
    meanwhile."""
    taken = pathlib.Path(directory, "taken")

    def occupy(_):
        taken.touch()
        signal.pause()

    threading.Thread(target=lambda: sc.parallelize([0], 1).foreach(occupy), daemon=True).start()
    wait_for(taken.exists, taken)
    say("launching")
    in_background(then)
    tfos.run(sc, program, nodes=2, args={"dir": directory}, registration_timeout=100)


if __name__ == "__main__":
    main()
