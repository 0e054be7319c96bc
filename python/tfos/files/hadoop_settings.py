"""How Hadoop's client in a process of the cluster comes to the settings of the Spark session.

It reads environment variables (docs/hdfs.md), so that any process can be told.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from tfos import _native
from tfos.files.hadoop_client import SCHEMES_VARIABLE
from tfos.settings import Settings

logger = logging.getLogger(__name__)

#: Environment variable with properties that go over the configuration's files, a JSON object.
PROPERTIES_VARIABLE = "TFOS_HADOOP_PROPERTIES"

#: Names of properties whose values are secret, such as ``fs.s3a.secret.key``: those that Spark
#: hides in its own pages, and what clouds call theirs.
SECRET = re.compile(
    r"secret|passw|token|credential|\.sas\."
    r"|(access|account|api|application|auth|encryption|private)[._-]?key",
    re.IGNORECASE,
)

#: The Spark configuration's prefix of Hadoop's own properties.
_SPARK_PREFIX = "spark.hadoop."

_lock = threading.Lock()
#: What this process has adopted.
_adopted: dict[str, str] = {}


def environment(spark_conf: Any, settings: Settings) -> dict[str, str]:
    """The variables for the processes of a cluster: the session's ``spark.hadoop.*`` properties
    and ``spark.tfos.hadoop.*`` settings. What is not set there is left to the hosts.

    Args:
        spark_conf: the SparkConf of the running session. Its properties may be secrets, so the
            result is not for logs.
    """
    return _variables(spark_conf.getAll(), settings)


def of_configuration(conf: Mapping[str, str]) -> dict[str, str]:
    """The :func:`environment` of what is configured for a session that has not started."""
    return _variables(conf.items(), Settings.resolve(conf.get, {}))


def _variables(pairs: Iterable[tuple[str, str]], settings: Settings) -> dict[str, str]:
    variables = {
        PROPERTIES_VARIABLE: properties(pairs),
        SCHEMES_VARIABLE: settings.hadoop_schemes,
        "TFOS_HADOOP_JVM_MEMORY": settings.hadoop_jvm_memory,
        "TFOS_HADOOP_JVM_OPTIONS": settings.hadoop_jvm_options,
    }
    return {name: value for name, value in variables.items() if value}


def of_session(spark_context: Any) -> dict[str, str]:
    """The :func:`environment` of a session's configuration, for what runs outside of a cluster."""
    conf = spark_context.getConf()
    return environment(conf, Settings.resolve(conf.get, {}))


def properties(pairs: Iterable[tuple[str, str]]) -> str:
    """The properties of Hadoop among Spark's as a JSON object; "" if there are none."""
    found = {
        name.removeprefix(_SPARK_PREFIX): value
        for name, value in pairs
        if name.startswith(_SPARK_PREFIX)
    }
    return json.dumps(found) if found else ""


def adopt(variables: Mapping[str, str]) -> None:
    """Gives them to Hadoop's client of this process in place of those adopted before, which were
    another session's. Those that the process has of its own, or from its parent, stay.

    The client takes them at its first use. A warning says so where it has others. Threads: any.
    """
    changes = False
    with _lock:
        for name in {**_adopted, **variables}:
            if name in os.environ and not _is_adopted(name, os.environ[name]):
                continue
            value = variables.get(name)
            # Schemes are looked up with each path.
            changes |= value != _adopted.get(name) and name != SCHEMES_VARIABLE
            if value is None:
                os.environ.pop(name, None)
                _adopted.pop(name)
            else:
                os.environ[name] = _adopted[name] = value
    if changes and _native.hadoop_is_in_use():
        logger.warning(
            "Hadoop's client of this process is in use already, so the session's spark.hadoop.* "
            "and spark.tfos.hadoop.* settings don't take effect in it. Start the process again, "
            "such as the kernel of a notebook, if files need them"
        )


def without_adopted(environment: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without what was adopted, for what another session starts."""
    return {name: value for name, value in environment.items() if not _is_adopted(name, value)}


def _is_adopted(name: str, value: str) -> bool:
    given = _adopted.get(name)
    return given is not None and value in (given, _without_secrets(given))


def hide_secrets() -> None:
    """Takes secret properties out of the environment, which all that this process starts would
    inherit. Hadoop's client of this process keeps them.

    To be called before the client's first use. A value that is not as it should be is left to the
    client, which says so.
    """
    text = os.environ.get(PROPERTIES_VARIABLE, "")
    shown = _without_secrets(text)
    if shown != text:
        os.environ[PROPERTIES_VARIABLE] = shown
        _native.set_hadoop_properties(shown, text)


def _without_secrets(text: str) -> str:
    """Properties without those that are secret; ``text`` itself if there are none."""
    try:
        given = json.loads(text)
    except ValueError:
        return text
    if not isinstance(given, dict):
        return text
    shown = {name: value for name, value in given.items() if not SECRET.search(name)}
    return text if len(shown) == len(given) else json.dumps(shown)


def signal_chain(environment: Mapping[str, str]) -> str:
    """The library of the host's Java that lets other handlers of its signals (``faulthandler``)
    stand beside its own, for LD_PRELOAD; "" where there is none."""
    home = environment.get("JAVA_HOME") or _home_on_path(environment.get("PATH", ""))
    library = os.path.join(home, "lib", "libjsig.so")
    return library if home and os.path.isfile(library) else ""


def _home_on_path(path: str) -> str:
    java = shutil.which("java", path=path)
    return os.path.dirname(os.path.dirname(os.path.realpath(java))) if java else ""
