"""The jar for the JVM of this installation (docs/jvm.md): where it is, and whether Spark has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tfos import _version
from tfos.errors import BadInputError, TfosError
from tfos.spark import failures, versions
from tfos.spark.connect import ConnectContext

#: Where Spark's configuration names the jars that executors have.
_JARS_OF_EXECUTORS = ("spark.jars", "spark.yarn.dist.jars", "spark.executor.extraClassPath")


def path() -> str:
    """Absolute path of the jar inside the installed package. What the jar says goes wrong is an
    error of tfos in this process from now on."""
    failures.install()
    directory = Path(__file__).resolve().parent.parent / "jars"
    found = sorted(directory.glob("tfos_*.jar"))
    if not found:
        raise TfosError(
            f"{directory} has no jar: this copy of the package was built without. "
            "Install the wheel (pip install .) where Maven is installed."
        )
    return str(found[0])


def why_unused(sc: Any, key: str, wanted: str) -> str:
    """Why executors' JVMs don't do what the setting ``key`` is about, which is ``wanted``: auto, on
    or off. "" when they do. Raises :class:`BadInputError` when they must and can't."""
    if wanted == "off":
        return f"{key} is off"
    found = obstacle(sc)
    if found and wanted == "on":
        raise BadInputError(f"{key} is on, and {found}")
    return found


def obstacle(sc: Any) -> str:
    """Why the jar can't be used in this session of Spark; "" when it can."""
    if isinstance(sc, ConnectContext):
        return "a session of Spark Connect can't ask the server's JVM for the jar of tfos"
    from py4j.java_gateway import JavaClass

    if reason := why_unloadable(sc):
        return reason
    feeder = sc._jvm.tfos.internal.feed.FrameFeeder
    if not isinstance(feeder, JavaClass):
        return (
            "the jar of tfos is not on the driver's class path: start Spark with "
            "--jars or spark.jars and the path that tfos.jar_path() gives"
        )
    version = feeder.version()
    if version != _version.__version__:
        return (
            f"the jar of tfos on the class path is version {version}, and the package "
            f"{_version.__version__}"
        )
    return _missing_on_executors(sc, feeder.location())


def why_unloadable(sc: Any) -> str:
    """Why this Spark can't load the jar's classes, so that none may be asked for; "" when it can.

    An older Java ends the connection of py4j when it finds classes of a newer one.
    """
    if reason := versions.why_not_spark(sc.version):
        return reason
    return versions.why_not_java(sc._jvm.java.lang.System.getProperty("java.specification.version"))


def _missing_on_executors(sc: Any, jar: str) -> str:
    """Why executors won't have the ``jar`` that the driver has; "" when nothing speaks against
    it."""
    directory, name = os.path.split(jar)
    in_driver = sc.master.startswith("local") and not sc.master.startswith("local-cluster")
    conf = sc.getConf()
    named = " ".join(
        [sc._jsc.sc().listJars().mkString(" "), *(conf.get(key, "") for key in _JARS_OF_EXECUTORS)]
    )
    if in_driver or name in named or f"{directory}/*" in named:
        return ""
    spark = sc._jvm.java.lang.Class.forName("org.apache.spark.SparkContext")
    if directory == os.path.dirname(
        spark.getProtectionDomain().getCodeSource().getLocation().getPath()
    ):
        return ""  # beside Spark's own jars
    return (
        f"the driver has {jar}, and nothing says that the executors have it too: name it in "
        "spark.jars (--jars) or spark.executor.extraClassPath"
    )
