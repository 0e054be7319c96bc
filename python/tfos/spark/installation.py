"""Where Spark is installed, as seen by this process."""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

#: The setting that names the Python of the executors, and with it of the nodes.
PYTHON = "spark.pyspark.python"


def spark_home(environ: Mapping[str, str]) -> Path | None:
    """``SPARK_HOME`` if ``environ`` has it, else the installed pyspark; None: there is none."""
    if environ.get("SPARK_HOME"):
        return Path(environ["SPARK_HOME"])
    return pyspark_home()


def pyspark_home() -> Path | None:
    """The directory of the installed pyspark, which has Spark's jars.

    On YARN Spark puts a pyspark of its own, in a zip file and without jars, in front of it.
    """
    directories = [entry for entry in sys.path if os.path.isdir(entry)]
    spec = importlib.machinery.PathFinder.find_spec("pyspark", directories)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def version_of_spark(home: Path) -> str | None:
    """The version of the Spark in ``home``, as its jars are named; None where it has none there."""
    jar = next((home / "jars").glob("spark-core_*-*.jar"), None)
    # spark-core_SCALA-SPARK.jar
    return jar.stem.split("-", 2)[2] if jar else None


def spark_defaults(environ: Mapping[str, str]) -> tuple[Path | None, dict[str, str]]:
    """The file with Spark's defaults (spark-defaults.conf) and the properties in it, as
    spark-submit finds them; (None, {}) where there is none.

    Raises OSError for a file that can't be read.
    """
    home = spark_home(environ)
    directory = environ.get("SPARK_CONF_DIR") or (home / "conf" if home else None)
    if directory is None or not (Path(directory) / "spark-defaults.conf").is_file():
        return None, {}
    path = Path(directory) / "spark-defaults.conf"
    return path, read_properties(path)


def python_of_executors(conf: Mapping[str, str], environ: Mapping[str, str]) -> str | None:
    """The Python that is named for the executors, by spark-submit's rule; None: none is named.

    ``conf`` is all that is configured: Spark's defaults, and over them what a command line says.
    """
    return conf.get(PYTHON) or environ.get("PYSPARK_PYTHON") or None


def read_properties(path: Path) -> dict[str, str]:
    """The properties in a file like spark-defaults.conf. As Spark does, it takes bytes that are not
    UTF-8, such as those of a comment, for replacement characters.

    Raises OSError for a file that can't be read.
    """
    lines = (line.strip() for line in path.read_text("utf-8", errors="replace").splitlines())
    # A key, then white space, = or :, then its value, which may be missing.
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if _is_pair(line))
    return {pair[0]: pair[1] if len(pair) == 2 else "" for pair in pairs}


def _is_pair(line: str) -> bool:
    return bool(re.match(r"[^#!\s=:]", line))
