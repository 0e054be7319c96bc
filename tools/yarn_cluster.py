"""A real YARN on this machine: a ResourceManager and a NodeManager, each its own JVM, beside an
HDFS.

`hadoop_cluster.py --yarn` runs a command against both; `YarnCluster` is a context manager. Needs
what that needs, and for its first start Maven, which fetches further jars into build/hadoop.

    tools/yarn_cluster.py    # only fetches the jars, HDFS's and YARN's, where they are missing
"""

import os
import pathlib
import sys
import time

import hadoop_daemons
from daemons import Cluster, Daemon, DaemonError
from hadoop_daemons import JARS, LOOPBACK, free_port, write_configuration, write_site
from spark_cluster import spark_home

#: What the daemons need besides HDFS's jars: certificates, and XML in their pages.
_ARTIFACTS = (
    ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    ("javax.xml.bind", "jaxb-api", "2.3.1"),
)
_JARS = JARS.with_name(f"yarn-{JARS.name}")
#: Spark ships the logging that the daemons use themselves.
_SPARK_JARS = ("log4j-1.2-api", "log4j-api", "log4j-core")
_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_SCHEDULERS = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
_DISK_CHECKER = "yarn.nodemanager.disk-health-checker"
_PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption"
_QUEUES = "yarn.scheduler.capacity.root"
#: Percent of the memory that the queue "default" keeps when another queue wants the rest.
_SHARE_OF_DEFAULT = 30
#: A NodeManager whose containers have ended still waits for ten seconds; nothing is lost by its
#: end.
_STOP_S = 4


def fetch_jars():
    """The folders with the jars of HDFS and of YARN; fetches what is not there yet."""
    return hadoop_daemons.fetch_jars(), hadoop_daemons.fetch_jars(_JARS, _ARTIFACTS)


