"""Feeding from another host: two hosts as network namespaces, where neither sees the other's
loopback interface nor its abstract sockets."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys

import pytest
from spark_cluster import Host, SparkCluster

_OURS, _THEIRS = "10.213.77.1", "10.213.77.2"

_DRIVER = """
import os, sys
from pyspark.sql import SparkSession
import programs, tfos

master, directory = sys.argv[1:]
spark = (SparkSession.builder.master(master)
         .config("spark.driver.host", "10.213.77.1").config("spark.driver.bindAddress", "10.213.77.1")
         .config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
         .config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"]).getOrCreate())

def rows(index, numbers):
    host = os.readlink("/proc/self/ns/net")
    return ((host, n) for n in numbers)

# More tasks at once than either host has slots: both feed.
data = spark.sparkContext.parallelize(range(20000), 8).mapPartitionsWithIndex(rows)
arguments = {"dir": directory, "batch": 500}
with tfos.run(spark, programs.collect_rows, nodes=1, args=arguments,
              coordinator_advertised_address="10.213.77.1") as cluster:
    cluster.train(data)
ledger = cluster.ledger()
assert ledger.complaint() is None and ledger.read == 20000, ledger
with tfos.run(spark, programs.echo, nodes=1, args={"batch": 100},
              coordinator_advertised_address="10.213.77.1") as cluster:
    results = [row for _, row in cluster.inference(data).collect()]
assert [n for _, n in results] == list(range(20000))

# One task, on one of the hosts, and a node on each: both get their share.
def count_batches(ctx):
    batches = sum(1 for _ in ctx.dataset(100, remainder="drop"))
    open(os.path.join(ctx.args["dir"], f"batches-{ctx.node_id}"), "w").write(str(batches))

one = spark.sparkContext.parallelize(range(20000), 1).map(lambda n: ([float(n)] * 50, n))
with tfos.run(spark, count_batches, nodes=2, args=arguments,
              coordinator_advertised_address="10.213.77.1") as cluster:
    assert len({node["address"] for node in cluster.nodes}) == 2, cluster.nodes
    cluster.train(one)
assert cluster.ledger().complaint() is None, cluster.ledger()
spark.stop()
"""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def other_host(tmp_path):
    """A network namespace joined to ours by a cable."""
    name = f"tfos-{os.getpid()}"
    cable = f"tfos{os.getpid() % 100000}"
    try:
        _ip("netns", "add", name)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces can't be made here: {getattr(error, 'stderr', error)}")
    try:
        try:
            _ip("link", "add", f"{cable}a", "type", "veth", "peer", "name", f"{cable}b",
                "netns", name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces can't be joined here: {error.stderr}")
        _ip("addr", "add", f"{_OURS}/30", "dev", f"{cable}a")
        _ip("link", "set", f"{cable}a", "up")
        for command in (["addr", "add", f"{_THEIRS}/30", "dev", f"{cable}b"],
                        ["link", "set", f"{cable}b", "up"], ["link", "set", "lo", "up"]):
            _ip("netns", "exec", name, "ip", *command)
        yield Host(_THEIRS, ("ip", "netns", "exec", name))
    finally:
        _ip("netns", "del", name)  # takes the cable along


def test_rows_and_results_cross_hosts(other_host, tmp_path):
    hosts = (Host(_OURS), other_host)
    with SparkCluster(workers=2, cores=1, memory="1g", directory=tmp_path / "spark",
                      hosts=hosts) as cluster:
        environment = {**os.environ, "SPARK_LOCAL_IP": _OURS,
                       "PYTHONPATH": str(pathlib.Path(__file__).parent),
                       "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run([sys.executable, "-c", _DRIVER, cluster.url, str(tmp_path)],
                              env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = pickle.loads((tmp_path / "rows-0").read_bytes())
    assert sorted(n for _, n in rows) == list(range(20000))
    assert len({host for host, _ in rows}) == 2, "only one of the hosts has fed"
    batches = [int((tmp_path / f"batches-{node}").read_text()) for node in range(2)]
    # The rows of one task went to both: neither host has all, and what is dropped is little.
    assert batches[0] == batches[1] > 60, batches
