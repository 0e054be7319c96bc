#!/usr/bin/env python3
"""A real standalone Spark cluster on this machine: a Master and some Workers, each its own JVM.

As a program it runs one command against the cluster and stops everything it started afterwards,
whether the command succeeds, fails or is interrupted:

    tools/spark_cluster.py [--workers 2] [--cores 1] [--memory 2g] -- COMMAND [ARGUMENT]...

`{master}` in an argument is replaced with the cluster's URL, which is in $SPARK_MASTER_URL, too.

As a module it gives `SparkCluster`, a context manager. Needs Java 17 and the `pyspark` package (or
SPARK_HOME), nothing else. Everything is bound to the loopback interface, unless `hosts` say other.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import shutil
import sys
import time
import typing
import urllib.error
import urllib.request

from daemons import Cluster, Daemon, DaemonError, run_with

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.1


def spark_home():
    """Returns the directory of the Spark installation: SPARK_HOME, else that of `pyspark`."""
    if os.environ.get("SPARK_HOME"):
        return pathlib.Path(os.environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")
    if spec is None:
        raise DaemonError("Spark was not found: install pyspark, or set SPARK_HOME")
    return pathlib.Path(spec.origin).parent


class Host(typing.NamedTuple):
    """Where a daemon runs."""

    #: That it is bound to.
    address: str = _LOOPBACK
    #: Command line in front of its own, such as ("ip", "netns", "exec", NAME).
    prefix: tuple = ()


def _daemon(name, class_name, arguments, host, log_dir, environment):
    command = [*host.prefix, str(spark_home() / "bin" / "spark-class"), class_name]
    command += ["--host", host.address, *arguments]
    return Daemon(
        name, f"Spark's {name}", command, {**environment, "SPARK_LOCAL_IP": host.address}, log_dir
    )


def _with_properties(options, properties):
    return " ".join([options, *(f"-D{name}={value}" for name, value in properties.items())]).strip()


class SparkCluster(Cluster):
    """A Master and `workers` Workers, started on entry and stopped on exit of the `with` block.

    workers, cores, memory: how many Workers, and what each of them offers to executors.
    hosts: where they run, in turn; the Master runs on the first. By default all on the loopback
        interface.
    directory: holds the daemons' logs and, below `work`, the executors' directories and logs.
    start_timeout_s: bound on the start of the whole cluster.
    worker_options: Java properties of the Workers by name, such as `spark.worker.resource.*`.
    daemon_options: those of all daemons, such as `spark.authenticate`.

    `url` is what drivers connect to, and `ui_url` the Master's status page.

    Not safe for use from several threads. The Workers end with the thread that started them.
    """

    def __init__(
        self,
        workers=2,
        cores=1,
        memory="2g",
        directory="build/spark",
        start_timeout_s=300,
        hosts=(Host(),),
        worker_options=None,
        daemon_options=None,
    ):
        self.workers = workers
        self.cores = cores
        self.memory = memory
        self.directory = pathlib.Path(directory).resolve()
        self.start_timeout_s = start_timeout_s
        self.hosts = hosts
        self.worker_options = worker_options or {}
        self.daemon_options = daemon_options or {}
        self.url = None
        self.ui_url = None
        self._daemons = []

    @property
    def master_pid(self):
        return self._daemons[0].pid

    @property
    def worker_pids(self):
        return [daemon.pid for daemon in self._daemons[1:]]

    def _start(self):
        if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
            raise DaemonError("Java was not found: install Java 17 or set JAVA_HOME")
        deadline = time.monotonic() + self.start_timeout_s
        work_dir = self.directory / "work"
        work_dir.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "SPARK_WORKER_OPTS": _with_properties(
                os.environ.get("SPARK_WORKER_OPTS", ""), self.worker_options
            ),
            "SPARK_HOME": str(spark_home()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _with_properties(
                "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", self.daemon_options
            ),
        }
        master = _daemon(
            "master",
            "org.apache.spark.deploy.master.Master",
            ["--port", "0", "--webui-port", "0"],
            self.hosts[0],
            self.directory,
            environment,
        )
        self._daemons.append(master)
        port = self._wait_for(
            lambda: self._service_port("sparkMaster"), "the Master's port", deadline
        )
        ui_port = self._wait_for(
            lambda: self._service_port("MasterUI"), "the Master's status page", deadline
        )
        self.ui_url = f"http://{self.hosts[0].address}:{ui_port}"
        self.url = f"spark://{self.hosts[0].address}:{port}"
        for number in range(self.workers):
            self._daemons.append(
                _daemon(
                    f"worker-{number}",
                    "org.apache.spark.deploy.worker.Worker",
                    [
                        "--webui-port",
                        "0",
                        "--cores",
                        str(self.cores),
                        "--memory",
                        self.memory,
                        "--work-dir",
                        str(work_dir),
                        self.url,
                    ],
                    self.hosts[number % len(self.hosts)],
                    self.directory,
                    environment,
                )
            )
        self._wait_for(
            lambda: self.alive_workers() == self.workers,
            f"{self.workers} Workers to register",
            deadline,
        )

    def stop(self, timeout_s=15):
        """Stops all daemons and, with the Workers, their executors. Safe to call again."""
        deadline = time.monotonic() + timeout_s
        for daemon in self._daemons[1:]:
            daemon.process.terminate()
        while self._daemons:
            self._daemons.pop().stop(deadline)

    def alive_workers(self):
        """Returns how many Workers the Master counts as alive."""
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.ui_url}/json/", timeout=5) as response:
                return json.load(response)["aliveworkers"]
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return 0  # The page is announced shortly before it answers, and a busy host is slow.

    def _service_port(self, service):
        announcement = rf"Successfully started service '{service}' on port (\d+)"
        match = re.search(announcement, self._daemons[0].log())
        return int(match.group(1)) if match else None

    def _wait_for(self, condition, what, deadline):
        while True:
            for daemon in self._daemons:
                daemon.check_alive()
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"waited {self.start_timeout_s} s for {what}; logs are in {self.directory}"
                )
            time.sleep(_POLL_S)


def main():
    parser = argparse.ArgumentParser(
        description="Runs a command against a standalone Spark cluster on this machine."
    )
    parser.add_argument("--workers", type=int, default=2, help="number of Workers (default 2)")
    parser.add_argument("--cores", type=int, default=1, help="cores of each Worker (default 1)")
    parser.add_argument("--memory", default="2g", help="memory of each Worker (default 2g)")
    parser.add_argument("--directory", default="build/spark", help="for logs and executors' files")
    parser.add_argument("command", nargs="+", help="to run; {master} becomes the cluster's URL")
    options = parser.parse_args()

    print(f"Starting a Spark Master and {options.workers} Workers ...", flush=True)
    cluster = SparkCluster(options.workers, options.cores, options.memory, options.directory)
    return run_with(
        [cluster],
        "Spark cluster",
        options.command,
        lambda: (cluster.url, {"{master}": cluster.url}, {"SPARK_MASTER_URL": cluster.url}),
    )


if __name__ == "__main__":
    sys.exit(main())
