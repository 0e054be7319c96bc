"""Every setting of tfos, defined once.

A setting is the Spark configuration key ``spark.tfos.<name>``, and a keyword of :func:`tfos.run`
with the dots and capitals of its name written as underscores (``coordinator.bindAddress`` is
``coordinator_bind_address``), unless it is one of the session. A keyword wins over
the configuration, which wins over the default. ``tfos doctor --settings`` prints this table.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tfos.base import quantities
from tfos.errors import BadInputError

PREFIX = "spark.tfos."

#: Programs read them (:mod:`tfos.util`), tfos does not. The second is that of Hopsworks' sessions.
PARAMETER_SERVERS = ("spark.tfos.parameterServers", "spark.tensorflow.num.ps")


#: What a time may be at most: beyond it nobody waits, and the wire's milliseconds stay exact.
MOST_SECONDS = 365 * 24 * 3600.0
_MOST_BYTES = 1 << 50

#: As Spark names them.
LOG_LEVELS = ("all", "trace", "debug", "info", "warn", "warning", "error", "fatal", "off")


@dataclass(frozen=True)
class Setting:
    """One setting: what it is called, how its text is read, what it is when nobody says."""

    name: str
    type: type
    default: Any
    unit: str
    meaning: str
    minimum: float = 0  # of numbers
    maximum: float = math.inf  # of numbers; times and sizes have a bound of their own
    choices: tuple[str, ...] = ()  # of a text: all that it may be, in lower case; none: anything
    form: str = ""  # of a text: "port" or "size"
    of_session: bool = False  # read of the SparkSession, whatever clusters it has

    @property
    def key(self) -> str:
        return PREFIX + self.name

    @property
    def keyword(self) -> str:
        """Of :func:`tfos.run`; "" for those of a session."""
        if self.of_session:
            return ""
        return re.sub(r"([A-Z])", r"_\1", self.name.replace(".", "_")).lower()

    def of(self, spark: Any) -> Any:
        """What a SparkSession has it set to."""
        value = spark.conf.get(self.key, None)
        return self.default if value is None else self.read(value)

    def read(self, value: Any) -> Any:
        """``value`` as this setting's type; a :class:`BadInputError` names the key and the text."""
        try:
            if self.type is bool:
                return _read_bool(value)
            if self.type in (int, float):
                number = quantities.read_number(value, self.unit, whole=self.type is int)
                self._check_bounds(value, number)
                return number
        except BadInputError:
            raise  # It says what is wrong already.
        except (TypeError, ValueError, OverflowError) as error:
            raise BadInputError(f"{self.key}={value!r}: expected {self._expected()}") from error
        read = str(value)
        if self.choices:
            read = read.strip().lower()
            if read not in self.choices:
                raise BadInputError(
                    f"{self.key}={value!r} is none of {', '.join(self.choices)} ({self.meaning})"
                )
        if self.form and read and not _HAS_FORM[self.form](read):
            raise BadInputError(f"{self.key}={value!r}: expected {self._expected()}")
        return read

    def _expected(self) -> str:
        """What a value looks like, for errors."""
        form = self.form or self.unit
        default = f", default {self.default}" if self.default != "" else ""
        return f"{_FORMS.get(form, _TYPE_NAMES[self.type])} ({self.meaning}{default})"

    def _check_bounds(self, value: Any, read: float) -> None:
        most = min(self.maximum, _MOST.get(self.unit, math.inf))
        if not read >= self.minimum:
            raise BadInputError(
                f"{self.key}={value!r} is too small: at least {self.minimum:g} {self.unit} "
                f"({self.meaning})"
            )
        if read > most:
            raise BadInputError(
                f"{self.key}={value!r} is too large: at most {most:.16g} {self.unit} "
                f"({self.meaning})"
            )


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_HAS_FORM = {"port": quantities.is_port_range, "size": quantities.is_size}
_FORMS = {
    "seconds": "a time such as 30, 30s, 10min or 2h",
    "bytes": "a size such as 268435456, 256m or 1g",
    "size": "a size such as 256m or 1g",
    "port": "a port or a range of ports such as 5000-5100",
}
_MOST = {"seconds": MOST_SECONDS, "bytes": _MOST_BYTES}


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    word = str(value).strip().lower()
    if word not in words:
        raise ValueError(value)
    return words[word]


INFERENCE_JVM = Setting(
    "inference.jvm",
    str,
    "auto",
    "",
    "whether the transform of models runs in the executors' JVMs, without Python workers; it takes "
    "the "
    "jar of tfos on the class path. auto: if it is there; on, off. A session may change it "
    "(spark.conf.set)",
    choices=("auto", "on", "off"),
    of_session=True,
)

