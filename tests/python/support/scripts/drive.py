"""A driver program for test_kill.py: says on its standard output how far it is.

    python drive.py DIRECTORY [PROGRAM ACTION]

Runs one program and ends as any driver would, with its error. Or, without one, those that the lines
of its standard input name, [program, action, directory] each, and says what they `raised`.
"""

import json
import os
import pathlib
import pickle
import signal
import sys
import threading
import traceback

os.environ["PYSPARK_PYTHON"] = sys.executable
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from pyspark import SparkConf, SparkContext

import tfos
from support.programs import nodes as programs
from support.waiting import wait_for


def say(event, **what):
    print(event, json.dumps(what), flush=True)


def context(master):
    conf = SparkConf().setMaster(master).setAppName("tfos-kill-test")
    conf.set("spark.ui.enabled", "false")
    conf.set("spark.tfos.slots.timeout", "300")  # the machine may be busy with other tests
    conf.set("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
    conf.set("spark.executorEnv.TFOS_TEST_DIRECTORY", sys.argv[1])
    return SparkContext(conf=conf)


def main():
    # A shell lets what it runs in the background ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sc = context("local-cluster[2,1,1024]")
    directory, *rest = sys.argv[1:]
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
    if action == "start":
        start(sc, program, directory)
        return
    arguments = {"dir": directory, "batch": 10}
    mode = "tensorflow" if action == "wait" else "spark"
    with tfos.run(sc, program, nodes=2, args=arguments, input_mode=mode) as cluster:
        say("cluster", id=cluster.cluster_id)
        if action == "load":
            say("load")
            cluster.train(sc.parallelize(range(10), 2))
        elif action == "feed":
            feed_until_killed(sc, cluster)
        elif action == "infer":
            infer_until_killed(sc, cluster)
        elif action == "cache":
            cluster.train(sc.parallelize(range(100), 2), epochs=10_000, cache="memory")
            say("cache")
            cluster.shutdown()
        elif action == "stop":
            feed_until_killed(sc, cluster, then=sc.stop)
        elif action == "wait":
            wait_until_killed(cluster)
        elif action == "shutdown":
            say("shutdown")
            cluster.shutdown()
        elif action == "count":
            count(sc, cluster, directory)


def in_background(function):
    """What it raises ends the driver, and so the test that waits for what it was to say."""

    def run_or_end():
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(70)

    threading.Thread(target=run_or_end, daemon=True).start()


def wait_until_killed(cluster):
    """Says `wait` once the programs are under way."""

    def say_when_running():
        wait_for(lambda: all(node.state == "running" for node in cluster.status()), "running nodes")
        say("wait")

    in_background(say_when_running)
    cluster.wait()


def feed_until_killed(sc, cluster, then=lambda: None):
    """Says `feed` once a node has rows and a feed task is in its middle, and calls ``then``."""

    def say_when_fed():
        wait_for(
            lambda: any(node.metrics.get("rows", 0) > 0 for node in cluster.status()),
            "a row in a node",
        )
        say("feed")
        then()

    in_background(say_when_fed)
    cluster.train(sc.parallelize(range(1_000_000), 4).map(lambda n: (n, b"x" * 1000)), epochs=10)


def infer_until_killed(sc, cluster):
    """Says `infer` once there are results. The tasks must fail, and then the cluster says why."""

    def say_when_answered():
        wait_for(
            lambda: any(node.metrics.get("result_rows", 0) > 0 for node in cluster.status()),
            "results of a node",
        )
        say("infer")

    in_background(say_when_answered)
    try:
        cluster.inference(sc.range(1_000_000, numSlices=4)).count()
    except Exception:
        traceback.print_exc()
    cluster.shutdown()
    raise AssertionError("inference went on, and so did the cluster")


def count(sc, cluster, directory):
    """A task whose worker says its pid in the middle of its partition and waits to be killed; the
    retried one goes through."""
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
    cluster.train(sc.parallelize(range(4000), 2).mapPartitionsWithIndex(rows))
    cluster.shutdown()
    seen = []
    for path in pathlib.Path(directory).glob("rows-*"):
        seen += pickle.loads(path.read_bytes())
    say("counted", rows=len(seen), distinct=len(set(seen)))


def start(sc, program, directory):
    """One executor slot is taken, so one of two nodes starts and waits for the other."""
    taken = pathlib.Path(directory, "taken")

    def occupy(_):
        taken.touch()
        signal.pause()

    threading.Thread(target=lambda: sc.parallelize([0], 1).foreach(occupy), daemon=True).start()
    wait_for(taken.exists, taken)
    say("launching")
    tfos.run(sc, program, nodes=2, args={"dir": directory}, registration_timeout=100)


if __name__ == "__main__":
    main()
