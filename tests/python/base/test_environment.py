"""What children of a Spark process inherit of its environment."""

import os

from tfos.base import child
from tfos.base.environment import without_spark_secrets


def test_secrets_of_spark_are_left_out_and_nothing_else():
    secrets = [
        "_SPARK_AUTH_SECRET",
        "_SPARK_SSL_RPC_KEY_PASSWORD",
        "_SPARK_SSL_RPC_PRIVATE_KEY_PASSWORD",
        "_SPARK_SSL_RPC_KEY_STORE_PASSWORD",
        "_SPARK_SSL_RPC_TRUST_STORE_PASSWORD",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "PYSPARK_GATEWAY_SECRET",
        "SPARK_DAEMON_JAVA_OPTS",
        "SPARK_WORKER_OPTS",
        "SPARK_JAVA_OPT_0",
        "PYTHON_WORKER_FACTORY_SECRET",
    ]
    kept = {
        # How a node reads HDFS as its user.
        "HADOOP_TOKEN_FILE_LOCATION": "/tokens",
        "HADOOP_CREDSTORE_PASSWORD": "p",
        "HADOOP_CONF_DIR": "/conf",
        "AWS_SECRET_ACCESS_KEY": "k",
        "SPARK_HOME": "/spark",
        "SPARK_LOCAL_DIRS": "/tmp",
        "SPARK_USER": "me",
        "MY_SPARK_PASSWORD": "p",
        "PATH": "/bin",
    }
    assert without_spark_secrets({**kept, **dict.fromkeys(secrets, "s")}) == kept


def test_children_inherit_none(monkeypatch):
    monkeypatch.setenv("_SPARK_AUTH_SECRET", "0123")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "/tokens")
    process, to_child, from_child = child.start(["/usr/bin/env"])
    with to_child, from_child:
        inherited = dict(line.decode().rstrip("\n").split("=", 1) for line in from_child)
    assert process.wait() == 0
    assert "_SPARK_AUTH_SECRET" not in inherited
    assert inherited["HADOOP_TOKEN_FILE_LOCATION"] == "/tokens"
    assert inherited["PATH"] == os.environ["PATH"]
