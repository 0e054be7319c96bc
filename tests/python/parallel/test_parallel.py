"""Independent instances and the slots that they need."""

import argparse
import os
import pathlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from support.places import SUPPORT
from support.spark.fake import FakeSparkContext
from support.waiting import wait_for
from tensorflowonspark import TFParallel
from tfos import parallel
from tfos.base import gpu
from tfos.base.programs import program_pickle
from tfos.errors import BadInputError, TfosError
from tfos.parallel.outcome import outcome_of
from tfos.spark import allocation, profiles, slots


@pytest.mark.parametrize(
    ("master", "task_cpus", "expected"),
    [
        ("local", 1, 1),
        ("local[3]", 1, 3),
        ("local[4,2]", 2, 2),
        ("local[*]", 1, None),
        ("local-cluster[2,3,1024]", 1, 6),
        ("local-cluster[2, 3, 1024]", 2, 2),
        ("spark://host:7077", 1, None),
        ("yarn", 1, None),
        ("k8s://https://host", 1, None),
    ],
)
def test_a_master_of_fixed_size_says_how_many_slots_it_has(master, task_cpus, expected):
    assert slots.expected_slots(master, task_cpus) == expected


def test_a_shortage_of_a_fixed_master_is_said_at_once_with_the_numbers():
    sc = FakeSparkContext(
        "local-cluster[2,1,1024]", conf={"spark.task.cpus": "1", "spark.executor.cores": "1"}
    )
    with pytest.raises(BadInputError) as caught:
        slots.wait_for_slots(sc, 3, timeout=3600)
    message = str(caught.value)
    assert "3 nodes were asked for" in message and "has 2 task slot(s)" in message
    assert "spark.executor.cores: 1" in message and "spark.task.cpus: 1" in message
    assert "local-cluster[EXECUTORS,CORES,MB]" in message
    assert "--num-executors" not in message and "slots.timeout" not in message
    assert sc.looks == []


def test_executors_that_register_later_are_waited_for():
    sc = FakeSparkContext("spark://host:7077", slots_by_look=[0, 1, 2])
    slots.wait_for_slots(sc, 2, timeout=60)
    assert sc.looks == [2]


def test_the_thread_that_waits_for_slots_does_not_ask_spark(monkeypatch):
    """While it calls the JVM, Spark's handler of Ctrl-C can't."""
    threads = []

    def available(context, profile):
        threads.append(threading.current_thread())
        return len(threads)

    monkeypatch.setattr(slots, "available_slots", available)
    slots.wait_for_slots(FakeSparkContext("spark://host:7077", slots_by_look=[]), 2, timeout=60)
    assert len(threads) == 2 and threading.current_thread() not in threads


def test_executors_that_never_register_are_waited_for_until_the_timeout():
    sc = FakeSparkContext("yarn", slots_by_look=[1])
    with pytest.raises(BadInputError, match="has 1 task slot.*--num-executors.*slots.timeout"):
        slots.wait_for_slots(sc, 2, timeout=0.2)


def test_instances_that_wait_for_executors_say_so(caplog):
    conf = {"spark.tfos.slots.timeout": "0.2"}
    sc = FakeSparkContext("yarn", slots_by_look=[0, 0, 1], conf=conf)
    with pytest.raises(BadInputError, match="2 instances were asked for .* has 1 task slot"):
        TFParallel.run(sc, lambda args, ctx: None, None, 2)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == [f"waiting for executors: {slots} of 2 task slots" for slots in (0, 1)]


def dynamic(master="yarn", **conf):
    settings = {f"spark.dynamicAllocation.{name}": value for name, value in conf.items()}
    return FakeSparkContext(
        master, slots_by_look=[0], conf={"spark.dynamicAllocation.enabled": "true", **settings}
    )


def test_dynamic_allocation_is_not_second_guessed():
    slots.wait_for_slots(dynamic(), 2, timeout=0)


def test_a_local_master_allocates_nothing():
    assert allocation.is_dynamic(dynamic("local-cluster[2,1,1024]"))
    for master in ("local", "local[4]"):
        assert not allocation.is_dynamic(dynamic(master))


@pytest.mark.parametrize("is_known", [True, False])
def test_no_more_executors_are_counted_on_than_may_come(is_known):
    profile = SimpleNamespace(
        maxTasksPerExecutor=lambda conf: 2, isCoresLimitKnown=lambda: is_known
    )
    sc = dynamic(maxExecutors="3")
    allocation.check_most_executors(sc, profile, 6, "nodes")
    allocation.check_most_executors(dynamic(), profile, 7, "nodes")
    if not is_known:
        allocation.check_most_executors(sc, profile, 7, "nodes")
        return
    with pytest.raises(BadInputError) as caught:
        allocation.check_most_executors(sc, profile, 7, "nodes")
    assert "may bring 3 executor(s)" in str(caught.value)
    assert "Ask for at most 6 nodes" in str(caught.value)


