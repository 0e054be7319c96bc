"""Hosts on which nodes are lost again and again: those that come in place of them go elsewhere."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess

import pytest

import tfos
from support.programs.lives import begin_life

pytestmark = pytest.mark.namespaces

BAD_HOST = "bad-host"
#: After so many losses the host is avoided.
LOSSES = 2
#: The name that a host has for what runs there, and nothing else: a namespace of its own for it.
_NAMED = ("unshare", "--uts", "sh", "-c", f'hostname {BAD_HOST} && exec "$@"', "sh")


@pytest.fixture
def spark_on_two_hosts(spark_on, tmp_path):
    """A session with an executor of two cores on this host, and on one that is called BAD_HOST."""
    # Nodes import this module, and have no tools.
    from spark_cluster import Host, SparkCluster

    if subprocess.run([*_NAMED, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("UTS namespaces can't be made here")
    hosts = (Host(), Host(prefix=_NAMED))
    with SparkCluster(cores=2, directory=tmp_path / "spark", hosts=hosts) as cluster:
        spark = spark_on(
            cluster.url,
            **{
                "spark.executor.memory": "512m",
                # Both executors are there before the nodes are: each gets one.
                "spark.cores.max": "4",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                # What ends a launch task with an error ends the cluster.
                "spark.task.maxFailures": "1",
            },
        )
        yield spark
        spark.stop()


def train(ctx):
    """Makes steps until all nodes are in one, on good hosts. On the bad one it is killed after its
    first step with the others."""
    import tensorflow as tf

    from tfos import collective

    host = socket.gethostname()
    begin_life(ctx)
    pathlib.Path(ctx.args["dir"], f"host-{os.getpid()}").write_text(host)
    good = 0
    with tfos.elastic.State(step=0) as state:
        while good < ctx.size:
            # So that the others have let it in.
            good = int(collective.all_reduce(tf.constant(float(host != BAD_HOST)), "sum"))
            state.step += 1
            state.commit()
            if host == BAD_HOST:
                os.kill(os.getpid(), signal.SIGKILL)
    return host


@pytest.mark.failure("node killed", "training")
@pytest.mark.long
def test_a_node_that_is_lost_again_and_again_comes_on_another_host(
    spark_on_two_hosts, leftovers, tmp_path, caplog
):
    lives = tmp_path / "lives"
    lives.mkdir()
    with tfos.run(
        spark_on_two_hosts,
        train,
        nodes=(1, 2),
        args={"dir": str(lives)},
        input_mode="tensorflow",
        hosts_max_losses=LOSSES,
    ) as cluster:
        results = cluster.wait(timeout=240)
    ours = socket.gethostname()
    assert results == [ours, ours], "also of the one that another job of Spark has started"
    hosts = [file.read_text() for file in lives.glob("host-*")]
    assert sorted(hosts) == sorted([BAD_HOST] * LOSSES + [ours] * 2)
    said = [record.getMessage() for record in caplog.records]
    away = [text for text in said if "was turned away" in text]
    assert len(away) == 1, said
    assert f"host {BAD_HOST} is avoided: nodes were lost there {LOSSES} times within" in away[0]
