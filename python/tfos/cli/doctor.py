"""The Python side of ``tfos doctor``: what an installation consists of, and what it lacks.

``python -m tfos.cli.doctor`` prints a JSON list of checks, which the executable shows among its
own; ``--settings`` prints the table of settings. Nothing here imports TensorFlow but the last step
of ``--hdfs``: that takes seconds, and the versions are in the packages' metadata.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfos._version import __version__
from tfos.base import encryption
from tfos.cli.checks import FAIL, OK, WARN, Check
from tfos.spark import rpc_security, versions
from tfos.spark.installation import (
    pyspark_home,
    spark_defaults,
    spark_home,
    version_of_spark,
)

_OLDEST_PYTHON = (3, 11)
#: What the code is written for, and what of it was run.
_TENSORFLOW = ((2, 16), (2, 21))
_TESTED_TENSORFLOW = "tested with 2.21, and less often with 2.16 and 2.18 (docs/versions.md)"
_OLDEST_SPARK = (3, 5)
_OLDEST_UCX = "1.14"
_TESTED_SPARK = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))
_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm")
#: tfos is not on PyPI: the wheel is built from a checkout.
_INSTALL_THE_WHEEL = "install the wheel: pip install . in a checkout of tfos"
_HADOOP_JARS = ("hadoop-client-api-", "hadoop-client-runtime-")

#: The check of this package's own version, which must be the same on all hosts.
TFOS = "tfos"

#: The check of what protects Spark's own connections.
RPC = "Spark's RPC"

VersionOf = Callable[[str], str | None]


def installed_version(package: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def all_checks(
    environ: Mapping[str, str] = os.environ, version_of: VersionOf = installed_version
) -> list[Check]:
    """Every check, in the order of the report."""
    spark = spark_home(environ)
    return [
        check_python(sys.version_info[:3]),
        check_tfos(),
        check_extension(),
        check_executable(),
        check_jar(version_of, spark),
        check_spark(version_of, spark),
        check_rpc_of_defaults(environ, version_of),
        check_hadoop_client(),
        check_hadoop_configuration(environ),
        check_tensorflow(version_of),
        check_keras(version_of),
        check_tensorboard(version_of),
        check_pyarrow(version_of),
        check_ucx(),
        check_encryption(environ),
        check_required("cloudpickle", version_of),
        check_required("numpy", version_of),
    ]


def check_python(version: Sequence[int]) -> Check:
    found = f"{'.'.join(map(str, version))} at {sys.executable}"
    if tuple(version[:2]) < _OLDEST_PYTHON:
        return Check(FAIL, "Python", found, f"use Python {_dotted(_OLDEST_PYTHON)} or newer")
    return Check(OK, "Python", found)


def check_tfos() -> Check:
    return Check(OK, TFOS, __version__)


def check_extension() -> Check:
    what = "Python extension"
    try:
        from tfos import _native
    except ImportError as error:
        return Check(FAIL, what, str(error), _INSTALL_THE_WHEEL)
    return Check(OK, what, _native.__file__)


def check_executable() -> Check:
    from tfos.base import executable
    from tfos.errors import TfosError

    try:
        return Check(OK, "tfos executable", executable.path())
    except TfosError as error:
        return Check(FAIL, "tfos executable", str(error), _INSTALL_THE_WHEEL)


def check_jar(version_of: VersionOf, home: Path | None) -> Check:
    from tfos.errors import TfosError
    from tfos.spark import jar

    what = "jar for the JVM"
    without = (
        "without it Python workers feed and score, more slowly, and programs in Scala and Java "
        "don't run: "
    )
    try:
        path = jar.path()
    except TfosError as error:
        return Check(WARN, what, str(error), f"{without}build the wheel where Maven is installed")
    spark = (home and version_of_spark(home)) or version_of("pyspark")
    if spark and (reason := versions.why_not_spark(spark)):
        return Check(WARN, what, f"{path}: {reason}", f"{without}use such a Spark")
    return Check(OK, what, path)


def check_spark(version_of: VersionOf, home: Path | None) -> Check:
    version = version_of("pyspark")
    if version is None and home is None:
        return Check(
            FAIL,
            "pyspark",
            "not installed",
            "pip install pyspark, or set SPARK_HOME and PYTHONPATH",
        )
    there = None
    if home is not None and home != pyspark_home():
        spec = importlib.util.find_spec("pyspark")
        has_it = bool(
            spec and spec.origin and Path(spec.origin).resolve().is_relative_to(home.resolve())
        )
        there = version_of_spark(home)
        if has_it:
            version = there or version
        elif wrong := _check_spark_home(home, there, version):
            return wrong
    if version is None:
        return Check(OK, "pyspark", f"from {home}")
    found = (
        f"{version} at {home}"
        if there in (None, version)
        else f"{version}, Spark {there} at {home}"
    )
    if _numbers(version) < _OLDEST_SPARK:
        return Check(
            WARN,
            "pyspark",
            found,
            f"made for {_dotted(_OLDEST_SPARK)} and newer, tested with "
            f"{_dotted(_TESTED_SPARK[0])} to {_dotted(_TESTED_SPARK[-1])}: upgrade",
        )
    if _numbers(version) not in _TESTED_SPARK:
        tested = f"{_dotted(_TESTED_SPARK[0])} to {_dotted(_TESTED_SPARK[-1])}"
        found += f"; tested with {tested}"
    if not versions.has_python_data_sources(version):
        found += '; format("tfrecord") needs the jar here'
    return Check(OK, "pyspark", found)


def _check_spark_home(home: Path, there: str | None, version: str | None) -> Check | None:
    """What is wrong with a SPARK_HOME that does not have the pyspark of this Python."""
    if not (home / "bin" / "spark-submit").is_file():
        return Check(
            FAIL,
            "pyspark",
            f"SPARK_HOME={home} has no bin/spark-submit",
            "unset SPARK_HOME, or set it to the folder of a Spark",
        )
    if version is None or there is None or _numbers(there) == _numbers(version):
        return None
    return Check(
        WARN,
        "pyspark",
        f"{version}, but SPARK_HOME={home} has Spark {there}",
        f'unset SPARK_HOME, or pip install "pyspark=={_dotted(_numbers(there))}.*": a program that '
        "runs without spark-submit or `tfos submit` may fail, as with 'JavaPackage' object is not "
        "callable",
    )


def check_encryption(environ: Mapping[str, str]) -> Check:
    """As Spark's own configuration on this host has it; a program or a session may say another."""
    what = "encryption of tfos"
    try:
        _, defaults = spark_defaults(environ)
    except OSError as error:
        return Check(WARN, what, str(error), "let this user read Spark's defaults")
    setting = defaults.get(encryption.KEY, "auto").lower()
    try:
        found = encryption.in_force(setting)
    except KeyError:
        return Check(FAIL, what, f"{encryption.KEY}={setting}", "set it to auto, true or false")
    if setting == "false":
        return Check(WARN, what, found, f"set {encryption.KEY}=auto unless nobody can listen")
    return Check(OK, what, found)


