"""Stage-level scheduling: what the launch tasks ask of Spark, where that differs from what the
application's other tasks ask for.

Threads: any. Errors: BadInputError where they are named.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JJavaError

from tfos.errors import BadInputError
from tfos.spark import allocation, versions
from tfos.spark.connect import ConnectContext

logger = logging.getLogger(__name__)

_WORKER_MEMORY = "pyspark.memory"


def profile_of_nodes(
    spark_context: Any, resources: Any, gpu_count: int, gpu_count_if_any: int = 0
) -> Any:
    """The ``pyspark.resource.ResourceProfile`` of the launch tasks; None for Spark's default. With
    Spark Connect, the session's server knows it.

    resources: one that the program made. Without it, there is one where nodes get ``gpu_count``
    whole GPUs, and Spark manages GPUs and gives its tasks another number of them. The same with
    ``gpu_count_if_any`` where Spark's tasks share GPUs.

    Raises BadInputError for a ``resources`` of another type, and on local masters; with Spark
    Connect also for a profile that Spark can't do. Raises it for a ``gpu_count`` above what an
    executor has, and where nobody knows how many cores keep other nodes away from a node's GPUs.
    """
    if resources is not None:
        _check_given(spark_context, resources)
        profile = resources
    else:
        profile = _of_gpus(spark_context, gpu_count, gpu_count_if_any)
    if profile is not None and isinstance(spark_context, ConnectContext):
        return spark_context.registered_profile(profile)
    return profile


def _check_given(spark_context: Any, resources: Any) -> None:
    from pyspark.resource import ResourceProfile

    if not isinstance(resources, ResourceProfile):
        raise BadInputError(
            f"resources={resources!r}: a pyspark.resource.ResourceProfile, as "
            "ResourceProfileBuilder builds it"
        )
    if spark_context.master.startswith("local") and "cluster" not in spark_context.master:
        raise BadInputError(
            f"resources are asked of executors, and {spark_context.master} has none: leave "
            "resources out there"
        )


def java_profile(spark_context: Any, profile: Any) -> Any:
    """Spark's own object for ``profile`` (None: the default), registered with its manager.

    Raises BadInputError for a profile that Spark can't do, with its reason.
    """
    manager = spark_context._jsc.sc().resourceProfileManager()
    if profile is None:
        return manager.defaultResourceProfile()
    # Spark registers a profile with the first RDD that has it.
    try:
        rdd = spark_context.parallelize([], 1).withResources(profile)
    except Py4JJavaError as error:
        raise BadInputError(
            f"Spark refuses the resources of nodes: {error.java_exception.getMessage()}"
        ) from error
    return rdd._jrdd.rdd().getResourceProfile()


def warn_of_worker_memory(spark_context: Any, profile: Any) -> None:
    """Warns if Spark limits the memory of the Python workers that start nodes, which inherit it.

    It limits addresses (RLIMIT_AS), of which TensorFlow takes far more than memory. How many it
    takes depends on its version and on the program, so nothing is refused.
    """
    if profile is None:
        key = f"spark.executor.{_WORKER_MEMORY}"
        amount = spark_context.getConf().get(key)
        instead = "spark.executor.memoryOverhead"
    else:
        request = profile.executorResources.get(_WORKER_MEMORY)
        key = f"{_WORKER_MEMORY} of the resource profile"
        amount = None if request is None else f"{request.amount} MiB"
        instead = "its memoryOverhead"
    if amount is None:
        return
    logger.warning(
        "%s is %s: leave it out, and count the nodes' memory in %s. Nodes inherit a limit of their "
        "addresses from it, divided by the executor's cores, and may fail to import TensorFlow "
        '("failed to map segment from shared object")',
        key,
        amount,
        instead,
    )


def _of_gpus(spark_context: Any, gpu_count: int, gpu_count_if_any: int) -> Any:
    conf = spark_context.getConf()
    of_executor = conf.get("spark.executor.resource.gpu.amount")
    if of_executor is None:
        return None
    of_task = float(conf.get("spark.task.resource.gpu.amount", "1"))
    if gpu_count == 0 and of_task < 1:
        gpu_count = min(gpu_count_if_any, int(of_executor))
    if gpu_count in (0, of_task):
        return None
    if int(of_executor) < gpu_count:
        raise BadInputError(
            f"gpu_count={gpu_count}: Spark's executors have {of_executor} GPU(s) "
            "(spark.executor.resource.gpu.amount): ask for fewer for each node, or give the "
            "executors more"
        )
    from pyspark.resource import (
        ExecutorResourceRequests,
        ResourceProfileBuilder,
        TaskResourceRequests,
    )

    cores = _cores_of_executor(spark_context, gpu_count)
    nodes_of_executor = int(of_executor) // gpu_count
    # Spark before 4.0 counts slots by the GPUs of its other tasks. So each node also takes so many
    # cores that no more nodes fit into an executor than it has GPUs for.
    cpus = min(cores // (nodes_of_executor + 1) + 1, cores // nodes_of_executor)
    tasks = TaskResourceRequests().cpus(max(cpus, 1)).resource("gpu", gpu_count)
    builder = ResourceProfileBuilder().require(tasks)
    if allocation.is_dynamic(spark_context):
        # Spark brings executors for each profile, which are the default's in all that it leaves
        # out except GPUs.
        script, vendor = (
            conf.get(f"spark.executor.resource.gpu.{name}", "")
            for name in ("discoveryScript", "vendor")
        )
        builder.require(
            ExecutorResourceRequests().resource("gpu", int(of_executor), script, vendor)
        )
    return builder.build


def _cores_of_executor(spark_context: Any, gpu_count: int) -> int:
    """Raises BadInputError where executors take all cores of their Workers, and Spark needs the
    number to keep nodes apart."""
    cores = spark_context.getConf().get("spark.executor.cores")
    if cores is not None:
        return int(cores)
    is_standalone = spark_context.master.startswith(("spark://", "local-cluster"))
    if is_standalone and not versions.counts_gpus_of_profiles(spark_context.version):
        raise BadInputError(
            f"gpu_count={gpu_count}: set spark.executor.cores. Without it executors take all cores "
            f"of their Workers, and Spark {spark_context.version} would give a GPU to several "
            "nodes: tfos can't tell how many cores each node needs to prevent that"
        )
    return 1  # as on YARN and Kubernetes
