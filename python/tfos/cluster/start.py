"""Starting a cluster: ``tfos.run``, and ``start`` for packages with older APIs."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from tfos.base import encryption
from tfos.base.programs import program_pickle
from tfos.base.quantities import seconds, whole_number
from tfos.base.roles import plan_roles, service_nodes
from tfos.base.setting import MOST_SECONDS
from tfos.cluster.cluster import Cluster
from tfos.cluster.feed.cluster_feed import warn_of_speculation
from tfos.cluster.notebook import live_view
from tfos.cluster.plan import ClusterPlan, ClusterRequest
from tfos.cluster.progress import Progress
from tfos.cluster.resumption import Resumption
from tfos.cluster.view import last_resort
from tfos.errors import BadInputError
from tfos.mlflow import Tracking
from tfos.mlflow import driver as tracked_run
from tfos.settings import Settings, unknown_key
from tfos.spark import allocation, failures, profiles, rpc_security, slots
from tfos.spark.connect import ConnectContext
from tfos.spark.jobs import use_this_python
from tfos.spark.sessions import context_of

logger = logging.getLogger(__name__)

_ATTEMPTS = "spark.task.maxFailures"
_SPARKS_ATTEMPTS = "4"


def run(
    spark: Any,
    main: Callable[[Any], Any],
    *,
    nodes: int | tuple[int, int],
    args: Any = None,
    parameter_servers: int = 0,
    ps: int = 0,
    chief: str | None = None,
    evaluator: bool = False,
    input_mode: str = "spark",
    tensorboard: bool = False,
    log_dir: str | os.PathLike[str] | None = None,
    driver_parameter_servers: bool = False,
    registration_timeout: float = 600,
    resources: Any = None,
    mlflow: bool | Tracking = False,
    resume: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Cluster:
    """Starts a TensorFlow cluster on the executors of ``spark`` and returns when it has formed.

    Args:
        spark: a SparkSession, also one of Spark Connect, or a SparkContext.
        main: called as ``main(ctx)`` in every node, with a :class:`tfos.node.context.NodeContext`.
        nodes: number of nodes, parameter servers, chief and evaluator included. With ``(2, 8)``
            the cluster begins with 2 nodes or more, and has up to 8. Nodes that come later, or in
            place of lost ones, join the training of ``fit`` with ``ctx.distribute`` after a step,
            or in input mode ``spark`` before an epoch. The program needs no change
            (docs/training.md).
        args: handed to the program as ``ctx.args``.
        parameter_servers: how many native parameter servers, for ``ctx.parameter_server``; the
            program does not run on them.
        ps: how many nodes of job ``ps`` run the program, for TensorFlow's own parameter servers.
        chief, evaluator: ``"chief"`` or ``"master"`` to name the first training node so; whether
            one node evaluates.
        input_mode: ``"spark"``: rows come from ``cluster.train`` and ``cluster.inference``;
            ``"tensorflow"``: the program reads its data itself.
        tensorboard, log_dir: run TensorBoard over ``log_dir`` beside the chief.
        driver_parameter_servers: run the parameter servers, of either kind, on the driver.
        registration_timeout: seconds for all nodes to come up.
        resources: a ``pyspark.resource.ResourceProfile``: what each node asks of Spark, where that
            differs from what the application's other tasks ask for. A ``gpu_count`` makes one by
            itself where Spark manages GPUs.
        mlflow: write metrics, parameters and the model into the active run of MLflow: True, or a
            :class:`tfos.mlflow.Tracking` (docs/mlflow.md).
        resume: the directory of ``ctx.checkpoint``, which needs no argument then. The training
            goes on from the last checkpoint there, also after the driver has died, and ``train``
            feeds only the epochs and rows that are left (docs/checkpoints.md).
        settings: any of :data:`tfos.settings.SETTINGS` by keyword.

    Raises:
        BadInputError: sizes that can't be, too few executor slots; nothing was started.
        NodeFailedError: a node failed, or didn't come up in time, with its name, state and reason.
    """
    least, most = _least_and_most(nodes)
    request = ClusterRequest(
        nodes=most,
        min_nodes=least,
        args=args,
        parameter_servers=parameter_servers,
        ps=ps,
        chief=chief,
        evaluator=evaluator,
        input_mode=input_mode,
        tensorboard=tensorboard,
        log_dir=log_dir,
        driver_parameter_servers=driver_parameter_servers,
        registration_timeout=seconds("registration_timeout", registration_timeout),
        resources=resources,
        mlflow=mlflow,
        resume=resume,
    )
    return start(spark, main, request, settings)


def start(
    spark: Any, main: Callable[[Any], Any], request: ClusterRequest, settings: Mapping[str, Any]
) -> Cluster:
    """:func:`run` with all that may be asked for. settings: by keyword."""
    sc = context_of(spark)
    failures.install()
    last_resort.install()
    if not callable(main):
        raise BadInputError(f"the program must be a function of ctx, not {main!r}")
    roles = plan_roles(
        request.nodes,
        ps=request.ps,
        parameter_servers=request.parameter_servers,
        chief=request.chief,
        evaluator=request.evaluator,
        input_mode=request.input_mode,
        driver_parameter_servers=request.driver_parameter_servers,
    )
    _check_least(request, roles)
    conf = sc.getConf()
    resolved = Settings.resolve(conf.get, settings)
    for key, _ in conf.getAll():
        if wrong := unknown_key(key):
            logger.warning("%s", wrong)
    _check(request, resolved)
    if request.on_driver and isinstance(sc, ConnectContext):
        raise BadInputError(
            "driver_parameter_servers: executors can't reach a client of Spark Connect, so it runs "
            "no nodes. Leave it out: the parameter servers then run beside executors"
        )
    if resolved.logs and isinstance(sc, ConnectContext):
        raise BadInputError(
            "logs: a client of Spark Connect may not reach the coordinator, which has the nodes' "
            "output. Leave it out, and run `tfos logs` on the host of the coordinator"
        )
    resumption = None
    if request.resume is not None:
        feeds = request.input_mode == "spark"
        begins_anew = _why_epochs_begin_anew(request, resolved)
        resumption = Resumption.of(sc, request.resume, feeds, begins_anew)
    tracked = tracked_run.begin(request.mlflow)
    payload = _pickled(main if tracked is None else tracked.on_nodes(main), request.args)
    progress = Progress(resolved.progress, view=live_view())
    _say_what_is_encrypted(progress, resolved)
    if resumption:
        progress.say(str(resumption))
    use_this_python(sc)
    profile = profiles.profile_of_nodes(
        sc, request.resources, resolved.gpu_count, resolved.gpu_count_if_any
    )
    profiles.warn_of_worker_memory(sc, profile)
    host = "" if isinstance(sc, ConnectContext) else conf.get("spark.driver.host", "")
    plan = ClusterPlan(request, roles, resolved, payload, profile, resumption, host)
    _warn_of_few_attempts(sc, plan)
    with progress.waiting():
        slots.wait_for_slots(
            sc,
            plan.nodes_to_begin_with - request.on_driver,
            resolved.slots_timeout,
            first_executor_timeout=request.registration_timeout,
            while_waiting=lambda doing: progress.show([], doing),
            profile=profile,
        )
    if request.input_mode == "spark" or isinstance(sc, ConnectContext):
        allocation.warn_of_idle_executors(sc)
    if request.input_mode == "spark":
        warn_of_speculation(sc)
    _warn_of_open_rpc(sc)
    return Cluster(sc, plan, progress, tracked)


def _least_and_most(nodes: Any) -> tuple[int | None, Any]:
    """What ``nodes`` asks for; without a least number all are needed."""
    if not isinstance(nodes, (tuple, list)):
        return None, nodes
    if len(nodes) != 2:
        raise BadInputError(f"nodes={nodes!r}: a number, or the least and the most as in (2, 8)")
    return whole_number("nodes", nodes[0]), whole_number("nodes", nodes[1])


def _check_least(request: ClusterRequest, roles: list[dict[str, Any]]) -> None:
    if request.min_nodes is None:
        return
    if request.min_nodes > request.nodes:
        raise BadInputError(
            f"nodes=({request.min_nodes}, {request.nodes}): the least number is above the most"
        )
    services = len(service_nodes(roles))
    if request.min_nodes <= services:
        raise BadInputError(
            f"nodes=({request.min_nodes}, {request.nodes}): {services} of them serve the others, "
            "so this leaves no node that trains"
        )


def _why_epochs_begin_anew(request: ClusterRequest, settings: Settings) -> str:
    """Why nodes can't go on within an epoch; "" where they can."""
    lost = "what a lost node has trained on is fed again, so no position holds for all rows"
    if request.min_nodes is not None:
        return f"with nodes=(least, most), {lost}"
    if settings.max_lost_nodes:
        return f"with max_lost_nodes, {lost}"
    if not settings.feed_check_retries:
        return (
            "with spark.tfos.feed.checkRetries=false, rows could be left out in place of those "
            "that were trained on"
        )
    return ""