def test_executors_with_nodes_that_dynamic_allocation_may_remove_are_warned_of(caplog):
    timeout = {"cachedExecutorIdleTimeout": "90s"}
    for harmless in (dynamic(), dynamic("local[2]", **timeout), FakeSparkContext("yarn")):
        allocation.warn_of_idle_executors(harmless)
    assert caplog.records == []
    allocation.warn_of_idle_executors(dynamic(**timeout))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "spark.dynamicAllocation.cachedExecutorIdleTimeout is 90s" in record.getMessage()


@pytest.mark.parametrize("use_barrier", [True, False])
def test_every_instance_runs_once_and_knows_itself(spark, use_barrier):
    def program(args, ctx):
        return (
            ctx.executor_id,
            ctx.worker_num,
            ctx.num_workers,
            ctx.defaultFS,
            args.x,
            ctx.gpus,
            os.path.isabs(ctx.working_dir),
        )

    args = argparse.Namespace(x=5)
    results = TFParallel.run(spark.sparkContext, program, args, 2, use_barrier)
    assert results == [(index, index, 2, "file://", 5, [], True) for index in (0, 1)]


def test_an_argv_list_becomes_sys_argv(spark):
    def program(args, ctx):
        return args, sys.argv

    argv = ["prog", "--steps", "3"]
    assert TFParallel.run(spark.sparkContext, program, argv, 1) == [(argv, argv)]


def test_without_a_barrier_there_may_be_more_instances_than_slots(spark):
    results = TFParallel.run(spark.sparkContext, lambda args, ctx: ctx.executor_id, None, 5, False)
    assert results == [0, 1, 2, 3, 4]


def test_a_barrier_of_more_instances_than_slots_fails_at_once(spark):
    sc = spark.sparkContext
    jobs = sc._jsc.sc().dagScheduler().numTotalJobs()
    with pytest.raises(BadInputError, match="3 instances were asked for .* has 2 task slot"):
        TFParallel.run(sc, lambda args, ctx: None, None, 3)
    assert sc._jsc.sc().dagScheduler().numTotalJobs() == jobs, "nothing was to be started"


def test_a_barrier_with_dynamic_allocation_is_refused_before_spark_does():
    with pytest.raises(BadInputError, match="pass barrier=False, so that") as refused:
        parallel.run(dynamic(), print, instances=2)
    assert "TFParallel" not in str(refused.value)
    with pytest.raises(BadInputError, match="pass barrier=False, so that") as refused:
        TFParallel.run(dynamic(), lambda args, ctx: None, None, 2)
    assert refused.value.__notes__ == ["TFParallel.run calls this argument use_barrier."]


def test_a_failure_arrives_with_the_traceback_of_the_program(spark):
    def innermost():
        raise KeyError("no such layer")

    def program(args, ctx):
        innermost()

    with pytest.raises(TfosError) as caught:
        TFParallel.run(spark.sparkContext, program, None, 1, use_barrier=False)
    message = str(caught.value)
    assert "KeyError: 'no such layer'" in message and "in innermost" in message
    assert "instance 0 on " in message
    assert "java" not in message and "scala" not in message


def test_gpus_are_given_back_when_the_process_of_their_instance_has_ended(
    spark, tmp_path, gpus_of_executors
):
    """TensorFlow holds their memory so long, and Spark keeps a task's process for the next one."""
    gpus_of_executors(1)

    def processes():
        return [name for name in os.listdir(tmp_path) if os.path.exists(f"/proc/{name}")]

    def program(args, ctx):
        others = processes()
        (tmp_path / str(os.getpid())).touch()
        return others, ctx.gpus, os.environ["CUDA_VISIBLE_DEVICES"]

    results = TFParallel.run(spark.sparkContext, program, None, 5, use_barrier=False)
    assert results == [([], ["0"], "0")] * 5
    assert processes() == []


def test_instances_of_a_barrier_take_no_gpu_that_another_process_has(spark, gpus_of_executors):
    gpus_of_executors(3)
    with gpu.leased(1, [str(SUPPORT / "bin" / "nvidia-smi")]) as ours:
        results = TFParallel.run(spark.sparkContext, lambda args, ctx: ctx.gpus, None, 2)
    assert sorted([*ours.indices, *results[0], *results[1]]) == ["0", "1", "2"]


def test_instances_of_a_barrier_share_gpus_that_are_too_few(spark, gpus_of_executors):
    gpus_of_executors(1)
    results = TFParallel.run(spark.sparkContext, lambda args, ctx: ctx.gpus, None, 2)
    assert results == [["0"], ["0"]]


