"""What 10,000 silent connections to each port of a cluster change for its members.

    python bench/control/silent_connections.py [--count 10000] [--ports feed coordinator ...]

A process of its own (strangers.py) opens them to one port after the other, of all on which the
processes of a cluster listen, and they say nothing. For each port, the members' numbers before it,
from the first connection until tfos has closed the last one, and after it:

- feed: rows a second that a node reads, which Spark feeds over and over in small partitions, each
  over a connection of its own;
- parameter server: how long a push and a pull of a node take, and how long a worker takes that
  connects and gets the values;
- coordinator: how long it takes to answer somebody who is there, and somebody who comes; and the
  time between two heartbeats of a node;
- tensors: how long a step of three nodes takes that train in step. Then one of the nodes is killed,
  without strangers and with as many at each port of tensors: how long the others take for their
  next step, and how long it takes until all three train again;
- keeper: how long it takes to answer its client, which comes anew for each answer.

So many connections cost the machine time by themselves. "another program" is the same with a port
of a program that is not tfos: the members' numbers are those of the feed and the parameter server.
All that goes over TCP is encrypted (`encrypt="true"`), also on this one host. Memory is private
memory of the process that listens, and descriptors are its own: the most of each phase. Lines are
those of its log about strangers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pyspark

HERE = pathlib.Path(__file__).resolve().parent
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
)

from pyspark import SparkConf, SparkContext  # noqa: E402
from silent_members import (  # noqa: E402
    Asks,
    Keeper,
    read_notes,
    recovery,
    train_in_steps,
    work,
)

import tfos  # noqa: E402

#: Between two looks at a process, and between two questions.
LOOK_SECONDS = 0.05
#: That train in step, which of them is killed, and how often: without strangers, and with some.
NODES, LOST, LOSSES = 3, 1, 5
#: What the log says of strangers.
REFUSED = ("was refused", "about strangers", "closing the connection")


class Process:
    """One that listens: the most that it takes. Owner and lifetime: a `with` block. Threads: its
    own looks at the process."""

    def __init__(self, pid: int):
        self._pid = pid
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._look)
        #: When, bytes, descriptors.
        self.samples: list[tuple[float, int, int]] = []

    def _look(self) -> None:
        while not self._enough.wait(LOOK_SECONDS):
            status = pathlib.Path(f"/proc/{self._pid}/status").read_text()
            fields = dict(line.partition(":")[::2] for line in status.splitlines())
            descriptors = len(os.listdir(f"/proc/{self._pid}/fd"))
            private = int(fields["RssAnon"].split()[0]) * 1024
            self.samples.append((time.monotonic(), private, descriptors))

    def most(self, begin: float, end: float) -> tuple[int, int]:
        found = [sample[1:] for sample in self.samples if begin <= sample[0] < end]
        return max(size for size, _ in found), max(count for _, count in found)

    def __enter__(self) -> Process:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._enough.set()
        self._thread.join()


def listening(pid: int) -> list[int]:
    """Ports on which a process listens."""
    connections = psutil.Process(pid).net_connections("tcp")
    return sorted({c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN})


def log_of_executor(sc: SparkContext) -> pathlib.Path:
    """The log of the only executor, where the output of its nodes goes."""
    work = pathlib.Path(os.environ.get("SPARK_HOME", pathlib.Path(pyspark.__file__).parent), "work")
    (log,) = (work / str(sc.applicationId)).glob("*/stderr")
    return log


def log_lines(path: pathlib.Path) -> int:
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    return sum(any(word in line for word in REFUSED) for line in lines)


class Report:
    """Attacks ports, and prints what came of it."""

    def __init__(self, options: argparse.Namespace):
        self._options = options
        self.rows: list[str] = []

    def wants(self, name: str) -> bool:
        return not self._options.ports or any(part in name for part in self._options.ports)

    def attack(
        self,
        name: str,
        pid: int,
        port: int,
        log: pathlib.Path,
        measure: Callable[[float, float], dict[str, float]],
    ) -> None:
        """measure: the members' numbers between two times."""
        if not self.wants(name):
            return
        quiet = self._options.quiet_seconds
        lines = log_lines(log)
        with Process(pid) as process:
            times = [time.monotonic()]
            time.sleep(quiet)  # This is the time that is measured.
            times.append(time.monotonic())
            command = [sys.executable, str(HERE / "strangers.py"), str(port)]
            done = subprocess.run(
                [*command, "--count", str(self._options.count)], stdout=subprocess.PIPE, check=True
            )
            times.append(time.monotonic())
            time.sleep(quiet)
            times.append(time.monotonic())
        outcome = json.loads(done.stdout.splitlines()[-1])
        phases = [measure(*phase) for phase in zip(times, times[1:])]
        sizes = [process.most(*phase) for phase in zip(times, times[1:])]
        found = {
            "port": name,
            **outcome,
            "log_lines": log_lines(log) - lines,
            "megabytes": [round(size / 1e6, 1) for size, _ in sizes],
            "descriptors": [count for _, count in sizes],
            "members": phases,
        }
        print(json.dumps(found), flush=True)
        for what, before in phases[0].items():
            numbers = [phase.get(what, math.nan) for phase in phases]
            cells = [name, what, *(f"{number:,.4g}" for number in numbers)]
            cells.append(f"{numbers[1] / before:.2f}" if before else "")
            self.rows.append("| " + " | ".join(cells) + " |")

    def lose(
        self,
        what: str,
        directory: pathlib.Path,
        asks: Asks,
        ports: list[int],
    ) -> None:
        """Kills a node while strangers are at these ports."""
        command = [sys.executable, str(HERE / "strangers.py"), "--tell", "--patience", "1000"]
        command += ["--count", str(self._options.count)]
        with contextlib.ExitStack() as strangers:
            for port in ports:
                process = strangers.enter_context(
                    subprocess.Popen([*command, str(port)], stdout=subprocess.PIPE)
                )
                strangers.callback(process.kill)
                assert process.stdout is not None
                process.stdout.readline()
            (pid,) = (n["pid"] for n in asks.status()["nodes"] if n["node_id"] == LOST)
            at = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            while (found := recovery(directory, LOST, NODES, at)) is None:
                time.sleep(LOOK_SECONDS)
        print(json.dumps({"port": what, **found}), flush=True)

    def show(self) -> None:
        print("\n| port | members' numbers | before | during | after | during / before |")
        print("|---|---|---|---|---|---|")
        print("\n".join(self.rows))


