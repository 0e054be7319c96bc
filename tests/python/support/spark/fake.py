"""What stands for Spark's objects in a driver where a test needs no Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class FakeConf:
    """The part of SparkConf, and of Hadoop's Configuration, that is read."""

    def __init__(self, values: dict[str, str | None]):
        self._values = values

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._values.get(key, default)

    def getAll(self) -> list[tuple[str, str | None]]:
        return list(self._values.items())

    def contains(self, key: str) -> bool:
        return key in self._values


class FakeSparkContext:
    """`conf` and `hadoop_conf` are by key. The executors register one after the other, one at each
    look (`slots_by_look`). `jvm` is the session's that the test has, or there is one without the jar
    of tfos, on Java `java`; `jars` are those that Spark lists.
    """

    def __init__(
        self,
        master: str = "local",
        *,
        version: str = "4.1.4",
        jars: str = "",
        jvm: Any = None,
        java: str = "17",
        slots_by_look: tuple[int, ...] | list[int] = (),
        conf: dict[str, str] | None = None,
        hadoop_conf: dict[str, str | None] | None = None,
    ):
        self.master = master
        self.version = version
        self.looks = list(slots_by_look)
        self._conf = FakeConf(conf or {})
        self._jvm = jvm or SimpleNamespace(
            java=SimpleNamespace(
                lang=SimpleNamespace(System=SimpleNamespace(getProperty=lambda name: java))
            ),
            tfos=SimpleNamespace(
                internal=SimpleNamespace(feed=SimpleNamespace(FrameFeeder=object()))
            ),
        )
        profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
        context = SimpleNamespace(
            listJars=lambda: SimpleNamespace(mkString=lambda separator: jars),
            resourceProfileManager=lambda: profiles,
            maxNumConcurrentTasks=self._slots,
            conf=lambda: None,
        )
        hadoop = FakeConf(hadoop_conf or {})
        self._jsc = SimpleNamespace(sc=lambda: context, hadoopConfiguration=lambda: hadoop)

    def getConf(self) -> FakeConf:
        return self._conf

    def _slots(self, profile: str) -> int:
        assert profile == "default"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def fake_session(context: FakeSparkContext | None = None, **conf: str) -> Any:
    """A SparkSession; `conf` are settings of its own, by the ends of their keys."""
    return SimpleNamespace(
        sparkContext=context or FakeSparkContext(),
        conf=SimpleNamespace(get=lambda key, default: conf.get(key.rpartition(".")[2], default)),
    )
