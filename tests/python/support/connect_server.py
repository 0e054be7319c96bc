"""A real server of Spark Connect on a standalone cluster, as sbin/start-connect-server.sh starts it."""

from __future__ import annotations

import os
import pathlib
import re
import sys

from daemons import Cluster, Daemon
from spark_cluster import Host, spark_home
from support.places import IMPORT_PATHS
from support.waiting import wait_for

_PORT = re.compile(r"Spark Connect server started at: .*:(\d+)")


class ConnectServer(Cluster):
    """The server, which is the driver of the cluster's executors, from entry to exit of the `with`
    block: clients connect to its `url`.

    directory: for its log. host: where it runs. environment: on top of this process's. conf: of Spark.
    """

    def __init__(self, master, directory, host=Host(), environment=None, conf=None):
        self._master = master
        self._directory = pathlib.Path(directory)
        self._host = host
        self._environment = environment or {}
        self._conf = conf or {}
        self.daemon = None

    def _start(self):
        self._directory.mkdir(parents=True, exist_ok=True)
        paths = [*IMPORT_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
        conf = {
            "spark.connect.grpc.binding.address": self._host.address,
            "spark.connect.grpc.binding.port": 0,
            "spark.driver.host": self._host.address,
            "spark.ui.enabled": "false",
            "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": 2,
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
            **self._conf,
        }
        command = [*self._host.prefix, str(spark_home() / "bin" / "spark-submit")]
        command += ["--master", self._master]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": self._host.address,
            "PYSPARK_PYTHON": sys.executable,
            **self._environment,
        }
        self.daemon = Daemon(
            "connect",
            "Spark's Connect server",
            [*command, "spark-internal"],
            environment,
            self._directory,
        )
        port = wait_for(self._port, "the server of Spark Connect")
        self.url = f"sc://{self._host.address}:{port}"

    def _port(self):
        self.daemon.check_alive()
        found = _PORT.search(self.daemon.log())
        return found and int(found.group(1))

    def stop(self, timeout_s=15):
        import time

        if self.daemon is not None:
            self.daemon.stop(time.monotonic() + timeout_s)
