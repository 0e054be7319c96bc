"""How soon training goes on after a node is lost, and how soon the node trains again.

    python bench/recovery/lost_node.py [--repeat 10] [--failures killed,frozen,cut] [--ray PYTHON]
        [--output docs/performance.md]

Three nodes train a small model with `nodes=(2, 3)`. Between two steps, one of them is killed
(SIGKILL), is frozen (SIGSTOP), or cuts the cable of its host. It is started again by its launch task.
Times are of the machine's clocks, which all processes share:

- next step: from the failure to the end of the next step on the slower one of the others.
- trains again: from the failure to the end of the lost node's first step in its new process.
- of it, program: from the first line of the program in the new process. The rest is to end the old
  process and to start Python.

A second table says where that time goes. What a row lacks is not part of it:

- detect: from the failure to the event of the coordinator that the node is lost.
- start: until the program of the new process begins.
- program: until it has imported TensorFlow, has made its model, and asks to come in.
- regroup: until the group is formed, on the slower one of the others, or with the new process.
- state: until the new process has weights and optimizer.
- first step: until the next step has ended.
- from its slot: all from the start of the agent in the executor's slot.

Nodes read their own data here, so no feed has a part in it.

`cut` has the lost node on another host, a network namespace, so it needs root. The cable is whole again
as soon as the node is lost. The other two failures are on one host, without a network.

Before a time counts, all nodes must have ended with the same weights, and no step may be missing.

`--ray` names a Python that has Ray Train (ray_train.py says what it needs). It then has its turn in
each round: the time in its row is from the signal to the end of the next step on the slowest worker,
all of which Ray starts again.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OTHERS = [str(ROOT / "tools"), str(ROOT / "tests" / "python")]
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE), *OTHERS]

import report  # noqa: E402  (beside the feed's benchmarks)

report.make_ready(HERE)
os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], *OTHERS])

from spark_cluster import Host, SparkCluster  # noqa: E402
from support import namespaces  # noqa: E402

NODES = 3
#: Its rank; where a link is cut, it is the node of the other host.
VICTIM = 1
STEPS_OF_AN_EPOCH = 20
#: The victim has trained as many when it is lost.
STEPS_BEFORE = 50
#: A bound for a run that goes wrong.
EPOCHS = 2000
#: Seconds without an answer, or without a heartbeat, after which a node is lost.
ANSWER_TIMEOUT = 5
_POLL_SECONDS = 0.1

OURS = "10.213.100.1"
THEIRS = "10.213.100.2"

FAILURES = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP, "cut": None}
#: Where the time goes: of the others, and of the lost node.
PARTS = ("detect", "start", "program", "regroup", "state", "first step", "from its slot")


def fail(failure):
    """Befalls the process that calls it."""
    if FAILURES[failure] is None:
        namespaces.cut(Host(THEIRS))  # From the inside: it is this process' host.
    else:
        os.kill(os.getpid(), FAILURES[failure])


def begin_of_agent():
    """When the parent of this process was started, by the monotonic clock."""
    stat = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text()
    ticks = int(stat.rpartition(")")[2].split()[19])
    since_boot = ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)


def train(ctx):
    """Runs in every node: leaves when each of its steps ended."""
    begun = time.monotonic()
    directory = pathlib.Path(ctx.args["directory"])
    life = len(list(directory.glob(f"life-{ctx.rank}-*")))
    log = os.open(directory / f"life-{ctx.rank}-{life}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)  # It says when a group has formed.
    slot = begin_of_agent()
    cut_host = ctx.args["failure"] == "cut"
    is_victim = life == 0 and (ctx.address == THEIRS if cut_host else ctx.rank == VICTIM)

    import numpy as np
    import tensorflow as tf

    import keras
    from tfos import collective

    group = collective.group()
    moments = {}

    def timed(name):
        call = getattr(group, name)

        def calls():
            moments[f"{name} begins"] = time.monotonic()
            call()
            moments[name] = time.monotonic()

        setattr(group, name, calls)

    timed("come_in")
    timed("settle")
    ends = []

    class Clock(keras.callbacks.Callback):
        first = None
        complete = False

        def on_epoch_begin(self, epoch, logs=None):
            self.first = epoch if self.first is None else self.first
            # The epoch in which the node came again had begun without it on the others.
            again = epoch > self.first and any(directory.glob("life-*-1"))
            self.complete = again and collective.size() == NODES

        def on_train_batch_end(self, batch, logs=None):
            step = int(self.model.optimizer.iterations)
            ends.append((step, time.monotonic()))
            if is_victim and step == STEPS_BEFORE:
                wall = time.time() - time.monotonic()
                lost = {"rank": ctx.rank, "step": step, "wall": wall, "time": time.monotonic()}
                part = directory / "lost.part"
                part.write_text(json.dumps(lost))
                part.rename(directory / "lost.json")
                fail(ctx.args["failure"])

        def on_epoch_end(self, epoch, logs=None):
            # The same on all nodes.
            self.model.stop_training = self.complete

    random = np.random.default_rng(ctx.rank)
    x = random.random((STEPS_OF_AN_EPOCH * 64, 28, 28, 1)).astype(np.float32)
    y = random.integers(10, size=len(x))
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        ctx.distribute(keras.optimizers.SGD(0.01)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(dataset, epochs=EPOCHS, verbose=0, callbacks=[Clock()])
    found = {
        "begun": begun,
        "slot": slot,
        "moments": moments,
        "life": life,
        "ends": ends,
        "sums": [float(weight.astype(np.float64).sum()) for weight in model.get_weights()],
    }
    (directory / f"node-{ctx.rank}.json").write_text(json.dumps(found))


@dataclasses.dataclass(frozen=True)
class Recovery:
    """Seconds of one run; see the top of this file. ``others`` and ``node``: PARTS of both."""

    step: float
    next_step: float
    trains_again: float
    program: float
    others: dict[str, float]
    node: dict[str, float]


def time_of_loss(cluster, rank):
    """When the coordinator saw that the node was lost, in seconds of the system's clock. None: it has
    not."""
    node_id = next(node.node_id for node in cluster.status() if node.rank == rank)
    url = cluster.status_url.replace("/v1/status", "/v1/history")
    request = urllib.request.Request(url, headers=cluster.status_header)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as response:
        history = json.load(response)
    times = [
        (history["started_ms"] + event["time_ms"]) / 1e3
        for event in history["events"]
        if event["node_id"] == node_id and re.match(r"\S+ lost", event["text"])
    ]
    return times[0] if times else None


def time_of_group(log):
    """When the first group after that of the beginning had formed, by the log of a node that was in
    both, in seconds of the system's clock."""
    line = next(line for line in log.read_text().splitlines() if " goes on in generation " in line)
    return datetime.datetime.fromisoformat(line.split()[0]).timestamp()


