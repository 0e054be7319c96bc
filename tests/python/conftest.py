"""Fixtures of all Python tests: real Spark clusters, and the check that nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import types
import uuid

import pytest

import hadoop_cluster
import s3_server
import spark_cluster
import yarn_cluster

# Before they are imported: their assertions say what they compared, as those of tests do.
pytest.register_assert_rewrite("support.comparing", "support.waiting", "support.two_nodes")

from support import leftovers as leftovers_of_tfos  # noqa: E402
from support.files import faults  # noqa: E402
from support.files.s3 import IMPATIENT, DyingWire  # noqa: E402
from support.places import IMPORT_PATHS, ROOT, RUN_ID, RUN_VARIABLE, SCRIPTS, SUPPORT  # noqa: E402
from support.reporting import progress  # noqa: E402
from support.reporting.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: E402, F401
from support.waiting import wait_for  # noqa: E402

#: JVMs here end before it pays to compile the same code better. Read by every `java` command, so also
#: by those of drivers and executors in other processes.
#: The archive is optional (tools/archive_spark_classes.py); Java would complain on standard output
#: where it does not fit.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable "
    f"-XX:SharedArchiveFile={ROOT}/build/spark-classes.jsa"
)

TWO_EXECUTORS = "local-cluster[2,1,1024]"

#: Files that take long go first, so that the processes of `make test` end together.
LONGEST_FIRST = (
    "test_component.py",
    "test_examples.py",
    "test_kill.py",
    "test_driver_end.py",
    "test_yarn.py",
    "test_notebook.py",
)

#: What `empty_directory` makes with the help of HDFS.
REMOTE_DIRECTORIES = {"hdfs", "viewfs", "faulty", "s3a"}

#: {marker: fixtures}. A test that uses one of them, itself or through others, has the marker. A test
#: that starts such a thing itself, in a process of its own, names the marker.
NEEDS = {
    "spark": {"spark_on", "standalone_cluster"},
    "hdfs": {"hdfs"},
    "yarn": {"yarn"},
    "s3": {"s3"},
    "namespaces": {"other_host"},
}

#: Only the sessions' properties tell what viewfs://session/tests is: the directory of `tmp_path`s.
SESSION_MOUNTS = "session"


def pytest_configure(config):
    progress.register(config)
    # A shell lets what it runs in the background ignore it, and programs of tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[RUN_VARIABLE] = RUN_ID
    # Processes that are killed leave files there.
    if not hasattr(config, "workerinput"):  # Else it is the one of the process that started this.
        os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="tfos-tests-")
        os.chmod(os.environ["TMPDIR"], 0o755)  # Programs of tests also run as somebody else.
    # The files of clusters that tests start are not this user's.
    os.environ["TFOS_RUNTIME_DIR"] = str(
        pathlib.Path(tempfile.gettempdir(), f"tfos-clusters-{RUN_ID}")
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark would pass its own on to driver and executors, and TensorFlow says much at start.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    os.environ["JDK_JAVA_OPTIONS"] = (
        f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {SHORT_LIVED_JVM}"
        f" -Djava.io.tmpdir={os.environ['TMPDIR']}"
    ).strip()


def pytest_unconfigure(config):
    shutil.rmtree(os.environ["TFOS_RUNTIME_DIR"], ignore_errors=True)
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def pytest_collection_modifyitems(items):
    for item in items:
        for marker in needs_of(item):
            item.add_marker(marker)
        if not any(item.get_closest_marker(marker) for marker in NEEDS):
            item.add_marker("quick")
    order = {name: number for number, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


def needs_of(item):
    """What a test needs that takes its time to start: markers."""
    needs = {
        marker for marker, fixtures in NEEDS.items() if fixtures.intersection(item.fixturenames)
    }
    if "empty_directory" in item.fixturenames:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(isinstance(value, str) and value in REMOTE_DIRECTORIES for value in parameters):
            needs.add("hdfs")
        if "s3a" in parameters:
            needs.add("s3")
    return sorted(needs)


def _session(master, directory, conf):
    from pyspark.sql import SparkSession

    import tfos

    paths = [*IMPORT_PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
    builder = SparkSession.builder.master(master).appName("tfos-tests")
    return (
        builder.config("spark.jars", tfos.jar_path())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(paths))
        .config("spark.executorEnv.PATH", _path_of_executors())
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            f"spark.hadoop.fs.viewfs.mounttable.{SESSION_MOUNTS}.link./tests", directory.as_uri()
        )
        .config(map=conf)
        .getOrCreate()
    )


def _path_of_executors():
    """With an `nvidia-smi` that a test can tell which GPUs there are; it asks the host's own otherwise."""
    return os.pathsep.join([str(SUPPORT / "bin"), os.environ["PATH"]])


