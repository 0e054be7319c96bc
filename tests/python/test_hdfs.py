"""hdfs:// in a process of its own: what is missing is said and can be mended, signals, fork."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tfos import doctor as checks_of, executable, hdfs_doctor

pytest.importorskip("tensorflow")

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
import os, sys
from tfos.file_access import access_for
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
print(access.status(uri) is not None)
print(failure("hdfs://127.0.0.1:1/x"))
"""


def test_what_is_missing_is_named_and_can_be_mended(hdfs):
    done = subprocess.run([sys.executable, "-c", MENDING, hdfs.uri], text=True, timeout=BOUND_SECONDS,
                          stdout=subprocess.PIPE, check=True)
    java, spark, configuration, memory, there, refused = done.stdout.splitlines()
    assert java.startswith("BadInputError") and "JAVA_HOME=/no/java" in java
    assert "no Hadoop client" in spark and "/no/spark/jars" in spark
    assert "HADOOP_CONF_DIR=/no/conf is no directory" in configuration
    assert "TFOS_HADOOP_JVM_MEMORY" in memory
    assert there == "True"
    assert refused.startswith("ConnectionRefusedError") and "ConnectException" in refused


SHARING = """
with open("/proc/self/maps") as maps:
    assert "libjvm" not in maps.read(), "Java started by an import"
import signal, tfos.tensorflow
try:
    tf.io.gfile.makedirs(uri + "/of-somebody")
except tf.errors.PermissionDeniedError as error:
    print(error)
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
        [sys.executable, "-c", START + SHARING, hdfs.uri], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "HADOOP_USER_NAME": "somebody"})
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
        [executable.path(), "doctor", "--json", "--hdfs", hdfs.uri], text=True, timeout=BOUND_SECONDS,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "HADOOP_CONF_DIR": str(hdfs.configuration)})
    checks = json.loads(done.stdout)
    assert done.returncode == 0
    assert {check["level"] for check in checks} == {"ok"}
    assert [check["what"] for check in checks][-6:] == [
        "start Java and look at the path", "list it", "write below it", "read that", "rename it",
        "delete it"]


def test_the_doctor_stops_at_the_first_step_that_fails(hadoop):
    [check] = hdfs_doctor.hdfs_checks("hdfs://127.0.0.1:1/")
    assert (check.level, check.what) == (checks_of.FAIL, "start Java and look at the path")
    assert "ConnectException" in check.found
    [check] = hdfs_doctor.hdfs_checks("gs://bucket/x")
    assert (check.level, check.what) == (checks_of.FAIL, "scheme")