class YarnCluster(Cluster):
    """A ResourceManager and a NodeManager, started on entry and stopped on exit of the `with`
    block.

    configuration: a HADOOP_CONF_DIR, such as that of a HadoopCluster; YARN's is added to it, and a
        spark-defaults.conf with which Spark uses the jars of this machine.
    directory: holds the daemons' logs and the containers' files and, below `containers`, their
        logs.
    memory_mb, cores: what the NodeManager offers.
    start_timeout_s: bound on the start, without the time to fetch the jars.
    preempts: whether there is a queue "urgent" beside "default". Applications of "default" may use
        all memory, until one of "urgent" wants its share: then YARN preempts containers of theirs.

    Attribute once started: `http` (the ResourceManager's pages and REST, host:port).

    Not safe for use from several threads. The daemons end with the thread that started them; what
    they run is stopped with the NodeManager.
    """

    def __init__(
        self,
        configuration,
        directory="build/yarn",
        memory_mb=8192,
        cores=8,
        start_timeout_s=240,
        preempts=False,
    ):
        self.configuration = pathlib.Path(configuration)
        self.directory = pathlib.Path(directory).resolve()
        self.memory_mb = memory_mb
        self.cores = cores
        self.start_timeout_s = start_timeout_s
        self.preempts = preempts
        self.http = None
        self._daemons = []

    def _start(self):
        jars = [
            *(f"{directory}/*" for directory in fetch_jars()),
            *(jar for name in _SPARK_JARS for jar in (spark_home() / "jars").glob(f"{name}-*.jar")),
        ]
        command = hadoop_daemons.java_command(self.configuration, *jars)
        command[1:1] = ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        self.directory.mkdir(parents=True, exist_ok=True)
        self._configure()
        # Containers get the NodeManager's. Of its HADOOP_CONF_DIR they get nothing, as from a
        # NodeManager that was started by other means than YARN's scripts.
        environment = {
            **hadoop_daemons.environment(),
            "JAVA_HOME": str(pathlib.Path(os.path.realpath(command[0])).parents[1]),
        }
        deadline = time.monotonic() + self.start_timeout_s
        for name, main in (("resourcemanager", _RESOURCE_MANAGER), ("nodemanager", _NODE_MANAGER)):
            self._daemons.append(
                Daemon(name, f"YARN's {name}", [*command, main], environment, self.directory)
            )
        hadoop_daemons.wait_for(
            self._is_ready, "the NodeManager to register", self._daemons, deadline, self.directory
        )

    def _configure(self):
        addresses = {
            f"yarn.resourcemanager.{name}": f"{LOOPBACK}:{free_port()}"
            for name in (
                "address",
                "scheduler.address",
                "resource-tracker.address",
                "admin.address",
                "webapp.address",
            )
        }
        self.http = addresses["yarn.resourcemanager.webapp.address"]
        write_site(
            self.configuration,
            "yarn",
            {
                **addresses,
                "yarn.resourcemanager.hostname": LOOPBACK,
                "yarn.nodemanager.hostname": LOOPBACK,
                "yarn.nodemanager.address": f"{LOOPBACK}:0",
                "yarn.nodemanager.localizer.address": f"{LOOPBACK}:{free_port()}",
                "yarn.nodemanager.webapp.address": f"{LOOPBACK}:0",
                "yarn.nodemanager.local-dirs": self.directory / "local",
                "yarn.nodemanager.log-dirs": self.directory / "containers",
                "yarn.nodemanager.resource.memory-mb": self.memory_mb,
                "yarn.nodemanager.resource.cpu-vcores": self.cores,
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.pmem-check-enabled": "false",
                f"{_DISK_CHECKER}.max-disk-utilization-per-disk-percentage": 99.5,
                "yarn.scheduler.minimum-allocation-mb": 128,
                "yarn.resourcemanager.scheduler.class": f"{_SCHEDULERS}.capacity.CapacityScheduler",
                # Heartbeats bring containers up; the default is a second.
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 100,
                **(_monitor() if self.preempts else {}),
            },
        )
        write_configuration(
            self.configuration / "capacity-scheduler.xml",
            {
                **_queues(self.preempts),
                "yarn.scheduler.capacity.maximum-am-resource-percent": 0.9,
            },
        )
        (self.configuration / "spark-defaults.conf").write_text(
            f"spark.yarn.jars local:{spark_home() / 'jars'}/*\n"
        )

    def _is_ready(self):
        metrics = self.get("cluster/metrics") or {}
        return metrics.get("clusterMetrics", {}).get("activeNodes") == 1

    def get(self, resource):
        """What the ResourceManager's REST says of a resource; None as long as it does not
        answer."""
        return hadoop_daemons.get_json(f"http://{self.http}/ws/v1/{resource}")

    def stop(self):
        """Stops both daemons and what they run. Safe to call again."""
        hadoop_daemons.stop_all(self._daemons, _STOP_S)


def _queues(preempts):
    """The scheduler's properties for one queue, or for two."""
    if not preempts:
        return {f"{_QUEUES}.queues": "default", f"{_QUEUES}.default.capacity": 100}
    return {
        f"{_QUEUES}.queues": "default,urgent",
        f"{_QUEUES}.default.capacity": _SHARE_OF_DEFAULT,
        f"{_QUEUES}.urgent.capacity": 100 - _SHARE_OF_DEFAULT,
        # A user may have more than the queue's share, as long as nobody else wants it.
        f"{_QUEUES}.default.user-limit-factor": 100,
    }


def _monitor():
    """YARN's properties for preemption without the waits, which are seconds by default."""
    return {
        "yarn.resourcemanager.scheduler.monitor.enable": "true",
        f"{_PREEMPTION}.monitoring_interval": 200,
        f"{_PREEMPTION}.max_wait_before_kill": 200,
        # All that is wanted at once, not a tenth of the memory in each round.
        f"{_PREEMPTION}.total_preemption_per_round": 1.0,
        f"{_PREEMPTION}.natural_termination_factor": 1.0,
        f"{_PREEMPTION}.max_ignored_over_capacity": 0,
    }


def main():
    try:
        fetch_jars()
    except DaemonError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