class Sessions:
    """The SparkSession of this process, which can have one at a time. It is kept for as long as the
    tests ask for the same. All have the jar, because their driver's JVM is the one of the first."""

    def __init__(self):
        self._running = None
        self._where = {}

    def __call__(self, master, directory, conf):
        asked = {"master": master, **conf}
        if self._where != asked:
            self.stop()
        if self._running is None:
            self._running = _session(master, directory, conf)
            self._where = asked
        return self._running

    def stop(self):
        if self._running is None:
            return
        jvm = self._running._jvm
        self._running.stop()
        # What the first one was given is a property of the JVM, which stays.
        for name in self._where:
            jvm.java.lang.System.clearProperty(name)
        self._running, self._where = None, {}

    def free_cores(self):
        """Stops a session on a standalone cluster: it holds cores of the cluster, and programs that
        other tests start there would wait for them."""
        if self._where.get("master", "").startswith("spark://"):
            self.stop()


_sessions = Sessions()


@pytest.fixture(scope="session")
def spark_on(tmp_path_factory):
    """A function that returns the SparkSession on a master, with further settings if they are given:
    see `Sessions`."""
    yield lambda master, **conf: _sessions(master, tmp_path_factory.getbasetemp(), conf)
    _sessions.stop()


@pytest.fixture(scope="module", autouse=True)
def _cores_are_free_for_the_next():
    yield
    _sessions.free_cores()


@pytest.fixture(scope="module")
def spark(spark_on):
    """A SparkSession on two executors of one core, each a JVM of its own."""
    return spark_on(TWO_EXECUTORS)


@pytest.fixture
def run_models_in(spark):
    """A function that has `transform` run models in JVMs ("on") or in Python workers ("off"), until the
    end of the test."""
    from tfos.settings import INFERENCE_JVM

    yield lambda jvm: spark.conf.set(INFERENCE_JVM.key, jvm)
    spark.conf.unset(INFERENCE_JVM.key)


@pytest.fixture(params=["on", "off"], ids=["JVMs", "Python workers"])
def model_runner(run_models_in, request):
    """Has `transform` run models in either."""
    run_models_in(request.param)
    return request.param


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


