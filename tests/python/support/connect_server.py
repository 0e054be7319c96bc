"""A real server of Spark Connect on a standalone cluster, as sbin/start-connect-server.sh starts it."""

from __future__ import annotations

import os
import pathlib
import re
import sys
import time

from daemons import Cluster, Daemon
from spark_cluster import Host, spark_home
from support.places import IMPORT_PATHS
from support.waiting import wait_for

_PORT = re.compile(r"Spark Connect server started at: .*:(\d+)")


class ConnectServer(Cluster):
    """The server, which is the driver of the cluster's executors, from entry to exit of the `with`
    block: clients connect to its `url`.

    directory: for its log. All interfaces of this host lead to its `port`.
    """

    def __init__(self, master, directory):
        self._master = master
        self._directory = pathlib.Path(directory)
        self._host = Host()
        self.daemon = None

    def _start(self):
        self._directory.mkdir(parents=True, exist_ok=True)
        paths = [*IMPORT_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
        conf = {
            "spark.connect.grpc.binding.address": "0.0.0.0",
            "spark.connect.grpc.binding.port": 0,
            "spark.driver.host": self._host.address,
            "spark.ui.enabled": "false",
            "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": 2,
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
        }
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", self._master]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": self._host.address,
            "PYSPARK_PYTHON": sys.executable,
        }
        self.daemon = Daemon(
            "connect",
            "Spark's Connect server",
            [*command, "spark-internal"],
            environment,
            self._directory,
        )
        self.port = wait_for(self._port, "the server of Spark Connect")
        self.url = f"sc://{self._host.address}:{self.port}"

    def _port(self):
        self.daemon.check_alive()
        found = _PORT.search(self.daemon.log())
        return found and int(found.group(1))

    def stop(self, timeout_s=15):
        if self.daemon is not None:
            self.daemon.stop(time.monotonic() + timeout_s)