def check_rpc(get: rpc_security.Get, master: str, version: str) -> Check:
    """Whether Spark's RPC is authenticated and encrypted, of an application so configured."""
    if rpc_security.is_local(master):
        return Check(OK, RPC, f"only this host takes part ({master})")
    security = rpc_security.rpc_security(get, master, version)
    if security.protected:
        return Check(OK, RPC, security.found)
    return Check(
        WARN,
        RPC,
        f"{security.found}: {security.meaning}",
        f"unless all on the network are trusted, {security.advice}",
    )


def check_rpc_of_defaults(environ: Mapping[str, str], version_of: VersionOf) -> Check:
    """The same of applications that say nothing of it themselves."""
    try:
        file, defaults = spark_defaults(environ)
    except OSError as error:
        return Check(WARN, RPC, str(error), "let this user read Spark's defaults")
    if file is None:
        return Check(
            OK, RPC, "no spark-defaults.conf: as each application sets it (docs/security.md)"
        )
    master = defaults.get("spark.master", "")
    # Without pyspark its version is not known; then what newer ones know counts.
    check = check_rpc(defaults.get, master, version_of("pyspark") or "4.0")
    found = f"{check.found}, by {file}"
    if not master:  # A program may run on this host alone, or set it itself.
        return Check(OK, RPC, f"{found}, which names no spark.master")
    return dataclasses.replace(check, found=found)


def check_hadoop_client() -> Check:
    """Checks the environment of this process, as the client itself looks for its jars."""
    from tfos.errors import TfosError

    what = "Hadoop client"
    try:
        from tfos.files import hadoop_client

        class_path = hadoop_client.client().class_path()
    except (ImportError, TfosError) as error:
        return Check(WARN, what, str(error), "without it hdfs:// paths can't be used")
    jars = [entry for entry in class_path if os.path.basename(entry).startswith(_HADOOP_JARS)]
    return Check(OK, what, ", ".join(jars))


def check_hadoop_configuration(environ: Mapping[str, str]) -> Check:
    what = "Hadoop configuration"
    directory = environ.get("HADOOP_CONF_DIR")
    if directory is None and "HADOOP_HOME" in environ:
        directory = str(Path(environ["HADOOP_HOME"]) / "etc" / "hadoop")
    if directory is None:
        return Check(
            OK, what, "neither HADOOP_CONF_DIR nor HADOOP_HOME is set: Spark's own settings"
        )
    if not (Path(directory) / "core-site.xml").is_file():
        return Check(
            WARN,
            what,
            f"no core-site.xml in {directory}",
            "point HADOOP_CONF_DIR at the configuration of the cluster",
        )
    return Check(OK, what, directory)


def tensorflow_requirement() -> str:
    """The versions of TensorFlow that the code is written for, as pip takes them."""
    oldest, (major, minor) = _TENSORFLOW
    return f"tensorflow>={_dotted(oldest)},<{major}.{minor + 1}"


