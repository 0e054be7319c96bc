"""Every setting of tfos, defined once.

A setting is the Spark configuration key ``spark.tfos.<name>``, and a keyword of :func:`tfos.run`
with the dots and capitals of its name written as underscores (``coordinator.bindAddress`` is
``coordinator_bind_address``), unless it is one of the session. A keyword wins over
the configuration, which wins over the default. ``tfos doctor --settings`` prints keys, defaults
and meanings.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from tfos.base.setting import PREFIX, Setting
from tfos.errors import BadInputError

__all__ = ["SETTINGS", "Setting", "Settings"]

#: Programs read them (:mod:`tfos.util`), tfos does not. The second is that of Hopsworks' sessions.
PARAMETER_SERVERS = ("spark.tfos.parameterServers", "spark.tensorflow.num.ps")

#: As Spark names them.
LOG_LEVELS = ("all", "trace", "debug", "info", "warn", "warning", "error", "fatal", "off")


INFERENCE_JVM = Setting(
    "inference.jvm",
    str,
    "auto",
    "",
    "whether the transform of models runs in the executors' JVMs, without Python workers; it needs "
    "the jar of tfos on the class path. auto: if it is there; on, off. A session may change it "
    "(spark.conf.set)",
    choices=("auto", "on", "off"),
    of_session=True,
)

#: All of them; docs/settings.md is made of this.
SETTINGS: tuple[Setting, ...] = (
    Setting(
        "coordinator.bindAddress",
        str,
        "0.0.0.0",
        "",
        "address the coordinator listens on; 0.0.0.0: all of IPv4 and IPv6",
    ),
    Setting(
        "coordinator.advertisedAddress",
        str,
        "",
        "",
        "address executors use to reach the coordinator; empty: the one that it listens on, if "
        "that is one; else spark.driver.host, if that is an address of this host; else the one "
        "with the default route",
    ),
    Setting(
        "coordinator.port",
        str,
        "0",
        "",
        "port or range (5000-5100) of the coordinator; 0: any",
        form="port",
    ),
    Setting(
        "encrypt",
        str,
        "auto",
        "",
        "whether connections between agents, nodes, tasks and the coordinator are encrypted (TLS "
        "1.3 with keys made of the cluster's token). auto: all that leave a host; true: all over "
        "TCP, and no rdma; false: none",
        choices=("auto", "true", "false"),
    ),
    Setting(
        "scrape.token",
        str,
        "",
        "",
        "what Prometheus sends to read the metrics, 16 characters or more; empty: "
        "cluster.metrics_header has a new one for each cluster",
        form="token",
    ),
    Setting(
        "scrape.directory",
        str,
        "",
        "",
        "directory on the driver's host where each cluster has a file while it runs, for the "
        "file_sd_configs of Prometheus; empty: none",
    ),
    Setting(
        "connect.lease",
        float,
        60.0,
        "seconds",
        "with Spark Connect: how long the program that started the cluster may be silent, or "
        "cut off from Spark's server, before the cluster ends",
        minimum=5,
    ),
    Setting(
        "node.advertisedAddress",
        str,
        "",
        "",
        "address other nodes use to reach a node; empty: the one it reaches the coordinator from",
    ),
    Setting(
        "node.bindAddress",
        str,
        "all",
        "",
        "addresses of its host on which a node listens for rows, tensors and parameters. all: "
        "those of IPv4 and IPv6; advertised: only the one that others use to reach it",
        choices=("all", "advertised"),
    ),
    Setting(
        "node.startTimeout",
        float,
        600.0,
        "seconds",
        "how long a node may take to import and load the program once all nodes are there",
    ),
    Setting(
        "node.answerTimeout",
        float,
        30.0,
        "seconds",
        "how long a node's process may give no sign of life because it is frozen, or stuck in the "
        "kernel. A busy program gives signs of life. 0: for ever, for debuggers",
        maximum=24 * 3600,
    ),
    Setting(
        "node.stepTimeout",
        float,
        0.0,
        "seconds",
        "how long a node that makes steps may make none and read no row, though it does not wait "
        "for rows. It counts as hung then. More than an evaluation, a checkpoint or an export "
        "takes. 0: for ever",
        maximum=30 * 24 * 3600,
    ),
    Setting(
        "ports",
        str,
        "0",
        "",
        "port or range from which nodes take their ports, two each, and one more if Spark "
        "feeds it; 0: any",
        form="port",
    ),
    Setting(
        "slots.timeout",
        float,
        30.0,
        "seconds",
        "how long to wait for the next executor to register when there are fewer slots than "
        "nodes (for the first one: registration_timeout), and how long instances of "
        "tfos.parallel.run wait for GPUs",
    ),
    Setting(
        "heartbeat.interval",
        float,
        1.0,
        "seconds",
        "how often a node reports its metrics",
        minimum=0.01,
        maximum=3600,
    ),
    Setting(
        "heartbeat.timeout",
        float,
        10.0,
        "seconds",
        "how long a node may be silent before it counts as lost, and the coordinator before the "
        "cluster fails; longer than heartbeat.interval",
        minimum=0.1,
        maximum=24 * 3600,
    ),
    Setting(
        "maxLostNodes",
        int,
        0,
        "nodes",
        "in input mode spark: training nodes, other than the chief, that may die during a run "
        "without ending the cluster; the others get the rows that they had not read",
    ),
    Setting(
        "lateNodes",
        bool,
        True,
        "",
        "native parameter servers that are lost come again. With nodes=(least, most), nodes may "
        "join training that has begun, in place of lost ones or because they come late. false: "
        "all begin together, and lost ones stay away",
    ),
    Setting(
        "minNodes.timeout",
        float,
        300.0,
        "seconds",
        "how long nodes wait for a lost parameter server to come again. With nodes=(least, most), "
        "also for other nodes when they are fewer than the least number. Then the cluster fails. "
        "0, or without lateNodes: at once",
        maximum=24 * 3600,
    ),
    Setting(
        "restarts",
        int,
        15,
        "restarts",
        "how often a lost node is started again within hosts.lossPeriod: with nodes=(least, most), "
        "and a native parameter server. Then it is given up. With lateNodes=false none comes again",
        minimum=1,
        maximum=1_000_000,
    ),
    Setting(
        "hosts.maxLosses",
        int,
        3,
        "losses",
        "with nodes=(least, most): after this many lost nodes within hosts.lossPeriod, a host is "
        "avoided, and replacements start elsewhere. Program errors and announced losses don't "
        "count. 0: none is avoided",
    ),
    Setting(
        "hosts.lossPeriod",
        float,
        3600.0,
        "seconds",
        "how long the loss of a node counts against its host, and against the node. A host that is "
        "avoided is taken again once it has fewer losses in that time",
        maximum=30 * 24 * 3600,
    ),
    Setting(
        "stop.grace", float, 5.0, "seconds", "time between TERM and KILL when a node is stopped"
    ),
    Setting("feed.memory", int, 256 << 20, "bytes", "maximum memory for chunks in one node", 1),
    Setting(
        "feed.region",
        int,
        32 << 20,
        "bytes",
        "memory shared with one feeder; a node gives 32 MiB at most",
        1,
        maximum=32 << 20,  # FeedServerOptions::region_bytes of nodes.
    ),
    Setting("feed.chunk", int, 1 << 20, "bytes", "size a chunk is filled to", 1),
    Setting(
        "feed.jvm",
        str,
        "auto",
        "",
        "whether DataFrames, and RDDs that Spark holds pickled, are fed by the executors' "
        "JVMs, without Python workers; it needs the jar of tfos on the class path. auto: if it is "
        "there; on, off",
        choices=("auto", "on", "off"),
    ),
    Setting(
        "feed.pickle",
        bool,
        True,
        "",
        "rows, and results of inference, that don't fit into columns travel as pickles, which can "
        "run any code where they are read; false: they are refused",
    ),
    Setting(
        "feed.checkRetries",
        bool,
        True,
        "",
        "whether a task that Spark runs again compares its rows with those that it has fed before, "
        "and fails when they differ; false: it skips that many, whatever they are. Then "
        "tfos.run(resume=) begins an interrupted epoch anew",
    ),
    Setting(
        "feed.cacheMemory",
        int,
        1 << 30,
        "bytes",
        "maximum memory in one node for epochs that train(cache=...) keeps; the rest goes to files",
    ),
    Setting(
        "feed.cacheDirectory",
        str,
        "",
        "",
        "where a node keeps such files; empty: the executor's local directory",
    ),
    INFERENCE_JVM,
    Setting(
        "tensors.sharedMemory",
        bool,
        True,
        "",
        "nodes of one host that train together exchange tensors through shared memory, 2 MiB for "
        "each; false: over TCP",
    ),
    Setting(
        "rdma",
        str,
        "false",
        "",
        "nodes on different hosts that train together exchange tensors over UCX, through "
        "InfiniBand or RoCE if there is some. With true, they use TCP if UCX 1.14 or newer is "
        "missing; with required, they fail",
        choices=("false", "true", "required"),
    ),
    Setting(
        "tensors.regroupTimeout",
        float,
        60.0,
        "seconds",
        "how long nodes that train together may take to connect again when one was lost or has "
        "joined",
        minimum=1,
        maximum=24 * 3600,
    ),
    Setting(
        "tensors.timeline",
        str,
        "",
        "",
        "directory on the nodes' hosts where each training node writes how long its collective "
        "operations took, as a Chrome trace; empty: none",
    ),
    Setting(
        "gpu.count", int, 0, "GPUs", "whole GPUs for each node that computes; 0: none asked for"
    ),
    Setting(
        "gpu.countIfAny",
        int,
        0,
        "GPUs",
        "as gpu.count on hosts that have GPUs, where neither that nor gpu.fraction is set and "
        "Spark assigns none; nodes of other hosts start without",
    ),
    Setting(
        "gpu.fraction",
        float,
        0.0,
        "of a GPU",
        "share of one GPU for each node: nodes share GPUs, and TensorFlow, JAX or PyTorch takes "
        "that share of its memory. At most 0.9; 0: none asked for",
        maximum=0.9,
    ),
    Setting(
        "hadoop.schemes",
        str,
        "",
        "",
        "schemes that Hadoop's client serves, in nodes and tasks, besides hdfs and viewfs: "
        "s3a,abfs",
    ),
    Setting(
        "hadoop.jvmMemory",
        str,
        "",
        "",
        "maximum memory for Java objects in a node or task that uses them (-Xmx); empty: 256m",
        form="size",
    ),
    Setting("hadoop.jvmOptions", str, "", "", "further options of Java in such a node or task"),
    Setting(
        "keras.backend",
        str,
        "",
        "",
        "KERAS_BACKEND of the nodes. With jax or torch, they get the variables that JAX, PyTorch "
        "and keras.distribution read, and no TF_CONFIG; empty: what the executors' environment has",
        choices=("", "tensorflow", "jax", "torch"),
    ),
    Setting("python", str, "", "", "Python of the nodes; empty: that of the Spark tasks"),
    Setting(
        "log.level",
        str,
        "warn",
        "",
        "level of the coordinator's and agents' logs",
        choices=LOG_LEVELS,
    ),
    Setting(
        "progress",
        bool,
        True,
        "",
        "show the nodes while waiting: a line on standard error, or a view in a notebook's cell",
    ),
    Setting(
        "logs",
        str,
        "",
        "",
        "driver: what nodes write also goes to the driver's standard error, each line with its "
        "node's name, up to 20 lines a second of each node; empty: to the executors' logs alone",
        choices=("", "driver"),
    ),
)


def unknown_key(key: str) -> str:
    """For tfos itself: what is wrong with a key of the Spark configuration, which looks like a
    setting's and is none. "" for other keys."""
    known = [setting.key for setting in SETTINGS]
    if not key.startswith(PREFIX) or key in (*known, *PARAMETER_SERVERS):
        return ""
    near = difflib.get_close_matches(key, known, 1)
    hint = f"; is {near[0]} meant?" if near else "."
    return f"{key} is not a setting of tfos{hint} `tfos doctor --settings` lists them"


