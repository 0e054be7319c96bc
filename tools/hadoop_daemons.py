"""What the harnesses of Hadoop's daemons share (hadoop_cluster.py, yarn_cluster.py, s3_server.py):
jars, Java, configuration."""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from xml.sax.saxutils import escape

from daemons import DaemonError

HADOOP_VERSION = "3.5.0"
JARS = pathlib.Path(__file__).resolve().parent.parent / "build" / "hadoop" / HADOOP_VERSION
#: From Maven Central: group, name, version, and which of its needs to leave out ("*:*": all).
#: The last lets the daemons log.
ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", HADOOP_VERSION),
    ("org.apache.hadoop", "hadoop-client-runtime", HADOOP_VERSION),
    ("org.apache.hadoop", "hadoop-client-api", HADOOP_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)

#: The hashes of those and of what they need, as `sha256sum` writes them.
_HASHES = pathlib.Path(__file__).resolve().parent / "locked" / "hadoop-jars.sha256"

LOOPBACK = "127.0.0.1"
#: Below the kernel's range, and above those that daemons have by default.
_FIRST_PORT = 20000
_PORT_RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
#: Processes that give Python's own generator the same seed must not draw the same ports.
_random = random.SystemRandom()
_POLL_S = 0.1
_FETCH_TIMEOUT_S = 600
_JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


def java_command(*class_path):
    """The beginning of a command line that runs a class of Hadoop's."""
    java = shutil.which("java")
    if os.environ.get("JAVA_HOME"):
        java = str(pathlib.Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    if java is None:
        raise DaemonError("Java was not found: install Java 17 or set JAVA_HOME")
    return [java, *_JVM_OPTIONS, "-cp", os.pathsep.join(map(str, class_path))]


def environment():
    """This process's, without what tells of another Hadoop."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HADOOP_")}


def fetch_jars(directory=JARS, artifacts=ARTIFACTS):
    """Returns the folder with the daemons' jars; fetches them where it is not there yet."""
    if directory.is_dir():
        return directory
    if shutil.which("mvn") is None:
        raise DaemonError("Maven was not found, which fetches Hadoop's jars: install maven")
    # Complete or not there: two that fetch at a time don't meet, and the later one wins nothing.
    partial = directory.with_name(f"{directory.name}.{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        (partial / "pom.xml").write_text(_pom(artifacts))
        done = subprocess.run(
            [
                "mvn",
                "-B",
                "-q",
                "--strict-checksums",
                "-f",
                str(partial / "pom.xml"),
                "dependency:copy-dependencies",
                f"-DoutputDirectory={partial / 'jars'}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
        )
        if done.returncode != 0:
            raise DaemonError(
                f"Maven could not fetch Hadoop's jars from Maven Central:\n{done.stdout}"
            )
        _check_hashes(partial / "jars")
        if not directory.is_dir():
            (partial / "jars").rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory


def _check_hashes(directory):
    """Raises DaemonError unless each jar is the one that it was when it was chosen."""
    lines = (line.split() for line in _HASHES.read_text().splitlines())
    wanted = {name: digest for digest, name in lines}
    for jar in sorted(directory.iterdir()):
        with open(jar, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != wanted.get(jar.name):
            raise DaemonError(
                f"{jar.name} has the SHA-256 {found}, and {_HASHES} has "
                f"{wanted.get(jar.name, 'none for that name')}. If another version is meant to be "
                "fetched, put its hash there"
            )


def _pom(artifacts):
    dependencies = "".join(
        f"<dependency>{_coordinates(group, name)}<version>{version}</version>"
        + "".join(
            f"<exclusions><exclusion>{_coordinates(*needed.split(':'))}</exclusion></exclusions>"
            for needed in without
        )
        + "</dependency>"
        for group, name, version, *without in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tfos</groupId><artifactId>hadoop-daemons</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _coordinates(group, name):
    return f"<groupId>{group}</groupId><artifactId>{name}</artifactId>"


def write_configuration(path, properties):
    """Writes a file of Hadoop's configuration."""
    lines = "".join(
        f"  <property><name>{escape(key)}</name><value>{escape(str(value))}</value></property>\n"
        for key, value in properties.items()
    )
    path.write_text(f"<configuration>\n{lines}</configuration>\n")


def write_site(directory, name, properties):
    """Writes NAME-site.xml, a part of a configuration of Hadoop."""
    write_configuration(directory / f"{name}-site.xml", properties)


def free_port():
    """A port that nobody listens on now: daemons must know each other's before they start.

    It lies below those that the kernel hands out, or another program's connection could take it
    before the daemon does.
    """
    kernels_first = int(_PORT_RANGE.read_text().split()[0])
    while True:
        port = _random.randrange(_FIRST_PORT, max(kernels_first, _FIRST_PORT + 1000))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def get_json(url):
    """What a daemon's page says; None as long as it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            return json.load(response)
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError):
        return None


def wait_for(is_done, what, daemons, deadline, directory):
    """Waits until `is_done()`, or until one of the daemons ended or `deadline` (time.monotonic)."""
    while not is_done():
        for daemon in daemons:
            daemon.check_alive()
        if time.monotonic() > deadline:
            raise DaemonError(f"waited too long for {what}; logs are in {directory}")
        time.sleep(_POLL_S)


def stop_all(daemons, timeout_s):
    """Stops them all at a time, and empties the list."""
    deadline = time.monotonic() + timeout_s
    for daemon in daemons:
        daemon.process.terminate()
    while daemons:
        daemons.pop().stop(deadline)
