"""Fixtures of all Python tests: real Spark clusters, and the check that nothing is left behind."""

from __future__ import annotations

import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import time
import types
import uuid

import psutil
import pytest

TESTS = pathlib.Path(__file__).parent
ROOT = TESTS.parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import faults  # noqa: E402
import hadoop_cluster  # noqa: E402  (tools/ is no package)
import spark_cluster  # noqa: E402

#: Inherited by every process that this run of pytest starts, however it is detached.
RUN_VARIABLE = "TFOS_TEST_RUN"
RUN_ID = uuid.uuid4().hex

#: How long what a cluster held may take to vanish once the driver has returned.
LEFTOVERS_SECONDS = 10
_POLL_SECONDS = 0.05

#: JVMs here end before it pays to compile the same code better. Read by every `java` command, so also
#: by those of drivers and executors in other processes.
#: The archive is optional (tools/archive_spark_classes.py); Java would complain on standard output
#: where it does not fit.
SHORT_LIVED_JVM = ("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable "
                   f"-XX:SharedArchiveFile={ROOT}/build/spark-classes.jsa")

TWO_EXECUTORS = "local-cluster[2,1,1024]"

#: Files that take long go first, so that the processes of `make test` end together.
LONGEST_FIRST = ("test_component.py", "test_examples.py", "test_kill.py", "test_jvm.py", "test_yarn.py", "test_notebook.py")

#: Only the sessions' properties tell what viewfs://session/tests is: the directory of `tmp_path`s.
SESSION_MOUNTS = "session"


def pytest_configure():
    os.environ[RUN_VARIABLE] = RUN_ID
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark would pass its own on to driver and executors, and TensorFlow says much at start.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {SHORT_LIVED_JVM}".strip()


