"""Where Spark is installed, as seen by this process."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Mapping
from pathlib import Path


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