class Settings:
    """The settings of one cluster, read as attributes by keyword (``settings.feed_memory``)."""

    # No dataclass: its fields would repeat the names and types of SETTINGS, which every value is
    # checked against.

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getattr__(self, keyword: str) -> Any:
        try:
            return self.__dict__["_values"][keyword]
        except KeyError:
            raise AttributeError(keyword) from None

    @classmethod
    def resolve(cls, lookup: Callable[[str], str | None], keywords: Mapping[str, Any]) -> Settings:
        """For tfos itself: settings from ``keywords``, then from ``lookup(key)`` (None: not set),
        then defaults."""
        known = sorted(setting.keyword for setting in SETTINGS if not setting.of_session)
        unknown = sorted(set(keywords) - set(known))
        if unknown:
            near = {name: difflib.get_close_matches(name, known, 1) for name in unknown}
            hints = [
                f"{name} (is {match[0]} meant?)" if match else name for name, match in near.items()
            ]
            if "feed_timeout" in unknown:
                hints.append("feed_timeout is an argument of train and inference")
            raise BadInputError(
                f"unknown setting {', '.join(hints)}; known are: " + ", ".join(known)
            )
        values = {}
        for setting in SETTINGS:
            if setting.of_session:
                continue
            value = keywords.get(setting.keyword)
            if value is None:
                value = lookup(setting.key)
            values[setting.keyword] = setting.default if value is None else setting.read(value)
        resolved = cls(values)
        if resolved.heartbeat_timeout <= resolved.heartbeat_interval:
            raise BadInputError(
                f"spark.tfos.heartbeat.timeout={resolved.heartbeat_timeout:g} s must be longer "
                f"than spark.tfos.heartbeat.interval={resolved.heartbeat_interval:g} s: nodes "
                "would be lost between two heartbeats"
            )
        return resolved
