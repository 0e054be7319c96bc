#!/usr/bin/env python3
"""A real HDFS on this machine: a NameNode (or two, one of them standing by) and a DataNode, each
its own JVM.

As a program it runs one command against it and stops everything it started afterwards, whether the
command succeeds, fails or is interrupted:

    tools/hadoop_cluster.py [--directory build/hdfs] [--ha] [--yarn] -- COMMAND [ARGUMENT]...

`{hdfs}` in an argument is replaced with the file system's URI, which is in $HDFS_URI, too;
$HADOOP_CONF_DIR is a configuration for it. With --yarn a YARN runs beside it (yarn_cluster.py), for
`spark-submit --master yarn`.

As a module it gives `HadoopCluster`, a context manager. Needs Java 17 and, for its first start,
Maven, which fetches the daemons' jars (104 MB) into build/hadoop. Everything is bound to the
loopback interface; data and logs are below the directory, and old data in it is deleted.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import time

import hadoop_daemons
from daemons import LOG_TAIL_LINES, Cluster, Daemon, DaemonError, run_with
from hadoop_daemons import LOOPBACK, fetch_jars, free_port, java_command, write_site
from yarn_cluster import YarnCluster

_RUN_TIMEOUT_S = 300
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_FAILOVER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
#: The name service of a cluster with two NameNodes.
_SERVICE = "tfos"


def _identity(name_node):
    """Tells one of two NameNodes, whose host is the same, which it is; one alone needs no
    telling."""
    return () if name_node == "namenode" else ("-D", f"dfs.ha.namenode.id={name_node}")


def _bean(http, name):
    """What a NameNode says of itself; {} as long as it does not."""
    # Its page comes before its state, and neither is there at first.
    page = hadoop_daemons.get_json(f"http://{http}/jmx?qry=Hadoop:service=NameNode,name={name}")
    beans = (page or {}).get("beans")
    return beans[0] if beans else {}


class HadoopCluster(Cluster):
    """A NameNode and a DataNode, started on entry and stopped on exit of the `with` block.

    directory: holds the daemons' data, their configuration below `conf`, and their logs.
    start_timeout_s: bound on the start, without the time to fetch the jars.
    ha: two NameNodes of one name service, which share their edits in a directory; the first is the
        active one, and `fail_over` makes it the other.

    Attributes once started: `uri` (hdfs://127.0.0.1:PORT, or that of the name service), `http` (the
    active NameNode's address for WebHDFS and its pages, host:port), `configuration` (a
    HADOOP_CONF_DIR for it).

    The superuser is the user who runs it. Not safe for use from several threads. The daemons end
    with the thread that started them.
    """

    def __init__(self, directory="build/hdfs", start_timeout_s=240, ha=False):
        self.directory = pathlib.Path(directory).resolve()
        self.configuration = self.directory / "conf"
        self.start_timeout_s = start_timeout_s
        self.uri = None
        self.http = None
        self._name_nodes = ("nn1", "nn2") if ha else ("namenode",)
        self._http = {}
        self._command = []
        self._environment = hadoop_daemons.environment()
        self._daemons = []

    def _start(self):
        self._command = java_command(self.configuration, f"{fetch_jars()}/*")
        deadline = time.monotonic() + self.start_timeout_s
        data = self.directory / "data"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        self._configure(data)
        first, *others = self._name_nodes
        self._run(
            f"format {self.directory}",
            _NAME_NODE,
            *_identity(first),
            "-format",
            "-force",
            "-nonInteractive",
        )
        for other in others:
            shutil.copytree(data / first, data / other)
        for name in self._name_nodes:
            self._daemons.append(
                Daemon(
                    name,
                    f"Hadoop's {name}",
                    [*self._command, _NAME_NODE, *_identity(name)],
                    self._environment,
                    self.directory,
                )
            )
        self._daemons.append(
            Daemon(
                "datanode",
                "Hadoop's datanode",
                [*self._command, _DATA_NODE],
                self._environment,
                self.directory,
            )
        )
        if others:
            for name in self._name_nodes:
                self._wait(
                    deadline,
                    f"{name} to stand by",
                    lambda name=name: self._state(name) == "standby",
                )
            self._run(f"make {first} active", _HA_ADMIN, "-transitionToActive", first)
        self._wait(deadline, "HDFS to leave safe mode with a DataNode", self._is_ready)

    def fail_over(self, timeout_s=60):
        """Kills the active NameNode and makes the other one active. Needs `ha`; works once."""
        active, other = self._name_nodes
        killed = self._daemons.pop(0)
        killed.process.kill()
        killed.stop(time.monotonic())
        self._run(f"make {other} active", _HA_ADMIN, "-transitionToActive", "--forceactive", other)
        self.http = self._http[other]
        self._wait(
            time.monotonic() + timeout_s, f"{other} to take over from {active}", self._is_ready
        )

    def _wait(self, deadline, what, is_done):
        hadoop_daemons.wait_for(is_done, what, self._daemons, deadline, self.directory)

    def _run(self, what, *command):
        """Runs a class of Hadoop's to its end."""
        done = subprocess.run(
            [*self._command, *command],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_RUN_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise DaemonError(
                f"Hadoop could not {what}:\n"
                + "\n".join(done.stdout.splitlines()[-LOG_TAIL_LINES:])
            )

    def _configure(self, data):
        rpc = {name: f"{LOOPBACK}:{free_port()}" for name in self._name_nodes}
        self._http = {name: f"{LOOPBACK}:{free_port()}" for name in self._name_nodes}
        first, *others = self._name_nodes
        self.uri = f"hdfs://{_SERVICE}" if others else f"hdfs://{rpc[first]}"
        self.http = self._http[first]
        if others:
            of_name_nodes = {
                "dfs.nameservices": _SERVICE,
                f"dfs.ha.namenodes.{_SERVICE}": ",".join(self._name_nodes),
                f"dfs.client.failover.proxy.provider.{_SERVICE}": _FAILOVER,
                "dfs.namenode.shared.edits.dir": (data / "edits").as_uri(),
                "dfs.ha.fencing.methods": "shell(/bin/true)",
            }
            for name in self._name_nodes:
                of_name_nodes |= {
                    f"dfs.namenode.rpc-address.{_SERVICE}.{name}": rpc[name],
                    f"dfs.namenode.http-address.{_SERVICE}.{name}": self._http[name],
                    f"dfs.namenode.name.dir.{_SERVICE}.{name}": data / name,
                }
        else:
            of_name_nodes = {
                "dfs.namenode.name.dir": data / first,
                "dfs.namenode.http-address": self.http,
            }
        anywhere = f"{LOOPBACK}:0"
        self.configuration.mkdir(exist_ok=True)
        write_site(
            self.configuration, "core", {"fs.defaultFS": self.uri, "hadoop.tmp.dir": data / "tmp"}
        )
        write_site(
            self.configuration,
            "hdfs",
            {
                "dfs.replication": 1,
                "dfs.datanode.data.dir": data / "blocks",
                "dfs.namenode.safemode.extension": 0,
                "dfs.datanode.address": anywhere,
                "dfs.datanode.ipc.address": anywhere,
                "dfs.datanode.http.address": anywhere,
                **of_name_nodes,
            },
        )

    def _is_ready(self):
        state = _bean(self.http, "FSNamesystemState")
        return state.get("NumLiveDataNodes") == 1 and state.get("FSState") == "Operational"

    def _state(self, name):
        return _bean(self._http[name], "NameNodeStatus").get("State")

    def stop(self, timeout_s=15):
        """Stops all daemons; their data stays. Safe to call again."""
        hadoop_daemons.stop_all(self._daemons, timeout_s)


def main():
    parser = argparse.ArgumentParser(description="Runs a command against an HDFS on this machine.")
    parser.add_argument("--directory", default="build/hdfs", help="for data and logs")
    parser.add_argument("--ha", action="store_true", help="two NameNodes, one of them standing by")
    parser.add_argument("--yarn", action="store_true", help="and YARN: --master yarn")
    parser.add_argument("command", nargs="+", help="to run; {hdfs} becomes the file system's URI")
    options = parser.parse_args()

    cluster = HadoopCluster(options.directory, ha=options.ha)
    clusters, name = [cluster], "HDFS"
    if options.yarn:
        clusters.append(YarnCluster(cluster.configuration, cluster.directory / "yarn"))
        name = "HDFS with YARN"
    print(f"Starting {name} ...", flush=True)
    return run_with(
        clusters,
        name,
        options.command,
        lambda: (
            cluster.uri,
            {"{hdfs}": cluster.uri},
            {
                "HDFS_URI": cluster.uri,
                "HADOOP_CONF_DIR": str(cluster.configuration),
                **({"SPARK_CONF_DIR": str(cluster.configuration)} if options.yarn else {}),
            },
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