def pytest_collection_modifyitems(items):
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def _session(master, directory):
    from pyspark.sql import SparkSession

    import tfos

    paths = [str(TESTS / "executors"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return (
        SparkSession.builder.master(master)
        .appName("tfos-tests")
        .config("spark.jars", tfos.jar_path())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(paths))
        .config("spark.executorEnv.PATH", _path_of_executors())
        .config("spark.sql.shuffle.partitions", "2")
        .config(f"spark.hadoop.fs.viewfs.mounttable.{SESSION_MOUNTS}.link./tests", directory.as_uri())
        .getOrCreate()
    )


def _path_of_executors():
    """With an `nvidia-smi` for tests on hosts that have none of their own."""
    path = os.environ["PATH"]
    return path if shutil.which("nvidia-smi") else os.pathsep.join([str(TESTS / "bin"), path])


@pytest.fixture(scope="session")
def spark_on(tmp_path_factory):
    """A function that returns the SparkSession on a master. A process has one at a time, so it is
    kept for as long as the tests ask for the same. All have the jar, because their driver's JVM is
    the one of the first."""
    running = None
    where = None

    def session(master):
        nonlocal running, where
        if running is not None and where != master:
            running.stop()
            running = None
        where = master
        running = running or _session(master, tmp_path_factory.getbasetemp())
        return running

    yield session
    if running is not None:
        running.stop()


@pytest.fixture(scope="module")
def spark(spark_on):
    """A SparkSession on two executors of one core, each a JVM of its own."""
    return spark_on(TWO_EXECUTORS)


@pytest.fixture(params=["on", "off"], ids=["JVMs", "Python workers"])
def model_runner(spark, request):
    """Has `transform` run models in either."""
    from tfos.settings import INFERENCE_JVM

    spark.conf.set(INFERENCE_JVM.key, request.param)
    yield request.param
    spark.conf.unset(INFERENCE_JVM.key)


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory):
    """A standalone Master and two Workers of one core; drivers connect to its `url`."""
    directory = tmp_path_factory.mktemp("spark")
    with spark_cluster.SparkCluster(directory=directory) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory):
    """A NameNode and a DataNode: their `uri`, and their `configuration` for HADOOP_CONF_DIR."""
    with hadoop_cluster.HadoopCluster(directory=tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def hadoop(hdfs, tmp_path_factory):
    """Hadoop's client in this process, which can have it but once, so with all that any test needs:
    `hdfs` (the URI), `viewfs` (a URI mounted on it), `mounts` (other mounts of that viewfs by name:
    "other" on the same HDFS, "local" on this host, "faulty") and `faults`, which plans failures of
    faulty://.
    """
    from tfos.files.access import access_for

    directory = tmp_path_factory.mktemp("hadoop")
    planned = faults.Faults(directory)
    configuration = directory / "conf"
    configuration.mkdir()
    behind = {"mounted": f"{hdfs.uri}/viewed", "other": f"{hdfs.uri}/viewed-too",
              "local": (directory / "local").as_uri(),
              "faulty": f"{faults.SCHEME}://{directory / 'faulty'}"}
    for name in ("local", "faulty"):
        (directory / name).mkdir()
    hadoop_cluster.write_site(configuration, "core", {
        "fs.defaultFS": hdfs.uri,
        "ipc.client.connect.max.retries": 1,  # Ten by default, a second each.
        **{f"fs.viewfs.mounttable.tfos.link./{name}": uri for name, uri in behind.items()}})
    hadoop_cluster.write_site(configuration, "hdfs", {"dfs.replication": 1})
    with pytest.MonkeyPatch.context() as patch:
        # Java reads them as it starts; Spark, in later tests, must not see them.
        for name, value in planned.environment.items():
            patch.setenv(name, value)
        patch.setenv("HADOOP_CONF_DIR", str(configuration))
        for name in ("mounted", "other"):
            access, viewed = access_for(behind[name])
            access.mkdirs(viewed)
    mounts = {name: f"viewfs://tfos/{name}" for name in behind}
    return types.SimpleNamespace(hdfs=hdfs.uri, viewfs=mounts["mounted"], mounts=mounts, faults=planned)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A directory of SavedModels: see make_models.py."""
    directory = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, str(TESTS / "make_models.py"), str(directory)], check=True)
    return directory


@pytest.fixture
def run_program(monkeypatch):
    """A function that runs a program in this process, and so in the Spark session that is running."""
    from pyspark.sql import SparkSession

    def run(path, *arguments):
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        monkeypatch.syspath_prepend(str(path.parent))
        monkeypatch.setattr(SparkSession, "stop", lambda _session: None)  # Others come after it.
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            assert not end.code, f"{path.name} ended with {end.code}"

    return run


@pytest.fixture
def empty_directory(request, tmp_path):
    """A function that makes an empty directory on "local", "hdfs", "viewfs" or "faulty": its path."""
    def make(kind):
        if kind == "local":
            return str(tmp_path)
        if kind == "faulty":
            return request.getfixturevalue("faulty").uri
        from tfos.files.access import access_for

        base = getattr(request.getfixturevalue("hadoop"), kind)
        access, path = access_for(f"{base}/{uuid.uuid4().hex}")
        access.mkdirs(path)
        return path

    return make


@pytest.fixture
def faulty(hadoop, tmp_path, monkeypatch):
    """An empty directory on faulty://, whose failures `.inject` plans; `path` is the same one."""
    monkeypatch.setenv("TFOS_HADOOP_SCHEMES", faults.SCHEME)
    yield types.SimpleNamespace(uri=f"{faults.SCHEME}://{tmp_path}", path=tmp_path,
                                inject=hadoop.faults.inject)
    waiting = hadoop.faults.waiting
    hadoop.faults.clear()
    assert not waiting, f"{waiting}: nothing of it was done"


@pytest.fixture
def mounted_path(tmp_path, tmp_path_factory):
    """`tmp_path` as a URI that needs the properties of the sessions."""
    below = tmp_path.relative_to(tmp_path_factory.getbasetemp())
    return f"viewfs://{SESSION_MOUNTS}/tests/{below}"


@pytest.fixture
def leftovers():
    """Fails the test if it leaves anything of tfos behind: a process, a file in /dev/shm, or an
    abstract socket or shared memory that a process of this run (a Spark worker) holds open.
    """
    before = _held()
    yield
    deadline = time.monotonic() + LEFTOVERS_SECONDS
    while (left := _held() - before) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    assert not left, "left behind:\n" + "\n".join(sorted(left))


def _held():
    """What of tfos exists now, as text, one entry each."""
    held = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "tfos" in name}
    names_of_sockets = _abstract_sockets()
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if environment.get(RUN_VARIABLE) != RUN_ID:
                continue
            command = process.cmdline()
            if _is_of_tfos(command) or "TFOS_AGENT_FD" in environment:
                held.add(f"process {process.pid}: {' '.join(command)}")
            held |= {f"{what} in process {process.pid}: {' '.join(command)}"
                     for what in _open_things(process.pid, names_of_sockets)}
        except psutil.AccessDenied:
            continue  # Somebody else's, such as a container's first process.
        except (psutil.NoSuchProcess, psutil.ZombieProcess, FileNotFoundError, ProcessLookupError):
            continue  # It ended while being looked at.
    return held


def _is_of_tfos(command):
    is_executable = bool(command) and os.path.basename(command[0]) == "tfos"
    return is_executable or any(re.fullmatch(r"tfos(\.\w+)+", word) for word in command)


def _abstract_sockets():
    """{inode: name} of the abstract sockets of tfos."""
    lines = pathlib.Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
    fields = [line.split() for line in lines]
    return {row[6]: row[7] for row in fields if len(row) == 8 and row[7].startswith("@tfos")}


def _open_things(pid, names_of_sockets):
    """Yields the abstract sockets and the shared memory of tfos that a process has open."""
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:
            continue  # Closed meanwhile.
        if target.startswith("/memfd:tfos"):
            yield target
        elif (inode := target.removeprefix("socket:[").rstrip("]")) in names_of_sockets:
            yield f"socket {names_of_sockets[inode]}"