def watch(cluster, directory, host):
    """What the victim has said, and when the coordinator saw that it was lost. Makes the cable of
    ``host``, if that was cut, whole again then."""
    from tfos.cluster.coordinator import FINAL_STATES

    while not (directory / "lost.json").exists():
        if all(node.state in FINAL_STATES for node in cluster.status()):
            raise SystemExit("the nodes have ended, and none was lost")
        time.sleep(_POLL_SECONDS)
    lost = json.loads((directory / "lost.json").read_text())
    with namespaces.cut_off(host) if host else contextlib.nullcontext():
        while (seen := time_of_loss(cluster, lost["rank"])) is None:
            time.sleep(_POLL_SECONDS)
    return lost, seen


def run(spark, failure: str, host: Host | None) -> Recovery:
    """One run, checked. ``host``: the other one, whose cable is cut."""
    import tfos

    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as pool:
        directory = pathlib.Path(name)
        with tfos.run(
            spark,
            train,
            nodes=(NODES - 1, NODES),
            input_mode="tensorflow",
            args={"directory": name, "failure": failure},
            node_answer_timeout=ANSWER_TIMEOUT,
            heartbeat_timeout=ANSWER_TIMEOUT,
        ) as cluster:
            watching = pool.submit(watch, cluster, directory, host)
            cluster.wait(timeout=300)
            lost, seen = watching.result()
        victim, seen = lost["rank"], seen - lost["wall"]
        nodes = [json.loads((directory / f"node-{n}.json").read_text()) for n in range(NODES)]
        formed = {
            rank: time_of_group(directory / f"life-{rank}-0") - lost["wall"]
            for rank in range(NODES)
            if rank != victim
        }
    assert all(node["sums"] == nodes[0]["sums"] for node in nodes), "the weights differ"
    joiner = nodes[victim]
    assert joiner["life"] == 1
    others = {rank: dict(nodes[rank]["ends"]) for rank in formed}
    for ends in others.values():
        assert sorted(ends) == list(range(1, max(ends) + 1)), "a step is missing"
    before = [
        ends[step] - ends[step - 1] for ends in others.values() for step in range(10, lost["step"])
    ]
    slower = max(others, key=lambda rank: others[rank][lost["step"] + 1])
    next_step, first_step = others[slower][lost["step"] + 1], joiner["ends"][0][1]
    moments = joiner["moments"]
    return Recovery(
        step=statistics.median(before),
        next_step=next_step - lost["time"],
        trains_again=first_step - lost["time"],
        program=first_step - joiner["begun"],
        others={
            "detect": seen - lost["time"],
            "regroup": formed[slower] - seen,
            "first step": next_step - formed[slower],
        },
        node={
            "detect": seen - lost["time"],
            "start": joiner["begun"] - seen,
            "program": moments["come_in begins"] - joiner["begun"],
            "regroup": moments["come_in"] - moments["come_in begins"],
            "state": moments["settle"] - moments["come_in"],
            "first step": first_step - moments["settle"],
            "from its slot": first_step - joiner["slot"],
        },
    )