@pytest.mark.parametrize("gpu_count", [0, 2])
@pytest.mark.parametrize("use_barrier", [True, False])
def test_an_instance_knows_its_task(spark, tmp_path, gpus_of_executors, gpu_count, use_barrier):
    gpus_of_executors(gpu_count)
    sc = spark.sparkContext
    shipped = tmp_path / f"{tmp_path.name}.txt"
    shipped.write_text("shipped")
    sc.addFile(str(shipped))
    told = sc.broadcast({"rate": 0.5})

    class Found:
        """What one instance has found."""

        def __init__(self, **values):
            vars(self).update(values)

    def program(args, ctx):
        from pyspark import BarrierTaskContext, SparkFiles, TaskContext

        def streams(pid):
            return [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)]

        number = str(ctx.executor_id)
        return Found(
            partition=TaskContext.get().partitionId(),
            said=BarrierTaskContext.get().allGather(number) if use_barrier else [],
            told=told.value,
            file=pathlib.Path(SparkFiles.get(shipped.name)).read_text(),
            gpus=ctx.gpus,
            argv=sys.argv[1:],
            is_of_a_process_of_its_own=streams("self") == streams(os.getppid()),
        )

    results = TFParallel.run(sc, program, None, 2, use_barrier)
    assert [type(found) for found in results] == [Found, Found]
    gpus = [found.gpus for found in results]
    if gpu_count == 0:
        assert gpus == [[], []]
    else:
        assert sorted(gpus) == [["0"], ["1"]] or not use_barrier
        assert all(found.is_of_a_process_of_its_own and found.argv == [] for found in results)
    for index, found in enumerate(results):
        assert found.partition == index
        assert found.said == (["0", "1"] if use_barrier else [])
        assert found.told == {"rate": 0.5} and found.file == "shipped"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: {}["no such layer"], r"in program\n.*KeyError: 'no such layer'"),
        (lambda: os.kill(os.getpid(), 9), "its process was ended by SIGKILL, as on a host"),
        (lambda: os.kill(os.getpid(), 40), "its process was ended by signal 40"),
    ],
    ids=["exception", "kill", "real-time signal"],
)
def test_why_an_instance_with_gpus_has_failed(spark, gpus_of_executors, end, message):
    gpus_of_executors(1)

    def program(args, ctx):
        return end()

    with pytest.raises(TfosError, match=rf"(?s)an instance failed: instance 0 on .*{message}"):
        TFParallel.run(spark.sparkContext, program, None, 1, use_barrier=False)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda instance: sys.exit("no such rate"), "SystemExit: no such rate\n"),
        (lambda instance: threading.Lock(), "TypeError: cannot pickle '_thread.lock' object\n"),
    ],
    ids=["exit", "result"],
)
def test_what_ends_an_instance_without_an_exception_of_its_own(end, message):
    found = outcome_of(program_pickle.dumps(end), None)
    assert found.failure.endswith(message) and "outcome.py" not in found.failure


def test_an_instance_with_gpus_ends_with_its_task(spark, tmp_path, gpus_of_executors):
    gpus_of_executors(1)
    sc = spark.sparkContext

    def program(args, ctx):
        (tmp_path / str(os.getpid())).touch()
        threading.Event().wait()

    def run():
        sc.setJobGroup("waiting", "an instance that waits")
        with pytest.raises(TfosError, match="cancelled"):
            TFParallel.run(sc, program, None, 1, use_barrier=False)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(run)
        try:
            (pid,) = wait_for(lambda: os.listdir(tmp_path), "the instance")
        finally:
            sc.cancelJobGroup("waiting")
        ended.result()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the instance")
    with gpu.leased(1, (str(SUPPORT / "bin" / "nvidia-smi"),)) as leased:
        assert leased.indices == ["0"]


def test_the_gpus_of_an_instance_do_not_stay_set_in_a_reused_worker(spark):
    sc = spark.sparkContext

    def visible(_):
        return os.environ.get("CUDA_VISIBLE_DEVICES", "unset")

    before = sc.parallelize([0], 1).map(visible).collect()
    TFParallel.run(sc, lambda args, ctx: None, None, 1)
    assert sc.parallelize([0], 1).map(visible).collect() == before


def test_an_instance_may_change_what_it_sees_of_gpus(spark):
    def program(args, ctx):
        return os.environ.pop("CUDA_VISIBLE_DEVICES")

    assert TFParallel.run(spark.sparkContext, program, None, 1) == [""]


def test_no_instances_are_refused(spark):
    with pytest.raises(BadInputError, match="0 instances"):
        TFParallel.run(spark.sparkContext, lambda args, ctx: None, None, 0)


