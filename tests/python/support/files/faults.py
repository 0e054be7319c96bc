"""A file system of Hadoop's that fails when it is told to: tests/java/FaultyFileSystem.java."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

from support.places import ROOT

SCHEME = "faulty"
_SOURCE = ROOT / "tests" / "java" / "FaultyFileSystem.java"
_SERVICES = "META-INF/services/org.apache.hadoop.fs.FileSystem"


class Faults:
    """Plans what is to fail in every process that has its `environment`.

    Makes the class path and the plan below `directory`; needs a JDK.
    """

    def __init__(self, directory: pathlib.Path):
        import pyspark

        classes = directory / "classes"
        (classes / _SERVICES).parent.mkdir(parents=True)
        (classes / _SERVICES).write_text("tfos.testing.FaultyFileSystem\n")
        home = os.environ.get("JAVA_HOME")
        javac = shutil.which("javac", path=f"{home}/bin" if home else None)
        assert javac is not None, "javac was not found: install a JDK"
        [client] = (pathlib.Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
        subprocess.run(
            [javac, "--release", "11", "-cp", str(client), "-d", str(classes), str(_SOURCE)],
            check=True,
        )
        self._plan = directory / "plan"
        self._plan.touch()
        self.environment = {
            "HADOOP_CLASSPATH": str(classes),
            "TFOS_HADOOP_SCHEMES": SCHEME,
            "TFOS_TEST_FAULTS": str(self._plan),
        }

    def inject(self, operation: str, number: int = 1) -> None:
        """The `number`-th such operation from now on fails, and after it none."""
        self._plan.write_text(f"{operation} {number}")

    @property
    def waiting(self) -> str:
        """What is planned and has not failed yet; "" for nothing."""
        return self._plan.read_text()

    def clear(self) -> None:
        self._plan.write_text("")