@pytest.fixture(scope="module")
def yarn(hdfs, tmp_path_factory):
    """A ResourceManager and a NodeManager beside the HDFS."""
    directory = tmp_path_factory.mktemp("yarn")
    with yarn_cluster.YarnCluster(
        hdfs.configuration, directory, memory_mb=6144, preempts=True
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def s3_client():
    """What a client of `s3` has: `addresses` (of the server and, by the name of its bucket, of what
    dies in front of it) and the `environment` of its process. `taken` keeps their ports from others
    until it is closed."""
    addresses = {}
    with contextlib.ExitStack() as taken:
        for name in ("tfos", "dying"):
            port = taken.enter_context(socket.socket())
            port.bind(("127.0.0.1", hadoop_cluster.free_port()))
            addresses[name] = f"127.0.0.1:{port.getsockname()[1]}"
        impatient = {f"fs.s3a.bucket.dying.{name}": value for name, value in IMPATIENT.items()}
        yield types.SimpleNamespace(
            addresses=addresses,
            environment=s3_server.environment(addresses, impatient),
            taken=taken,
        )


@pytest.fixture(scope="session")
def s3(s3_client, tmp_path_factory):
    """An S3 with two buckets: `uri`, and `dying_uri`, which `wire` lets die."""
    server, dying = s3_client.addresses.values()
    directory = tmp_path_factory.mktemp("s3")
    s3_client.taken.close()
    with (
        s3_server.S3Server(directory, ("tfos", "dying"), server) as running,
        DyingWire(dying, server) as wire,
    ):
        yield types.SimpleNamespace(
            ask=running.ask,
            environment=s3_client.environment,
            uri="s3a://tfos",
            dying_uri="s3a://dying",
            wire=wire,
        )


@pytest.fixture
def s3a(hadoop, s3, monkeypatch):
    """`s3`, for Hadoop's client of this process."""
    monkeypatch.setenv("TFOS_HADOOP_SCHEMES", "s3a")
    return s3


@pytest.fixture(scope="session")
def hadoop(hdfs, s3_client, tmp_path_factory):
    """Hadoop's client in this process, which can have it but once, so with all that any test needs:
    `hdfs` (the URI), `viewfs` (a URI mounted on it), `mounts` (other mounts of that viewfs by name:
    "other" on the same HDFS, "local" on this host, "faulty"), what `s3a` needs, and `faults`, which
    plans failures of faulty://.
    """
    from tfos.files.access import access_for

    directory = tmp_path_factory.mktemp("hadoop")
    planned = faults.Faults(directory)
    configuration = directory / "conf"
    configuration.mkdir()
    behind = {
        "mounted": f"{hdfs.uri}/viewed",
        "other": f"{hdfs.uri}/viewed-too",
        "local": (directory / "local").as_uri(),
        "faulty": f"{faults.SCHEME}://{directory / 'faulty'}",
    }
    for name in ("local", "faulty"):
        (directory / name).mkdir()
    hadoop_cluster.write_site(
        configuration,
        "core",
        {
            "fs.defaultFS": hdfs.uri,
            "ipc.client.connect.max.retries": 1,  # Ten by default, a second each.
            **{f"fs.viewfs.mounttable.tfos.link./{name}": uri for name, uri in behind.items()},
            **json.loads(s3_client.environment["TFOS_HADOOP_PROPERTIES"]),
        },
    )
    hadoop_cluster.write_site(configuration, "hdfs", {"dfs.replication": 1})
    with pytest.MonkeyPatch.context() as patch:
        # Java reads them as it starts; Spark, in later tests, must not see them.
        for name, value in planned.environment.items():
            patch.setenv(name, value)
        connector = s3_client.environment["HADOOP_CLASSPATH"]
        patch.setenv("HADOOP_CLASSPATH", connector, prepend=os.pathsep)
        patch.setenv("HADOOP_CONF_DIR", str(configuration))
        for name in ("mounted", "other"):
            access, viewed = access_for(behind[name])
            access.mkdirs(viewed)
    mounts = {name: f"viewfs://tfos/{name}" for name in behind}
    return types.SimpleNamespace(
        hdfs=hdfs.uri, viewfs=mounts["mounted"], mounts=mounts, faults=planned
    )


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A directory of SavedModels: see support/scripts/make_models.py."""
    directory = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, str(SCRIPTS / "make_models.py"), str(directory)], check=True)
    return directory


@pytest.fixture
def run_program(monkeypatch):
    """A function that runs a program in this process, and so in the Spark session that is running."""
    from pyspark.sql import SparkSession

    def run(path, *arguments):
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        monkeypatch.setattr(SparkSession, "stop", lambda _session: None)  # Others come after it.
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            assert not end.code, f"{path.name} ended with {end.code}"

    return run


@pytest.fixture
def empty_directory(request, tmp_path):
    """A function that makes an empty directory on "local", "hdfs", "viewfs", "faulty" or "s3a": its
    path."""

    def make(kind):
        if kind == "local":
            return str(tmp_path)
        assert request.node.get_closest_marker("hdfs"), (
            "name the kind as a parameter, or use `hdfs`"
        )
        if kind == "faulty":
            return request.getfixturevalue("faulty").uri
        if kind == "s3a":
            return f"{request.getfixturevalue('s3a').uri}/{uuid.uuid4().hex}"
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
    yield types.SimpleNamespace(
        uri=f"{faults.SCHEME}://{tmp_path}", path=tmp_path, inject=hadoop.faults.inject
    )
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
    before = leftovers_of_tfos.held()
    yield

    def left():
        return leftovers_of_tfos.held() - before

    wait_for(
        lambda: not left(), lambda: "\n".join(["the end of what is left behind:", *sorted(left())])
    )


@pytest.fixture
def ctrl_c():
    """Python's own handler: a SparkContext of an earlier test has left another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def plain_fit(monkeypatch):
    """What a test adds to the ``fit`` of Keras ends with it."""
    import keras

    trainer = next(each for each in keras.Model.__mro__ if "fit" in vars(each))
    monkeypatch.setattr(trainer, "fit", trainer.fit)


@pytest.fixture
def gpus_of_executors():
    """A function that gives the executors' host so many GPUs."""
    listed = pathlib.Path(os.environ["TMPDIR"], f"tfos-test-gpus-{RUN_ID}")
    yield lambda count: listed.write_text(
        "".join(f"{n}, GPU-{RUN_ID}-{n}, 0, 16000\n" for n in range(count))
    )
    listed.unlink(missing_ok=True)
