"""Executors that Spark brings, takes away and equips by itself, on a standalone cluster: dynamic
allocation with shuffle tracking, decommissioning, and a resource profile for nodes.

The Workers have two cores each, and GPUs of a discovery script's making: one, or two.
"""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

import tfos
import tfos.parallel
from support.made_up_gpus import workers_with_gpus
from support.programs import nodes as programs
from support.waiting import BOUND_SECONDS, wait_for
from tfos.errors import BadInputError, NodeFailedError
from tfos.spark import allocation

pytestmark = pytest.mark.spark  # The Workers are this module's own.

WORKERS = 3
EXECUTORS = {
    "spark.executor.cores": "2",
    "spark.executor.memory": "512m",
    "spark.executor.resource.gpu.amount": "1",
    "spark.task.resource.gpu.amount": "0.5",
    "spark.decommission.enabled": "true",
}
DYNAMIC = {
    **EXECUTORS,
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": str(WORKERS + 1),
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    with workers_with_gpus(WORKERS, tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def worker_of_two_gpus(tmp_path_factory):
    with workers_with_gpus(1, tmp_path_factory.mktemp("spark"), gpus=2) as cluster:
        yield cluster


@pytest.fixture
def two_gpus(spark_on, worker_of_two_gpus):
    """One executor that has two tasks with a GPU each."""
    gpus = {f"spark.{who}.resource.gpu.amount": n for who, n in (("executor", "2"), ("task", "1"))}
    return spark_on(worker_of_two_gpus.url, **(EXECUTORS | gpus)).sparkContext


@pytest.fixture
def dynamic(spark_on, workers):
    return spark_on(workers.url, **DYNAMIC).sparkContext


def executors(sc):
    """Spark's ids of those that it has and does not take away."""
    ids = sc._jsc.sc().schedulerBackend().getExecutorIds()
    return set(ids.mkString(" ").split())


def executors_of(cluster):
    return {node.executor_id for node in cluster.status()}


def use_all_executors(sc):
    """Runs so many tasks at the same time that Spark needs all Workers for them."""
    slots = 2 * WORKERS
    arrived = sc.parallelize(range(slots), slots)
    job = arrived.map(_await_executors(sc, WORKERS))
    assert job.count() == slots


def _await_executors(sc, count):
    """What each task does: it ends when there is a task in `count` executors, which say so by files."""
    import tempfile

    directory = tempfile.mkdtemp(dir=os.environ["TMPDIR"])

    def arrive(_):
        open(os.path.join(directory, str(os.getppid())), "w").close()
        wait_for(lambda: len(os.listdir(directory)) >= count, "tasks in other executors")

    return arrive


@pytest.mark.long
def test_nodes_have_a_gpu_each_without_dynamic_allocation(spark_on, workers, tmp_path):
    sc = spark_on(workers.url, **EXECUTORS).sparkContext
    assert not allocation.is_dynamic(sc)
    use_all_executors(sc)
    assert len(gpus_of_nodes(sc, tmp_path, nodes=3, gpu_count=1)) == 3
    with pytest.raises(BadInputError, match=r"gpu_count=2: Spark's executors have 1 GPU"):
        tfos.run(sc, programs.write_gpus, nodes=2, gpu_count=2)


def test_nodes_that_take_a_gpu_where_there_is_one_have_it_for_themselves(
    spark_on, workers, tmp_path
):
    """As ``TFCluster.run`` asks. Other tasks of the application share a GPU."""
    sc = spark_on(workers.url, **EXECUTORS).sparkContext
    use_all_executors(sc)
    assert len(gpus_of_nodes(sc, tmp_path, nodes=3, gpu_count_if_any=1)) == 3


def gpus_in(*clusters):
    return sorted(gpu for cluster in clusters for node in cluster.status() for gpu in node.gpus)


def test_a_node_in_place_of_a_lost_one_takes_no_gpu_of_another(two_gpus, tmp_path, leftovers):
    def runs(besides=0):
        nodes = cluster.status()
        return [n.state for n in nodes] == ["running"] * 2 and besides not in [n.pid for n in nodes]

    end = tmp_path / "end"
    program = programs.read_nothing_until
    with tfos.run(two_gpus, program, nodes=(1, 2), args={"path": str(end)}, gpu_count=1) as cluster:
        wait_for(runs, "both nodes")
        both = gpus_in(cluster)
        assert len(set(both)) == 2
        first = cluster.status()[1].pid
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: runs(besides=first), "another node 1")
        assert gpus_in(cluster) == both
        end.touch()


def test_nodes_of_two_clusters_take_no_gpu_of_each_other(two_gpus, tmp_path):
    def run(nodes, **options):
        arguments = {"dir": str(tmp_path), "batch": 10}
        return tfos.run(two_gpus, programs.collect_rows, nodes=nodes, args=arguments, **options)

    with run(1, gpu_count=1) as first:
        ((instance,),) = tfos.parallel.run(two_gpus, lambda instance: instance.gpus, instances=1)
        assert instance not in gpus_in(first)
    with run(1, gpu_count=1) as first, run(1, gpu_count=1) as second:
        assert len(set(gpus_in(first, second))) == 2
        # It looks for a free one for a while, and may have registered by then.
        with pytest.raises(NodeFailedError, match="other tfos nodes hold GPU .*-[01], .*-[01] and"):
            with run(1, gpu_count=1):
                pass
        with run(2) as third:  # asks for none, and Spark gives it some all the same
            assert set(gpus_in(third)) <= set(gpus_in(first, second))


@pytest.mark.failure("executor removed", "feeding", "shutdown")
@pytest.mark.long
def test_nodes_hold_their_executors_and_give_them_back(dynamic, tmp_path, leftovers):
    arguments = {"dir": str(tmp_path), "batch": 10}
    with tfos.run(dynamic, programs.collect_rows, nodes=2, args=arguments) as cluster:
        use_all_executors(dynamic)
        held = executors_of(cluster)
        # Those without nodes, which have been idle for as long as these, are gone.
        wait_for(lambda: executors(dynamic) == held, lambda: f"{executors(dynamic)} to be {held}")
        cluster.train(dynamic.parallelize(range(100), 4))
    assert cluster.ledger().complaint() is None
    wait_for(lambda: not executors(dynamic), lambda: f"the end of {executors(dynamic)}")


def test_executors_are_asked_for_when_fewer_are_up(dynamic, tmp_path):
    wait_for(lambda: not executors(dynamic), lambda: f"the end of {executors(dynamic)}")
    arguments = {"dir": str(tmp_path), "batch": 10}
    with tfos.run(dynamic, programs.collect_rows, nodes=3, args=arguments) as cluster:
        assert len(executors_of(cluster)) == 2  # of two slots each
        cluster.train(dynamic.parallelize(range(100), 4))


def test_too_small_a_maximum_is_said_at_once(dynamic):
    with pytest.raises(BadInputError) as caught:
        tfos.run(dynamic, programs.collect_rows, nodes=9)
    assert "9 nodes were asked for and dynamic allocation may bring 4 executor(s)" in str(
        caught.value
    )
    assert "Ask for at most 8 nodes" in str(caught.value)


def test_executors_that_do_not_come_are_named(dynamic, leftovers):
    with pytest.raises(NodeFailedError) as caught:
        tfos.run(dynamic, programs.collect_rows, nodes=7, registration_timeout=10)
    assert "no executor slot" in str(caught.value)
    assert "(spark.dynamicAllocation.maxExecutors: 4)" in str(caught.value)


def jvm_of(cluster, number):
    """The process of the executor that a node runs beside."""
    wanted = ["--executor-id", cluster.status()[number].executor_id]
    application = cluster.spark_context.applicationId

    def is_it(process):
        try:
            words = process.cmdline()
        except psutil.Error:
            return False
        return application in words and any(
            words[at : at + 2] == wanted for at in range(len(words))
        )

    (jvm,) = filter(is_it, psutil.process_iter())
    return jvm


@pytest.mark.failure("executor killed", "shutdown")
@pytest.mark.parametrize("input_mode", ["spark", "tensorflow"])
def test_an_executor_that_is_killed_is_named_and_nothing_stays(
    dynamic, tmp_path, leftovers, input_mode
):
    program = programs.save_once_a_node_leaves
    with pytest.raises(NodeFailedError) as caught:
        with tfos.run(
            dynamic, program, nodes=2, args={"dir": str(tmp_path)}, input_mode=input_mode
        ) as cluster:
            # If anything else were killed, `shutdown` would wait for ever.
            assert executors_of(cluster) <= executors(dynamic)
            victim = jvm_of(cluster, 1)
            victim.kill()
            victim.wait(BOUND_SECONDS)
            cluster.shutdown()
    assert f"the Spark executor (process {victim.pid}) has ended" in str(caught.value)
    wait_for(lambda: not executors(dynamic), lambda: f"the end of {executors(dynamic)}")


@pytest.mark.long
def test_nodes_have_a_gpu_each_after_tasks_that_share_them(dynamic, tmp_path):
    use_all_executors(dynamic)
    shared = gpus_of_nodes(dynamic, tmp_path, nodes=2, gpu_count=1)
    assert len(shared) == 2


def test_a_profile_of_the_programs_own(dynamic, tmp_path):
    from pyspark.resource import (
        ExecutorResourceRequests,
        ResourceProfileBuilder,
        TaskResourceRequests,
    )

    executor = ExecutorResourceRequests().cores(1).memory("512m").resource("gpu", 1)
    tasks = TaskResourceRequests().cpus(1).resource("gpu", 1)
    profile = ResourceProfileBuilder().require(executor).require(tasks).build
    assert len(gpus_of_nodes(dynamic, tmp_path, nodes=2, resources=profile)) == 2


def test_a_profile_that_spark_refuses_is_said(dynamic):
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    tasks = TaskResourceRequests().cpus(1).resource("gpu", 1)
    profile = ResourceProfileBuilder().require(tasks).build
    with pytest.raises(BadInputError, match="Spark refuses the resources of nodes: No executor"):
        tfos.run(dynamic, programs.write_gpus, nodes=2, resources=profile)


def gpus_of_nodes(sc, directory, *, nodes, **options):
    """The GPUs that the programs saw; each node had one, on an executor of its own."""
    with tfos.run(
        sc,
        programs.write_gpus,
        nodes=nodes,
        args=str(directory),
        input_mode="tensorflow",
        **options,
    ) as cluster:
        cluster.wait()
    seen = [json.loads(path.read_text())["gpus"] for path in directory.iterdir()]
    assert len(executors_of(cluster)) == nodes
    assert [len(gpus) for gpus in seen] == [1] * nodes
    return {gpu for (gpu,) in seen}


@pytest.mark.failure("executor removed", "training")
@pytest.mark.parametrize("who", [pytest.param("executor", marks=pytest.mark.long), "worker"])
def test_all_nodes_hear_of_a_decommission_in_time_and_the_loss_names_it(
    dynamic, workers, tmp_path, leftovers, who
):
    """Kubernetes signals the executor. On a standalone cluster, an administrator signals its Worker."""
    with pytest.raises(NodeFailedError) as caught:
        with tfos.run(
            dynamic,
            programs.save_once_a_node_leaves,
            nodes=2,
            args={"dir": str(tmp_path)},
            input_mode="tensorflow",
            gpu_count=1,  # so each has an executor of its own
        ) as cluster:
            victim = jvm_of(cluster, 1)
            os.kill(victim.pid if who == "executor" else victim.ppid(), signal.SIGPWR)
            wait_for(lambda: len(list(tmp_path.glob("saved-?"))) == 2, "what both nodes save")
            why = f"executor {cluster.status()[1].executor_id} is being decommissioned"
            said = [json.loads(path.read_text()) for path in tmp_path.glob("saved-?")]
            assert said == [{"1": why}] * 2
            assert [node.leaving for node in cluster.status()] == ["", why]
            victim.kill()
            cluster.wait()
    assert f"has ended. Spark had announced it: {why}" in str(caught.value)
