"""A copy of a launch task, as `spark.speculation` starts one, takes no node away and ends no cluster:
it stands by until Spark ends it.

Spark starts a copy on another host only, so each of the two Workers has an address of its own.
"""

from __future__ import annotations

import pytest

import spark_cluster
import tfos
from support.programs import nodes as programs
from support.waiting import wait_for

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1",
    "spark.speculation.minTaskRuntime": "100ms",
    # What counts as a failure ends the job.
    "spark.task.maxFailures": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
}


@pytest.fixture(scope="module")
def spark(spark_on, tmp_path_factory):
    hosts = [spark_cluster.Host("127.0.0.1"), spark_cluster.Host("127.0.0.2")]
    with spark_cluster.SparkCluster(directory=tmp_path_factory.mktemp("spark"), hosts=hosts) as two:
        yield spark_on(two.url, **SPECULATION)


@pytest.mark.failure("speculative task", "training", "shutdown")
@pytest.mark.parametrize(
    "nodes",
    [pytest.param(2, id="all needed", marks=pytest.mark.long), pytest.param((1, 2), id="elastic")],
)
def test_a_copy_of_a_launch_task_stands_by(spark, tmp_path, capfd, leftovers, nodes):
    said = ""

    def stands_by():
        nonlocal said
        said += capfd.readouterr().err
        assert run.status()[1].state in ("registered", "running"), said
        return "node 1: another attempt on" in said

    end = tmp_path / "end"
    with tfos.run(
        spark,
        programs.return_rank_the_last_late,
        nodes=nodes,
        args={"path": str(end)},
        input_mode="tensorflow",
        log_level="info",
    ) as run:
        wait_for(stands_by, lambda: f"a copy of the last launch task; the driver has said: {said}")
        end.touch()
        assert run.wait() == [0, 1]