def _check(request: ClusterRequest, settings: Settings) -> None:
    """Raises :class:`BadInputError` for what does not go together."""
    if not 0 < request.registration_timeout <= MOST_SECONDS:
        raise BadInputError(
            f"registration_timeout={request.registration_timeout!r}: seconds, above 0 and at most "
            f"{MOST_SECONDS:g}"
        )
    if settings.max_lost_nodes and request.min_nodes is not None:
        raise BadInputError(
            "nodes=(least, most) is for nodes that train in step, and max_lost_nodes for others: "
            "leave one of them out"
        )
    if settings.max_lost_nodes and request.input_mode != "spark":
        raise BadInputError(
            "max_lost_nodes is for nodes that Spark feeds: others read their data themselves, and "
            "nobody knows what a lost one has left"
        )
    if settings.encrypt == "true" and settings.rdma != "false":
        raise BadInputError(
            "encrypt: what goes over UCX (rdma) can't be encrypted. Leave rdma out, or set "
            "spark.tfos.encrypt=auto, which encrypts everything else between hosts"
        )


def _say_what_is_encrypted(progress: Progress, settings: Settings) -> None:
    progress.say(encryption.in_force(settings.encrypt))
    if settings.rdma != "false" and settings.encrypt == "auto":
        logger.warning(
            "tensors that go over UCX (spark.tfos.rdma=%s) are not encrypted, though "
            "spark.tfos.encrypt=auto: use it on a network that you trust, or leave rdma out",
            settings.rdma,
        )