SETTINGS: tuple[Setting, ...] = (
    Setting("coordinator.bindAddress", str, "0.0.0.0", "", "address the coordinator listens on"),
    Setting(
        "coordinator.advertisedAddress",
        str,
        "",
        "",
        "address executors use to reach the coordinator; empty: the one with the default route",
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
        "node.advertisedAddress",
        str,
        "",
        "",
        "address other nodes use to reach a node; empty: the one it reaches the coordinator from",
    ),
    Setting(
        "node.startTimeout",
        float,
        600.0,
        "seconds",
        "how long a node may take to import and load the program once all nodes are there",
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
        "how long to wait for executors to register when there are fewer slots than nodes",
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
        "how long a node may be silent before it counts as lost; longer than heartbeat.interval",
        minimum=0.1,
        maximum=24 * 3600,
    ),
    Setting(
        "maxLostNodes",
        int,
        0,
        "nodes",
        "training nodes but the chief that may die in mid-run without ending the cluster; the "
        "others get the rows that they had not read",
    ),
    Setting(
        "stop.grace", float, 5.0, "seconds", "time between TERM and KILL when a node is stopped"
    ),
    Setting(
        "feed.bindAddress",
        str,
        "0.0.0.0",
        "",
        "address a node listens on for feeders of other hosts",
    ),
    Setting("feed.memory", int, 256 << 20, "bytes", "most memory for chunks in one node", 1),
    Setting("feed.region", int, 32 << 20, "bytes", "memory shared with one feeder", 1),
    Setting("feed.chunk", int, 1 << 20, "bytes", "size a chunk is filled to", 1),
    Setting(
        "feed.jvm",
        str,
        "auto",
        "",
        "whether DataFrames, and RDDs that Spark holds pickled, are fed by the executors' "
        "JVMs, without Python workers; it takes the jar of tfos on the class path. auto: if it is "
        "there; on, off",
        choices=("auto", "on", "off"),
    ),
    Setting(
        "feed.cacheMemory",
        int,
        1 << 30,
        "bytes",
        "most memory in one node for epochs that train(cache=...) keeps; the rest goes to files",
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
        "tensors.encrypt",
        bool,
        False,
        "",
        "nodes that train together, and their parameter servers, encrypt the tensors that "
        "leave their "
        "host (TLS 1.3 with keys made of the cluster's token); refused together with rdma",
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
        "tensors.timeline",
        str,
        "",
        "",
        "directory on the nodes' hosts where each training node writes what its collective "
        "operations "
        "took, as a Chrome trace; empty: none",
    ),
    Setting(
        "gpu.count", int, 0, "GPUs", "whole GPUs for each node that computes; 0: none asked for"
    ),
    Setting(
        "gpu.countIfAny",
        int,
        0,
        "GPUs",
        "as gpu.count on hosts that have GPUs, where neither that nor gpu.fraction is set "
        "and Spark "
        "assigns none; nodes of other hosts start without",
    ),
    Setting(
        "gpu.fraction",
        float,
        0.0,
        "of a GPU",
        "share of one GPU for each node, 0.1 to 0.9: nodes share GPUs, and TensorFlow "
        "takes so much of the "
        "memory",
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
        "most memory of Java objects in a node or task that uses them (-Xmx); empty: 256m",
        form="size",
    ),
    Setting("hadoop.jvmOptions", str, "", "", "further options of Java in such a node or task"),
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
        "progress", bool, True, "", "print a line about the nodes to standard error while waiting"
    ),
)


def unknown_key(key: str) -> str:
    """What is wrong with a key of the Spark configuration: that it looks like a setting's and is
    none. "" for other keys."""
    known = [setting.key for setting in SETTINGS]
    if not key.startswith(PREFIX) or key in (*known, *PARAMETER_SERVERS):
        return ""
    near = difflib.get_close_matches(key, known, 1)
    hint = f"; is {near[0]} meant?" if near else "."
    return f"{key} is no setting of tfos{hint} `tfos doctor --settings` lists them"


class Settings:
    """The settings of one cluster, read as attributes by keyword (``settings.feed_memory``)."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getattr__(self, keyword: str) -> Any:
        try:
            return self.__dict__["_values"][keyword]
        except KeyError:
            raise AttributeError(keyword) from None

    @classmethod
    def resolve(cls, lookup: Callable[[str], str | None], keywords: Mapping[str, Any]) -> Settings:
        """Settings from ``keywords``, then from ``lookup(key)`` (None: not set), then defaults."""
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