def check_tensorflow(version_of: VersionOf) -> Check:
    what = "TensorFlow"
    installed = {name: version for name in _TENSORFLOW_PACKAGES if (version := version_of(name))}
    oldest, newest = _TENSORFLOW
    if not installed:
        advice = f'pip install "{tensorflow_requirement()}"'
        others = [f"{name} {version}" for name in ("jax", "torch") if (version := version_of(name))]
        if others:
            return Check(
                WARN,
                what,
                f"not installed; there is {', '.join(others)}",
                f"{advice}, unless nodes use keras_backend or no Keras (docs/backends.md)",
            )
        return Check(FAIL, what, "not installed", advice)
    package, version = next(iter(installed.items()))
    found = f"{version} ({package})"
    if not oldest <= _numbers(version) <= newest:
        made_for = f"made for {_dotted(oldest)} to {_dotted(newest)}"
        return Check(
            WARN,
            what,
            found,
            f"{made_for}, {_TESTED_TENSORFLOW}: install one of them if something fails",
        )
    return Check(
        OK, what, found if _numbers(version) == newest else f"{found}; {_TESTED_TENSORFLOW}"
    )


def check_keras(version_of: VersionOf) -> Check:
    keras, legacy = version_of("keras"), version_of("tf_keras")
    if keras is None and legacy is None:
        return Check(WARN, "Keras", "not installed", "pip install keras, if programs use tf.keras")
    parts = [f"Keras {keras}"] if keras else []
    parts += [f"legacy tf_keras {legacy}"] if legacy else []
    return Check(OK, "Keras", ", ".join(parts))


def check_tensorboard(version_of: VersionOf) -> Check:
    version = version_of("tensorboard")
    if version is None:
        return Check(
            WARN,
            "TensorBoard",
            "not installed",
            "pip install tensorboard: tf.summary and tensorboard=True need it",
        )
    return Check(OK, "TensorBoard", version)


def check_pyarrow(version_of: VersionOf) -> Check:
    version = version_of("pyarrow")
    if version is None:
        return Check(
            WARN,
            "pyarrow",
            "not installed",
            "pip install pyarrow: DataFrames, TFRecords and models over rows need it",
        )
    return Check(OK, "pyarrow", version)


def check_required(package: str, version_of: VersionOf) -> Check:
    version = version_of(package)
    if version is None:
        return Check(FAIL, package, "not installed", f"pip install {package}")
    return Check(OK, package, version)


def check_ucx(packaged: str | None = None, devices: Path = Path("/sys/class/infiniband")) -> Check:
    """The UCX that nodes of this host would use, found as they find it."""
    from tfos.base.libraries import ucx
    from tfos.errors import TfosError

    what = "UCX (rdma=True)"
    try:
        from tfos import _native

        file, version, has_verbs = _native.find_ucx(
            ucx.packaged() if packaged is None else packaged
        )
    except (ImportError, TfosError) as error:
        return Check(WARN, what, str(error), "only clusters with rdma=True need it")
    found = f"{version} at {file}"
    if has_verbs:
        return Check(OK, what, found)
    found += ", without InfiniBand and RoCE"
    here = sorted(entry.name for entry in devices.iterdir()) if devices.is_dir() else []
    if here:
        return Check(
            WARN,
            what,
            f"{found}, and this host has {', '.join(here)}",
            f"install a UCX of {_OLDEST_UCX} or newer with InfiniBand on this host",
        )
    return Check(OK, what, found)


def settings_table() -> str:
    """The settings as aligned text: key, default with unit, meaning."""
    from tfos.settings import SETTINGS

    rows = [
        (setting.key, f"{_shown(setting.default)} {setting.unit}".strip(), setting.meaning)
        for setting in SETTINGS
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(
        f"{key:<{widths[0]}}  {default:<{widths[1]}}  {meaning}" for key, default, meaning in rows
    )


def settings_json() -> list[dict[str, object]]:
    from tfos.settings import SETTINGS

    return [
        {
            "key": setting.key,
            "keyword": setting.keyword,
            "type": setting.type.__name__,
            "default": setting.default,
            "unit": setting.unit,
            "meaning": setting.meaning,
        }
        for setting in SETTINGS
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tfos.cli.doctor", description="see tfos doctor"
    )
    parser.add_argument("--settings", action="store_true", help="print the table of settings")
    parser.add_argument("--json", action="store_true", help="print the settings as JSON")
    parser.add_argument("--hdfs", metavar="URI", help="check a directory on HDFS step by step")
    options = parser.parse_args(arguments)
    if options.settings:
        print(json.dumps(settings_json(), indent=2) if options.json else settings_table())
        return 0
    if options.hdfs:
        from tfos.cli import doctor_hdfs

        doctor_hdfs.shorten_timeouts()
        checks = [
            check_hadoop_client(),
            check_hadoop_configuration(os.environ),
            *doctor_hdfs.hdfs_checks(options.hdfs),
        ]
    else:
        checks = all_checks()
    print(json.dumps([dataclasses.asdict(check) for check in checks]))
    return int(any(check.level == FAIL for check in checks))


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return '""' if default == "" else str(default)


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor of a version: ``2.21.0rc1`` is (2, 21)."""
    major, minor = (*version.split("."), "0")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main())