def _warn_of_few_attempts(sc: Any, plan: ClusterPlan) -> None:
    """Warns if Spark gives up the launch task of a node that is lost again and again, and with it
    the whole cluster, before the coordinator gives up that node alone. The tasks of nodes that
    Spark feeds have ended by then, and on a local master no executor is lost."""
    is_local = sc.master == "local" or sc.master.startswith("local[")
    if plan.request.input_mode == "spark" or not plan.may_grow or is_local:
        return
    attempts = int(sc.getConf().get(_ATTEMPTS, _SPARKS_ATTEMPTS))
    enough = plan.settings.restarts + 2  # The loss after the last restart must not be Spark's last.
    if attempts < enough:
        logger.warning(
            "%s is %d: once a node has lost that many executors, Spark ends the launch job, and "
            "the cluster fails. Set it to %d or more (docs/training.md)",
            _ATTEMPTS,
            attempts,
            enough,
        )


def _warn_of_open_rpc(sc: Any) -> None:
    """Says once in an application what it means that Spark's RPC is not protected."""
    if rpc_security.is_local(sc.master):
        return
    security = rpc_security.rpc_security(sc.getConf().get, sc.master, sc.version)
    if not security.protected:
        _warn_once(
            sc.applicationId,
            f"Spark's RPC ({sc.master}) is {security.found}: {security.meaning}. Where that is "
            f"not acceptable, {security.advice} (docs/security.md)",
        )


@functools.cache
def _warn_once(application: str, text: str) -> None:
    logger.warning("%s", text)


def _pickled(main: Callable[[Any], Any], args: Any) -> bytes:
    try:
        return program_pickle.dumps((main, args))
    except Exception as error:  # whatever pickling runs into is the caller's to mend
        what = "args" if _can_be_pickled(main) else "the program"
        raise BadInputError(
            f"{what} can't be sent to the nodes: {type(error).__name__}: {error}. Create what "
            "can't be pickled (locks, sessions, open files) inside the program"
        ) from error


def _can_be_pickled(value: Any) -> bool:
    try:
        program_pickle.dumps(value)
    except Exception:  # as above: the caller says which
        return False
    return True