def run_ray(python: str) -> dict[str, float]:
    """One run of the rival: its seconds."""
    command = [python, str(HERE / "ray_train.py"), "--repeat", "1"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def shown(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def rows_of(found: dict[str, list[Recovery]], ray: list[dict[str, float]]) -> list[str]:
    lines = [
        "| node is | step before, ms | next step, s | trains again, s | of it, program, s |",
        "|---|---|---|---|---|",
    ]
    for failure, runs in found.items():
        cells = [f"{statistics.median(r.step for r in runs) * 1e3:.0f}"]
        for field in ("next_step", "trains_again", "program"):
            cells.append(shown([getattr(recovery, field) for recovery in runs]))
        lines.append(f"| {failure} | {' | '.join(cells)} |")
    if ray:
        step = statistics.median(run["step"] for run in ray) * 1e3
        seconds = shown([run["next_step"] for run in ray])
        lines.append(f"| killed, Ray Train | {step:.0f} | {seconds} | {seconds} | |")
    return [*lines, "", *rows_of_parts(found)]


def rows_of_parts(found: dict[str, list[Recovery]]) -> list[str]:
    """Where the time goes."""
    lines = [f"| seconds of | {' | '.join(PARTS)} |", "|---" * (len(PARTS) + 1) + "|"]
    for failure, runs in found.items():
        for whose, parts in (
            ("the others", [recovery.others for recovery in runs]),
            ("the lost node", [recovery.node for recovery in runs]),
        ):
            cells = [
                shown([each[part] for each in parts]) if part in parts[0] else "" for part in PARTS
            ]
            lines.append(f"| {whose}, {failure} | {' | '.join(cells)} |")
    return lines


@contextlib.contextmanager
def session(master: str, **more: str):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("lost_node")
    for name, value in {"spark.ui.enabled": "false", **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def one_host():
    """Spark with its executors on this host, and no other host."""
    with session(f"local-cluster[{NODES},1,1024]") as spark:
        yield spark, None


@contextlib.contextmanager
def two_hosts():
    """Spark with two executors on this host and one on another, and that host."""
    with (
        tempfile.TemporaryDirectory() as directory,
        namespaces.joined_host(OURS, THEIRS) as other,
        SparkCluster(
            workers=NODES,
            cores=1,
            directory=directory,
            hosts=(Host(OURS), other),
        ) as cluster,
        session(
            cluster.url,
            **{
                "spark.driver.host": OURS,
                "spark.driver.bindAddress": OURS,
                "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
            },
        ) as spark,
    ):
        yield spark, other


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--failures", default=",".join(FAILURES), help="in turn; cut comes last")
    parser.add_argument(
        "--output", type=pathlib.Path, help="a page whose part of this benchmark is replaced"
    )
    parser.add_argument("--ray", metavar="PYTHON", help="a Python that has Ray Train")
    options = parser.parse_args()
    failures = options.failures.split(",")
    if unknown := set(failures) - set(FAILURES):
        parser.error(f"{', '.join(sorted(unknown))}: the failures are {', '.join(FAILURES)}")

    found: dict[str, list[Recovery]] = {failure: [] for failure in FAILURES if failure in failures}
    ray = []
    for place, cuts in ((one_host, False), (two_hosts, True)):
        of_place = [failure for failure in found if (failure == "cut") == cuts]
        if not of_place:
            continue
        with place() as (spark, host):
            for number in range(options.repeat):
                round_of = f"run {number + 1} of {options.repeat}"
                for failure in of_place:
                    found[failure].append(run(spark, failure, host))
                    print(f"{round_of}, {failure}: {found[failure][-1]}", flush=True)
                if options.ray and host is None:
                    ray.append(run_ray(options.ray))
                    print(f"{round_of}, Ray Train: {ray[-1]}", flush=True)
    report.publish(
        "lost_node.py",
        options.repeat,
        f"{NODES} nodes on the machine's cores, `nodes=({NODES - 1}, {NODES})`; medians with "
        f"minimum and maximum. A frozen node is lost after {ANSWER_TIMEOUT} s without an answer, and "
        f"one behind a cut link after {ANSWER_TIMEOUT} s without a heartbeat.",
        rows_of(found, ray),
        options.output,
        folder="recovery",
    )


if __name__ == "__main__":
    main()
