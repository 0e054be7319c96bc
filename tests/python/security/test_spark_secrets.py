"""A Spark cluster whose RPC needs a secret: nodes don't get it, and `tfos.run` is content."""

import json
import logging
import os
import pathlib
import secrets

import pytest

import spark_cluster
import tfos
from support.programs import nodes as programs

pytestmark = pytest.mark.long

SECRET = secrets.token_hex(16)
SECRET_OF_HADOOP = secrets.token_hex(16)
AUTHENTICATE = {"spark.authenticate": "true", "spark.authenticate.secret": SECRET}
ENCRYPT = {"spark.network.crypto.enabled": "true"}


@pytest.fixture(scope="module")
def secured_cluster(tmp_path_factory):
    """A Master and two Workers that want the secret, and encrypt: the Master's URL."""
    directory = tmp_path_factory.mktemp("secured")
    options = {**AUTHENTICATE, **ENCRYPT}
    with spark_cluster.SparkCluster(directory=directory, daemon_options=options) as cluster:
        yield cluster.url


def test_nodes_get_no_secret_of_spark(secured_cluster, spark_on, tmp_path, leftovers, caplog):
    def environments_of(_rows):
        yield dict(os.environ)

    def dump(ctx):
        """The environments of the node, of a child, and of its agent, as the kernel has them."""
        import subprocess

        def of_process(pid):
            return pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")

        child = subprocess.run(["env", "-0"], capture_output=True, text=True, check=True)
        found = {
            "node": of_process("self"),
            "child": child.stdout.split("\0"),
            "agent": of_process(os.getppid()),
        }
        pathlib.Path(ctx.args, str(ctx.node_id)).write_text(json.dumps(found))

    hadoop = {"spark.hadoop.fs.s3a.secret.key": SECRET_OF_HADOOP}
    spark = spark_on(secured_cluster, **AUTHENTICATE, **ENCRYPT, **hadoop)
    tasks = spark.sparkContext.parallelize(range(2), 2)
    (of_task, *_) = tasks.mapPartitions(environments_of).collect()
    assert of_task["_SPARK_AUTH_SECRET"] == SECRET, "Spark hands it to its executors"
    with caplog.at_level(logging.WARNING), tfos.run(spark, dump, nodes=2, args=str(tmp_path)):
        pass
    assert "Spark's RPC" not in caplog.text
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["0", "1"]
    for path in files:
        for process, environment in json.loads(path.read_text()).items():
            names = [variable.partition("=")[0] for variable in environment]
            assert "PATH" in names, process
            assert not [name for name in names if "SECRET" in name or "SPARK_SSL" in name], process
            assert SECRET not in "\n".join(environment), process
            # The node's own is the one that it began with, before it took the secret out.
            assert process == "node" or SECRET_OF_HADOOP not in "\n".join(environment), process


def test_an_open_rpc_is_said_once(standalone_cluster, spark_on, leftovers, caplog):
    spark = spark_on(standalone_cluster.url)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with tfos.run(spark, programs.return_at_once, nodes=1):
                pass
    (said,) = [record for record in caplog.records if "Spark's RPC" in record.getMessage()]
    assert standalone_cluster.url in said.getMessage()
    assert "not authenticated, not encrypted" in said.getMessage()
    assert "spark.network.crypto.enabled=true" in said.getMessage()


def test_on_one_host_nothing_is_said(spark, caplog):
    with caplog.at_level(logging.WARNING), tfos.run(spark, programs.return_at_once, nodes=1):
        pass
    assert "Spark's RPC" not in caplog.text