@contextlib.contextmanager
def neutral_port() -> Iterator[tuple[int, int]]:
    """Its process and its number."""
    command = [sys.executable, str(HERE / "strangers.py"), "--listen"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()


def coordinator_pid() -> int:
    return next(p.pid for p in psutil.Process().children() if p.cmdline()[-1:] == ["coordinator"])


def names_of(asks: Asks) -> dict[int, tuple[str, int]]:
    """All ports on which processes of a cluster listen: what each is, and whose."""
    coordinator = coordinator_pid()
    found = dict.fromkeys(listening(coordinator), ("coordinator", coordinator))
    for node in asks.status()["nodes"]:
        for port in (*listening(node["pid"]), *listening(node["agent_pid"])):
            kind = "unknown"
            if node["feed"] is not None and port == node["feed"]["port"]:
                kind = "feed"
            elif port == node["tensor_port"]:
                kind = "parameter server" if node["job_name"] == "ps" else "tensors"
            found[port] = (f"{kind} of {node['job_name']}:{node['task_index']}", node["pid"])
    return found


def fed_cluster(sc: SparkContext, report: Report, directory: pathlib.Path, log: pathlib.Path):
    """The coordinator, the feed's ports, a parameter server."""
    over = directory / "over"
    rows = sc.parallelize(range(1_000_000), 50).map(float).cache()
    with tfos.run(
        sc, work, nodes=3, parameter_servers=1, args={"directory": str(directory)}, encrypt="true"
    ) as cluster:
        feeder = threading.Thread(target=cluster.train, args=(rows,), kwargs={"epochs": 100_000})
        feeder.start()
        with Asks(cluster.status_url, cluster.status_header, LOOK_SECONDS) as asks:
            asks.await_rows()

            def members(begin: float, end: float) -> dict[str, float]:
                return read_notes(directory, begin, end) | asks.between(begin, end)

            with neutral_port() as (pid, port):
                report.attack("another program", pid, port, log, members)
            for port, (name, pid) in sorted(names_of(asks).items(), key=lambda p: p[1]):
                its_log = log if name == "coordinator" else log_of_executor(sc)
                report.attack(name, pid, port, its_log, members)
        over.touch()
        feeder.join()


def training_cluster(sc: SparkContext, report: Report, directory: pathlib.Path, log: pathlib.Path):
    """The ports of tensors."""
    with tfos.run(
        sc,
        train_in_steps,
        nodes=(NODES - 1, NODES),
        input_mode="tensorflow",
        args={"directory": str(directory)},
        encrypt="true",
    ) as cluster:
        with Asks(cluster.status_url, cluster.status_header, LOOK_SECONDS) as asks:
            while not read_notes(directory, 0, time.monotonic()):
                time.sleep(LOOK_SECONDS)

            def members(begin: float, end: float) -> dict[str, float]:
                return read_notes(directory, begin, end)

            for port, (name, pid) in sorted(names_of(asks).items(), key=lambda p: p[1]):
                if name != "coordinator":
                    report.attack(name, pid, port, log_of_executor(sc), members)
            ports = [port for port, (name, _) in names_of(asks).items() if "tensors" in name]
            if report.wants("tensors"):
                for _ in range(LOSSES):
                    report.lose("a node is killed", directory, asks, [])
                    report.lose("the same with strangers", directory, asks, ports)
        (directory / "over").touch()
        cluster.wait(timeout=300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--quiet-seconds", type=float, default=10, help="before and after")
    parser.add_argument("--ports", nargs="*", default=[], help="those whose names have such a part")
    options = parser.parse_args()
    report = Report(options)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        log = directory / "log"
        shown = os.dup(2)
        # The coordinator and the keeper have this process's standard error for a log.
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        try:
            conf = SparkConf().setMaster("local-cluster[1,4,2048]").setAppName("silent-connections")
            sc = SparkContext(conf=conf.set("spark.ui.enabled", "false"))
            sc.setLogLevel("OFF")
            for run, names in (
                (fed_cluster, ("another program", "coordinator", "feed", "parameter server")),
                (training_cluster, ("tensors",)),
            ):
                if any(map(report.wants, names)):
                    (directory / run.__name__).mkdir()
                    run(sc, report, directory / run.__name__, log)
            sc.stop()
            with Keeper(LOOK_SECONDS) as keeper:
                for port in listening(keeper.pid):
                    report.attack("keeper", keeper.pid, port, log, keeper.between)
        finally:
            os.dup2(shown, 2)
            sys.stderr.write(log.read_text(errors="replace")[-2000:])
    report.show()


if __name__ == "__main__":
    main()
