"""hdfs:// in a process of its own: what is missing is said and can be mended, signals, fork."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys

import pytest

import hadoop_cluster
from tfos.base import executable
from tfos.cli import checks as checks_of
from tfos.cli import doctor_hdfs

BOUND_SECONDS = 120

START = """
import os, sys, warnings
import tensorflow as tf
warnings.simplefilter("error")
import tfos.tensorflow
exists, uri = tf.io.gfile.exists, sys.argv[1]
def failure(path=uri):
    try:
        exists(path)
    except tf.errors.OpError as error:
        return f"{type(error).__name__}: {error}"
"""


# Without TensorFlow, which takes longer to import than all of this.
MENDING = """
import ctypes, os, sys
from tfos.files.access import access_for
access, uri = access_for(sys.argv[1])
def failure(path=uri):
    try:
        access.status(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
os.environ["JAVA_HOME"] = "/no/java"
print(failure())
del os.environ["JAVA_HOME"]
os.environ["SPARK_HOME"] = "/no/spark"
print(failure())
del os.environ["SPARK_HOME"]
os.environ["HADOOP_CONF_DIR"] = "/no/conf"
print(failure())
del os.environ["HADOOP_CONF_DIR"]
os.environ["TFOS_HADOOP_JVM_MEMORY"] = "much"
print(failure())
del os.environ["TFOS_HADOOP_JVM_MEMORY"]
# As where there may be no more threads: no stack is that large.
libc, usual, huge = ctypes.CDLL(None), *(ctypes.create_string_buffer(64) for _ in range(2))
libc.pthread_getattr_default_np(usual)
libc.pthread_attr_init(huge)
libc.pthread_attr_setstacksize(huge, ctypes.c_size_t(1 << 50))
libc.pthread_setattr_default_np(huge)
print(failure())
libc.pthread_setattr_default_np(usual)
os.environ["TFOS_HADOOP_PROPERTIES"] = '{"ipc.client.connect.max.retries": "0"}'
print(access.status(uri) is not None)
print(failure("hdfs://127.0.0.1:1/x"))
"""


def test_what_is_missing_is_named_and_can_be_mended(hdfs):
    done = subprocess.run(
        [sys.executable, "-c", MENDING, hdfs.uri],
        text=True,
        timeout=BOUND_SECONDS,
        stdout=subprocess.PIPE,
        check=True,
    )
    java, spark, configuration, memory, thread, there, refused = done.stdout.splitlines()
    assert java.startswith("BadInputError") and "JAVA_HOME=/no/java" in java
    assert "no Hadoop client" in spark and "/no/spark/jars" in spark
    assert "HADOOP_CONF_DIR=/no/conf is not a directory" in configuration
    assert "TFOS_HADOOP_JVM_MEMORY" in memory
    assert "start the thread 'tfos-start-java'" in thread
    assert there == "True"
    assert refused.startswith("ConnectionRefusedError") and "ConnectException" in refused


SHARING = """
with open("/proc/self/maps") as maps:
    assert "libjvm" not in maps.read(), "Java started by an import"
import signal, tfos.tensorflow
try:
    tf.io.gfile.makedirs(uri + "/of-somebody")
except tf.errors.PermissionDeniedError as error:
    print(error, flush=True)  # The child must not have it in a buffer.
child = os.fork()
if child == 0:
    print(failure(), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
tfos.tensorflow._registered.clear()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert tfos.tensorflow.register_schemes("hdfs") == []
print(caught[0].message)
with open("/proc/self/status") as status:
    ignored = next(int(line.split()[1], 16) for line in status if line.startswith("SigIgn"))
assert ignored & 1 << signal.SIGPIPE - 1, "SIGPIPE is as Python had it"
try:
    print("ready", flush=True)
    while True:
        exists(uri)
except KeyboardInterrupt:
    print("interrupted", exists(uri))
"""


def test_it_shares_a_process_with_python(hdfs):
    process = subprocess.Popen(
        [sys.executable, "-c", START + SHARING, hdfs.uri],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HADOOP_USER_NAME": "somebody"},
    )
    try:
        denied, forked, owned, ready = (process.stdout.readline() for _ in range(4))
        assert "AccessControlException: Permission denied: user=somebody" in denied
        assert "forked child" in forked
        assert "belongs to another file-system plugin" in owned
        assert ready == "ready\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=BOUND_SECONDS)
        assert (rest, process.returncode) == ("interrupted True\n", 0)
    finally:
        process.kill()
        process.wait()


def test_the_doctor_uses_it_step_by_step(hdfs):
    done = subprocess.run(
        [executable.path(), "doctor", "--json", "--hdfs", hdfs.uri],
        text=True,
        timeout=BOUND_SECONDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HADOOP_CONF_DIR": str(hdfs.configuration)},
    )
    checks = json.loads(done.stdout)
    assert done.returncode == 0
    assert {check["level"] for check in checks} == {"ok"}
    assert [check["what"] for check in checks] == [
        "Hadoop client",
        "Hadoop configuration",
        "start Java and look at the path",
        "list it",
        "write below it",
        "read that",
        "rename it",
        "read it with TensorFlow",
        "delete it",
    ]


def test_the_doctor_does_without_tensorflow(hadoop, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    checks = doctor_hdfs.hdfs_checks(hadoop.hdfs)
    *others, skipped, deleted = checks
    assert {check.level for check in others} == {checks_of.OK}
    assert (skipped.level, skipped.what) == (checks_of.WARN, "read it with TensorFlow")
    assert (deleted.level, deleted.what) == (checks_of.OK, "delete it")


@pytest.fixture
def silent():
    """host:port that neither takes connections nor refuses them: its socket's queue is full."""
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            connecting = held.enter_context(socket.socket())
            connecting.setblocking(False)
            connecting.connect_ex(listener.getsockname())
            if not select.select([], [connecting], [], 0.5)[1]:
                break
        else:
            pytest.skip("this kernel takes connections however full the queue of a socket is")
        yield "{}:{}".format(*listener.getsockname())


TRYING = """
import sys
from tfos.files.access import access_for
access, uri = access_for(sys.argv[1])
try:
    access.status(uri)
except TimeoutError as error:
    print(error)
"""

#: Hadoop's client says in its log how often it has tried.
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.only.ref = only
appender.only.type = Console
appender.only.name = only
appender.only.target = SYSTEM_ERR
"""


def test_a_namenode_that_is_silent_is_tried_less_often_than_hadoop_would(silent, tmp_path):
    import pyspark

    (tmp_path / "log4j2.properties").write_text(LOGGING)
    jars = pathlib.Path(pyspark.__file__).parent / "jars"
    logging = [
        str(jar)
        for name in ("slf4j2-impl", "api", "core")
        for jar in jars.glob(f"log4j-{name}-*.jar")
    ]
    environment = {
        **os.environ,
        "HADOOP_CLASSPATH": ":".join([str(tmp_path), *logging]),
        "TFOS_HADOOP_PROPERTIES": '{"ipc.client.connect.timeout": "100"}',
    }

    def tries_again(**more):
        done = subprocess.run(
            [sys.executable, "-c", TRYING, f"hdfs://{silent}/x"],
            text=True,
            check=True,
            capture_output=True,
            timeout=BOUND_SECONDS,
            env={**environment, **more},
        )
        assert "ConnectTimeoutException" in done.stdout and silent in done.stdout
        return done.stderr.count("Retrying connect to server")

    assert tries_again() == 2
    # The cluster's configuration is what counts, if it says how often.
    hadoop_cluster.write_site(tmp_path, "hdfs", {"ipc.client.connect.max.retries.on.timeouts": 1})
    assert tries_again(HADOOP_CONF_DIR=str(tmp_path)) == 1


def test_the_doctor_says_which_step_got_no_answer(silent):
    # It ends though a thread of it is in Hadoop's client, which tries for a minute.
    program = (
        "import json, sys; from tfos.cli.doctor_hdfs import hdfs_checks; "
        "print(json.dumps([*map(vars, hdfs_checks(sys.argv[1], seconds=1))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"hdfs://{silent}/x"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=BOUND_SECONDS,
        check=True,
    )
    [check] = json.loads(done.stdout)
    assert (check["level"], check["what"]) == (checks_of.FAIL, "start Java and look at the path")
    assert (
        f"no answer for hdfs://{silent}/x within 1 s" in check["found"]
        and "firewall" in check["advice"]
    )


def test_the_doctor_is_impatient_where_nobody_says_how_patient_it_is_to_be(monkeypatch):
    monkeypatch.setenv(
        "TFOS_HADOOP_PROPERTIES", '{"ipc.client.connect.timeout": "5", "other": "x"}'
    )
    doctor_hdfs.shorten_timeouts()
    properties = json.loads(os.environ["TFOS_HADOOP_PROPERTIES"])
    assert (properties["ipc.client.connect.timeout"], properties["other"]) == ("5", "x")
    assert properties["ipc.client.connect.max.retries.on.timeouts"] == "1"
    monkeypatch.setenv("TFOS_HADOOP_PROPERTIES", "no JSON")
    doctor_hdfs.shorten_timeouts()
    assert os.environ["TFOS_HADOOP_PROPERTIES"] == "no JSON"


def test_the_doctor_stops_at_the_first_step_that_fails(hadoop):
    [check] = doctor_hdfs.hdfs_checks("hdfs://127.0.0.1:1/")
    assert (check.level, check.what) == (checks_of.FAIL, "start Java and look at the path")
    assert "ConnectException" in check.found
    [check] = doctor_hdfs.hdfs_checks("gs://bucket/x")
    assert (check.level, check.what) == (checks_of.FAIL, "scheme")
