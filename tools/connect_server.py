"""A real server of Spark Connect on a cluster, as sbin/start-connect-server.sh starts it."""

import os
import pathlib
import re
import sys
import time

from daemons import Cluster, Daemon, DaemonError
from spark_cluster import Host, spark_home

_PORT = re.compile(r"Spark Connect server started at: .*:(\d+)")
_POLL_S = 0.1


class ConnectServer(Cluster):
    """The server, which is the driver of the cluster's executors, from entry to exit of the `with`
    block: clients connect to its `url`.

    master: the URL of the cluster.
    directory: for its log. All interfaces of this host lead to its `port`.
    conf: Spark's properties, beside those that are set here or in place of them.
    paths: in front of the executors' PYTHONPATH.

    Not safe for use from several threads. The server ends with the thread that started it.
    """

    def __init__(self, master, directory, conf=None, paths=(), start_timeout_s=300):
        self._master = master
        self._directory = pathlib.Path(directory)
        self._conf = conf or {}
        self._paths = paths
        self._start_timeout_s = start_timeout_s
        self._host = Host()
        self.daemon = None

    def _start(self):
        self._directory.mkdir(parents=True, exist_ok=True)
        paths = [*self._paths, *filter(None, [os.environ.get("PYTHONPATH")])]
        conf = {
            "spark.connect.grpc.binding.address": "0.0.0.0",
            "spark.connect.grpc.binding.port": 0,
            "spark.driver.host": self._host.address,
            "spark.ui.enabled": "false",
            "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": 2,
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
            **self._conf,
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
        self.port = self._await_port()
        self.url = f"sc://{self._host.address}:{self.port}"

    def _await_port(self):
        deadline = time.monotonic() + self._start_timeout_s
        while (found := _PORT.search(self.daemon.log())) is None:
            self.daemon.check_alive()
            if time.monotonic() > deadline:
                raise DaemonError(
                    f"waited {self._start_timeout_s} s for the server of Spark Connect; its log is "
                    f"{self.daemon.log_path}"
                )
            time.sleep(_POLL_S)
        return int(found.group(1))

    def stop(self, timeout_s=15):
        """Stops the server and, with it, its executors. Safe to call again."""
        if self.daemon is not None:
            self.daemon.stop(time.monotonic() + timeout_s)
