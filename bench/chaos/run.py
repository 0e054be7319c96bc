"""Runs work of all kinds on a real Spark cluster while processes fail, and checks every promise.

    python bench/chaos/run.py [--seconds 900] [--seed 1] [--kinds fed,reading,inference]
        [--failures processes,network,resources,spark]

A standalone Master, three Workers on two hosts and one driver run case after case. There is training in step with rows of
Spark (fed) and with rows that nodes read themselves (reading), with parameter servers
(asynchronous), inference, training from the cache (cached), and from a stream (streaming). Seed and
kind choose the rows and what fails. Nodes, agents, executors, Python workers or the coordinator are killed, or stand still.
The network between the hosts is cut, or loses what goes one way. The disk of the executors is full,
or a process gets no more descriptors or memory. Spark itself kills executors or tasks. The other host is a network namespace, and the disk is
a tmpfs, so it needs root.

After each case: did it end as promised, that is, finish, or fail with an error of tfos that names
what had failed? Were the right rows read, by their ids and by the ledger? Is a process or a socket
of it left? A case that has not ended after `--bound` seconds is a fault, and ends the run with the
stacks of all threads. At the end: have driver, Master, Workers, or executors that nothing killed,
grown in memory, descriptors, memfds or threads?

A case that failed runs again with the command that is printed; when the failure comes is counted in
rows, so it comes about where it came before. Exits with 1 after a fault. Nothing else of tfos may
run on the machine.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tools"), str(ROOT / "tests" / "python")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["PYSPARK_PYTHON"] = sys.executable

import cases  # noqa: E402
import nemesis  # noqa: E402
import psutil  # noqa: E402

from spark_cluster import Host, SparkCluster  # noqa: E402
from support import leftovers  # noqa: E402
from support.namespaces import joined_host  # noqa: E402
from support.places import RUN_ID, RUN_VARIABLE  # noqa: E402

_OURS = "10.213.90.1"
_THEIRS = "10.213.90.2"
_DISK_BYTES = 512 << 20
#: How long what a case leaves may take to end, and executors to come again.
_SETTLE_SECONDS = 60
#: Growth that is none, of each: a share, and so much more.
_GROWTH = {
    "bytes": (1.15, 96 << 20),
    "descriptors": (1.1, 24),
    "memfds": (1, 4),
    "threads": (1.1, 24),
}
_FEWEST_SAMPLES = 9


def session(url):
    from pyspark.sql import SparkSession

    import tfos

    builder = SparkSession.builder.master(url).appName("chaos")
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.host", _OURS)
        .config("spark.driver.bindAddress", _OURS)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", tfos.jar_path())
        .config("spark.executor.memory", "512m")
        # They have all of it from the beginning: growth is of something else.
        .config("spark.executor.extraJavaOptions", "-Xms512m -XX:+AlwaysPreTouch")
        .config("spark.executor.cores", "2")
        .config("spark.executorEnv.PYTHONPATH", str(HERE))
        .config("spark.task.maxFailures", "17")
        .config("spark.tfos.slots.timeout", "120")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Samples:
    """What processes hold after each case: ``processes``, which live as long as the run, and the
    executors with their Python workers, for as long as none is killed."""

    def __init__(self, processes):
        self._processes = processes
        self._taken = collections.defaultdict(list)

    def take(self):
        for name, process in (self._processes | _of_executors()).items():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, FileNotFoundError):
                self._taken[name].append(
                    {
                        "bytes": process.memory_full_info().uss,
                        "descriptors": process.num_fds(),
                        "memfds": _memfds(process),
                        "threads": process.num_threads(),
                    }
                )

    def faults(self):
        for name, samples in self._taken.items():
            third = len(samples) // 3
            if len(samples) < _FEWEST_SAMPLES:
                continue
            for what, (share, more) in _GROWTH.items():
                before = samples[third][what]
                after = min(sample[what] for sample in samples[-third:])
                print(f"{name}: {before:,} {what} after warming up, {after:,} at the end")
                if after > before * share + more:
                    yield f"{name} grew from {before:,} to {after:,} {what}"


def _of_executors():
    """By name: executors, and what they have started and is there between two cases."""
    found = {}
    for executor in nemesis.executors():
        found[f"executor {executor.pid}"] = executor
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            for child in executor.children(recursive=True):
                found[f"Python worker {child.pid} of executor {executor.pid}"] = child
    return found


def _memfds(process):
    links = pathlib.Path(f"/proc/{process.pid}/fd")
    count = 0
    for link in links.iterdir():
        with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
            count += os.readlink(link).startswith("/memfd:")
    return count


@contextlib.contextmanager
def bounded(seconds, case):
    """Ends the process if the block does not end in time."""

    def end():
        faulthandler.dump_traceback(all_threads=True)
        print(f"FAULT: no end after {seconds} s: {case}\n  {again(case)}", flush=True)
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def again(case):
    return (
        f"python bench/chaos/run.py --seed {case.seed} --kinds {case.kind} --seconds 0"
        f" --failures {','.join(case.groups)}"
    )


@contextlib.contextmanager
def small_disk():
    """A directory on a file system of its own, which can be filled."""
    with tempfile.TemporaryDirectory(prefix="tfos-chaos-disk-") as directory:
        options = ["-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tfos-chaos"]
        subprocess.run(["mount", *options, directory], check=True)
        try:
            yield pathlib.Path(directory)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)


def one(spark, case, site, options):
    """Runs a case; returns its faults."""
    print(f"case: {case}", flush=True)
    before = leftovers.held()
    with bounded(options.bound, case):
        try:
            outcome = cases.run(spark, case, site)
        except Exception:  # The cluster has not come up, or a check is wrong.
            outcome = cases.Outcome("did not run", 0, [], "", [traceback.format_exc()])
    if not nemesis.wait_until(lambda: not leftovers.held() - before, _SETTLE_SECONDS):
        left = "; ".join(sorted(leftovers.held() - before))
        outcome.faults.append(f"still there after {_SETTLE_SECONDS} s: {left}")
    if not nemesis.wait_until(lambda: len(nemesis.executors()) == cases.NODES, _SETTLE_SECONDS):
        outcome.faults.append(f"Spark has {len(nemesis.executors())} executors")
    injected = ", ".join(outcome.injected) or "nothing"
    print(f"  injected: {injected}; {outcome.rows}; {outcome.seconds:.1f} s; {outcome.ended}")
    for fault in outcome.faults:
        print(f"  FAULT: {fault}\n  {again(case)}")
    sys.stdout.flush()
    return outcome.faults


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=900, help="no case begins after so many")
    parser.add_argument("--seed", type=int, default=1, help="of the first case; others count on")
    parser.add_argument("--kinds", default=",".join(cases.KINDS), help="in turn")
    parser.add_argument("--failures", default=",".join(nemesis.GROUPS), help="groups of them")
    parser.add_argument("--bound", type=float, default=300, help="seconds that a case may take")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - set(cases.KINDS):
        parser.error(f"{', '.join(sorted(unknown))}: the kinds are {', '.join(cases.KINDS)}")
    groups = options.failures.split(",")
    if unknown := set(groups) - set(nemesis.GROUPS):
        parser.error(f"{', '.join(sorted(unknown))}: the groups are {', '.join(nemesis.GROUPS)}")
    os.environ[RUN_VARIABLE] = RUN_ID

    faults, number = [], 0
    with (
        small_disk() as disk,
        joined_host(_OURS, _THEIRS) as other,
        SparkCluster(
            workers=cases.NODES,
            cores=2,
            directory=disk,
            hosts=(Host(_OURS), other),
            daemon_options={"spark.deploy.maxExecutorRetries": "-1"},
        ) as cluster,
    ):
        os.environ["TFOS_RUNTIME_DIR"] = f"{disk}/clusters"
        site = nemesis.Site(other, disk)
        spark = session(cluster.url)
        java = spark.sparkContext._gateway.proc.pid
        pids = {"driver": os.getpid(), "driver's JVM": java, "Master": cluster.master_pid}
        pids |= {f"Worker {n}": pid for n, pid in enumerate(cluster.worker_pids)}
        samples = Samples({name: psutil.Process(pid) for name, pid in pids.items()})
        end = time.monotonic() + options.seconds
        while number == 0 or time.monotonic() < end:
            case = cases.case_of(kinds[number % len(kinds)], options.seed + number, groups)
            faults += one(spark, case, site, options)
            samples.take()
            number += 1
        grown = list(samples.faults())
        for fault in grown:
            print(f"FAULT: {fault}")
        faults += grown
        spark.stop()
    print(f"{number} cases from seed {options.seed}, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