@pytest.mark.parametrize(
    ("gpu_count", "conf"),
    [
        (0, {"spark.executor.resource.gpu.amount": "1"}),
        (1, {}),
        (1, {"spark.executor.resource.gpu.amount": "1"}),
        (2, {"spark.executor.resource.gpu.amount": "4", "spark.task.resource.gpu.amount": "2"}),
    ],
)
def test_nodes_need_no_profile_where_tasks_have_what_they_need(gpu_count, conf):
    sc = FakeSparkContext("yarn", conf=conf)
    assert profiles.profile_of_nodes(sc, None, gpu_count) is None
    assert profiles.profile_of_nodes(sc, None, gpu_count, 1) is None


SHARED_GPU = {
    "spark.executor.resource.gpu.amount": "1",
    "spark.task.resource.gpu.amount": "0.08",
}


@pytest.mark.parametrize("master", ["spark://h:7077", "local-cluster[2,12,1024]"])
def test_cores_that_must_keep_nodes_off_a_gpu_are_to_be_named(master):
    old = FakeSparkContext(master, version="3.5.7", conf=SHARED_GPU)
    with pytest.raises(BadInputError, match=r"gpu_count=1: set spark\.executor\.cores"):
        profiles.profile_of_nodes(old, None, 1)
    # Nothing depends on it where tasks have the same number of GPUs as nodes.
    alike = {**SHARED_GPU, "spark.task.resource.gpu.amount": "1"}
    same = FakeSparkContext(master, version="3.5.7", conf=alike)
    assert profiles.profile_of_nodes(same, None, 1) is None


@pytest.mark.parametrize(
    ("master", "version", "cores", "of_node"),
    [
        ("spark://h:7077", "3.5.7", "12", 7),
        ("spark://h:7077", "4.0.1", None, 1),
        ("yarn", "3.5.7", None, 1),
    ],
)
def test_a_node_takes_so_many_cores_that_no_other_fits(master, version, cores, of_node):
    conf = {**SHARED_GPU, **({"spark.executor.cores": cores} if cores else {})}
    sc = FakeSparkContext(master, version=version, conf=conf)
    for wanted in ((1, 0), (0, 1)):
        asked = profiles.profile_of_nodes(sc, None, *wanted).taskResources
        assert (asked["cpus"].amount, asked["gpu"].amount) == (of_node, 1)


def test_a_limit_of_workers_that_nodes_would_inherit_is_warned_of(caplog):
    from pyspark.resource import ExecutorResourceRequests, ResourceProfile

    requests = ExecutorResourceRequests()
    profile = ResourceProfile(_exec_req=requests.memory("2g").requests)
    limited = FakeSparkContext("yarn", conf={"spark.executor.pyspark.memory": "2g"})
    profiles.warn_of_worker_memory(FakeSparkContext("yarn"), None)
    # Spark takes the limit of the profile's tasks from the profile alone.
    profiles.warn_of_worker_memory(limited, profile)
    assert caplog.records == []
    profiles.warn_of_worker_memory(limited, None)
    both = ResourceProfile(_exec_req=requests.pysparkMemory("3g").requests)
    profiles.warn_of_worker_memory(FakeSparkContext("yarn"), both)
    of_all, of_profile = (record.getMessage() for record in caplog.records)
    assert "spark.executor.pyspark.memory is 2g: leave it out" in of_all
    assert "in spark.executor.memoryOverhead" in of_all
    assert "pyspark.memory of the resource profile is 3072 MiB" in of_profile
    assert "in its memoryOverhead" in of_profile


def test_a_profile_is_one_of_spark_and_for_executors():
    from pyspark.resource import ResourceProfile

    with pytest.raises(BadInputError, match="a pyspark.resource.ResourceProfile"):
        profiles.profile_of_nodes(FakeSparkContext("yarn"), {"gpu": 1}, 0)
    profile = ResourceProfile()
    assert profiles.profile_of_nodes(FakeSparkContext("yarn"), profile, 0) is profile
    with pytest.raises(BadInputError, match=r"local\[2\] has none"):
        profiles.profile_of_nodes(FakeSparkContext("local[2]"), profile, 0)


@pytest.mark.parametrize("instances", [2, 3])
def test_instances_take_gpus_that_the_executors_environment_leaves(
    spark_on, gpus_of_executors, instances
):
    gpus_of_executors(4)
    spark = spark_on("local[3]", **{"spark.executorEnv.CUDA_VISIBLE_DEVICES": "2,3"})
    results = TFParallel.run(spark.sparkContext, lambda args, ctx: ctx.gpus, None, instances)
    assert {gpu for gpus in results for gpu in gpus} == {"2", "3"}
