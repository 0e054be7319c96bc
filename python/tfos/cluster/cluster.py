"""Running a TensorFlow cluster on Spark executors: ``tfos.run`` and the cluster it returns."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cloudpickle

from tfos.base import program_result
from tfos.base.network import host_and_port
from tfos.base.roles import SERVICE_JOBS, members_of, plan_roles, service_nodes, tensorboard_node
from tfos.cluster import launch, notebook
from tfos.cluster.coordinator import FINAL_STATES, Coordinator, node_name
from tfos.cluster.feed import FEED_TIMEOUT_SECONDS, ClusterFeed, warn_of_speculation
from tfos.cluster.ledger import Ledger
from tfos.cluster.progress import Progress
from tfos.cluster.status import NodeStatus
from tfos.cluster.training import plan_training
from tfos.errors import BadInputError, ClusterTimeoutError, NodeFailedError, TfosError
from tfos.feed import frames
from tfos.feed.datafeed import VALIDATION_QUEUE
from tfos.files import hadoop_settings, paths
from tfos.settings import MOST_SECONDS, Settings, unknown_key
from tfos.spark import slots
from tfos.spark.jobs import SparkJob, SparkJobs, first_cause, use_this_python
from tfos.spark.sessions import context_of

logger = logging.getLogger(__name__)

#: Beyond the grace between TERM and KILL, for agents to say that their nodes have ended.
_END_MARGIN_SECONDS = 5.0
#: For launch tasks to end by themselves, and for Spark to notice, when all agents have left.
_LAUNCH_END_SECONDS = 5.0
#: As long, where they bring what the programs returned.
_RESULTS_SECONDS = 120.0


def run(
    spark: Any,
    main: Callable[[Any], Any],
    *,
    nodes: int,
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
    queues: tuple[str, ...] = ("input", VALIDATION_QUEUE, "output", "error"),
    release_port: bool = True,
    **settings: Any,
) -> Cluster:
    """Starts a TensorFlow cluster on the executors of ``spark`` and returns when it has formed.

    Args:
        spark: a SparkSession or SparkContext.
        main: called as ``main(ctx)`` in every node, with a :class:`tfos.node.context.NodeContext`.
        nodes: number of nodes, parameter servers, chief and evaluator included.
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
        queues: names of feeds; ``input`` is the default one, and ``validation`` what
            ``train(validation=...)`` fills.
        release_port: free the node's port before ``main`` is called.
        settings: any of :data:`tfos.settings.SETTINGS` by keyword.

    Raises:
        BadInputError: sizes that can't be, too few executor slots; nothing was started.
        NodeFailedError: a node failed, or didn't come up in time, with its name, state and reason.
    """
    sc = context_of(spark)
    roles = plan_roles(
        nodes,
        ps=ps,
        parameter_servers=parameter_servers,
        chief=chief,
        evaluator=evaluator,
        input_mode=input_mode,
        driver_parameter_servers=driver_parameter_servers,
    )
    conf = sc.getConf()
    resolved = Settings.resolve(conf.get, settings)
    for key, _ in conf.getAll():
        if wrong := unknown_key(key):
            logger.warning("%s", wrong)
    if not 0 < registration_timeout <= MOST_SECONDS:
        raise BadInputError(
            f"registration_timeout={registration_timeout!r}: seconds, above 0 and at most "
            f"{MOST_SECONDS:g}"
        )
    on_driver = ps + parameter_servers if driver_parameter_servers else 0
    if resolved.max_lost_nodes and input_mode != "spark":
        raise BadInputError(
            "max_lost_nodes is for nodes that Spark feeds: others read their data themselves, and "
            "nobody knows what a lost one has left"
        )
    if resolved.tensors_encrypt and resolved.rdma != "false":
        raise BadInputError(
            "tensors_encrypt: what goes over UCX (rdma) can't be encrypted; ask for one or "
            "the other"
        )
    progress = Progress(resolved.progress)
    use_this_python(sc)
    slots.wait_for_slots(
        sc,
        nodes - on_driver,
        resolved.slots_timeout,
        first_executor_timeout=registration_timeout,
        while_waiting=lambda doing: progress.show([], doing),
    )
    if input_mode == "spark":
        slots.warn_of_idle_executors(sc)
        warn_of_speculation(sc)
    return Cluster(
        sc,
        roles,
        resolved,
        progress,
        _pickled(main, args),
        input_mode=input_mode,
        on_driver=on_driver,
        tensorboard=tensorboard,
        log_dir=None if log_dir is None else os.fspath(log_dir),
        registration_timeout=registration_timeout,
        queues=queues,
        release_port=release_port,
        parameter_servers=parameter_servers,
    )


def _pickled(main: Callable[[Any], Any], args: Any) -> bytes:
    try:
        return cloudpickle.dumps((main, args))
    except Exception as error:  # whatever pickling runs into is the caller's to mend
        what = "args" if _can_be_pickled(main) else "the program"
        raise BadInputError(
            f"{what} can't be sent to the nodes: {type(error).__name__}: {error}. Create what "
            "can't be pickled (locks, sessions, open files) inside the program"
        ) from error


def _can_be_pickled(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # as above: the caller says which
        return False
    return True


class Cluster:
    """A running TensorFlow cluster. Made by :func:`tfos.run`.

    Owner and lifetime: the driver program, which ends it with ``shutdown`` or by leaving a
    ``with`` block; when the driver dies, everything of the cluster ends with it.
    Threads: ``train`` and ``inference`` may be called from several; ``shutdown`` from one.
    Errors: the first failure of any node is raised from wherever the driver waits, as
    :class:`tfos.errors.NodeFailedError` with the remote traceback; all nodes are stopped by then.
    """

    def __init__(
        self,
        sc: Any,
        roles: list[dict[str, Any]],
        settings: Settings,
        progress: Progress,
        payload: bytes,
        *,
        input_mode: str,
        on_driver: int,
        tensorboard: bool,
        log_dir: str | None,
        registration_timeout: float,
        queues: tuple[str, ...],
        release_port: bool,
        parameter_servers: int,
    ):
        self.spark_context = sc
        self.cluster_id = secrets.token_hex(8)
        self.input_mode = input_mode
        self.queues = list(queues)
        self.default_fs = paths.default_fs(sc)
        self.working_dir = os.getcwd()
        self._settings = settings
        self._token = secrets.token_hex(32)
        self._roles = roles
        self._jobs = SparkJobs(sc, self.cluster_id)
        self._launch_job: SparkJob | None = None
        self._shut_down = False
        self._wants_results = False
        self._closing = False
        self._ended = threading.Event()
        self._has_tensorboard = tensorboard
        self._progress = progress
        self._node_count = sum(role["count"] for role in roles)
        self._on_driver = on_driver
        self._parameter_servers = parameter_servers  # they are the first nodes
        self._coordinator = Coordinator(
            {
                "protocol": launch.PROTOCOL,
                "cluster_id": self.cluster_id,
                "token": self._token,
                "bind_address": settings.coordinator_bind_address,
                "advertised_address": settings.coordinator_advertised_address,
                "ports": settings.coordinator_port,
                "roles": roles,
                "service_jobs": list(SERVICE_JOBS),
                "tensorboard_node": tensorboard_node(roles) if tensorboard else -1,
                # The driver gives up first, as it can also ask Spark what holds the tasks back.
                "registration_timeout_ms": int(registration_timeout * 1000) + 10_000,
                "start_timeout_ms": int(settings.node_start_timeout * 1000),
                "heartbeat_interval_ms": round(settings.heartbeat_interval * 1000),
                "heartbeat_timeout_ms": round(settings.heartbeat_timeout * 1000),
                "max_lost_nodes": settings.max_lost_nodes,
                "log_level": settings.log_level,
            },
            on_failure=self._jobs.cancel,
        )
        self._feed = ClusterFeed(
            self._coordinator, settings, self._token, self._jobs, self._show_progress
        )
        try:
            self._launch(self._launch_plan(payload, registration_timeout, log_dir, release_port))
            self._wait_until_formed(registration_timeout)
        except BaseException:
            self._abort("the cluster could not be started")
            raise
        atexit.register(self._at_exit)

    # -- what programs use

    def train(
        self,
        data: Any,
        epochs: int = 1,
        feed_timeout: float = FEED_TIMEOUT_SECONDS,
        queue: str = "input",
        decimals: str | None = None,
        *,
        validation: Any = None,
        shuffle: bool | int = False,
        cache: str | None = None,
    ) -> None:
        """Feeds ``data`` to the nodes, ``epochs`` times, and returns when they have taken it all.

        Args:
            data: an RDD (its objects), a DataFrame (Rows of NumPy values, docs/dataframes.md), or
                a DStream (every batch, from when it starts; a stream has no epochs).
            epochs: passes over the data, a Spark job each. The nodes hear when one has ended.
            feed_timeout: seconds without any progress after which feeding fails. A program may
                pause for as long, to evaluate or to export; one that dies is noticed at once.
            queue: the feed to fill.
            decimals: what becomes of a DataFrame's decimals: ``"float64"``, or None to refuse them.
            validation: data of the same kind and columns, fed to the queue ``validation`` after
                each epoch: ``ctx.dataset(128, queue="validation")``. The program must read it.
            shuffle: True or a seed: the rows come in another order in each epoch, at the cost of a
                Spark shuffle. With ``cache``, epochs after the first mix the chunks of rows only.
            cache: ``"memory"`` or ``"disk"``: Spark reads the data once, and each node keeps what
                it got of it for the further epochs, in memory up to ``spark.tfos.feed.cacheMemory``
                and beyond that, or all of it, in files on its host. Returns when they have it.

        Raises :class:`BadInputError` before anything is fed for data that can't be;
        :class:`tfos.errors.NodeFailedError` for the cluster's first failure, also where a feed task
        noticed it; :class:`tfos.errors.ClusterTimeoutError` where nodes are not ready to be fed
        within ``feed_timeout``; and Spark's own errors, which name ``FeedTimeoutError`` where a
        node took nothing for as long. Interrupted
        (Ctrl-C, a notebook's stop button), it cancels its Spark job; the nodes keep what they have
        got, and can be fed again (in the same epoch, unless they cache it) or shut down.
        """
        self._check_feedable(queue)
        if cache is not None and self._settings.max_lost_nodes:
            raise BadInputError(
                f"cache={cache!r} keeps rows in the nodes, and what a lost node has kept is gone: "
                "it does not go with max_lost_nodes"
            )
        sources = {queue: data}
        if validation is not None:
            self._check_feedable(VALIDATION_QUEUE)
            if queue == VALIDATION_QUEUE:
                raise BadInputError(f"data and validation can't both go to the queue {queue!r}")
            sources[VALIDATION_QUEUE] = validation
        plan = plan_training(sources, epochs, shuffle, cache)
        self._feed.train(plan, sources, queue, feed_timeout, decimals)

    def inference(
        self,
        data: Any,
        feed_timeout: float = FEED_TIMEOUT_SECONDS,
        queue: str = "input",
        *,
        schema: Any = None,
        keys: Sequence[str] = (),
        decimals: str | None = None,
    ) -> Any:
        """The results for ``data``, one for each row, in the order of each partition's rows. Lazy:
        nodes are asked whenever Spark computes it, and again when it computes it again.

        An RDD gives an RDD of what the programs answered. A DataFrame gives a DataFrame: the
        columns ``keys``, then those of ``schema`` (docs/dataframes.md).

        Args:
            data: an RDD (its objects) or a DataFrame (Rows of NumPy values).
            feed_timeout: seconds without any progress after which a task fails.
            queue: the feed to fill.
            schema: of the results for a DataFrame: a ``StructType`` or as in
                ``"label int, scores array<float>"``.
            keys: names of columns of the DataFrame, of any type, that are carried through; the
                nodes don't get them.
            decimals: what becomes of a DataFrame's decimals: ``"float64"``, or None to refuse them.

        Raises :class:`BadInputError` for columns, keys and a schema that can't be. When Spark
        computes it, a task fails that got another number of results than rows, or one that does not
        fit the schema.
        """
        self._check_feedable(queue)
        if hasattr(data, "mapInArrow"):
            wanted = frames.plan_inference(data, schema, keys, decimals)
            return self._feed.infer_frame(wanted, feed_timeout, queue, decimals)
        if not hasattr(data, "mapPartitionsWithIndex"):
            raise BadInputError(
                f"inference takes an RDD or a DataFrame, not {type(data).__name__}; "
                "sc.parallelize makes an RDD of a list"
            )
        if schema is not None or keys or decimals is not None:
            raise BadInputError("schema, keys and decimals are for DataFrames, and this is an RDD")
        return self._feed.infer_rdd(data, feed_timeout, queue)

    def wait(self, timeout: float | None = None) -> list[Any]:
        """Waits until the programs of all nodes that train have returned, ends the cluster, and
        returns what they returned, in the order of ``ctx.rank``. For input mode ``tensorflow``.

        Args:
            timeout: seconds to wait; None: no limit. When it is over the nodes still run, and one
                may wait again.

        Raises the cluster's failure as :class:`tfos.errors.NodeFailedError`;
        :class:`tfos.errors.ClusterTimeoutError`; and :class:`BadInputError` for a value that can't
        be pickled or has more than 1 MiB, and in input mode ``spark``, where the programs end with
        the feed.
        """
        if self.input_mode != "tensorflow":
            raise BadInputError(
                "wait is for programs that read their data themselves (input mode 'tensorflow'): "
                "these return when their feed ends, so call shutdown or leave the with block"
            )
        self._wants_results = True
        if not self._shut_down:
            unfinished = self._await_training(timeout)
            if unfinished:
                raise ClusterTimeoutError(
                    f"the programs did not return within {timeout:g} s: {'; '.join(unfinished)}"
                )
            self.shutdown()
        assert self._launch_job is not None  # since the cluster has formed
        if not self._launch_job.done or self._launch_job.error is not None:
            error = self._launch_job.error
            raise TfosError(
                "what the programs returned did not reach the driver: "
                + ("Spark's launch tasks were cancelled" if error is None else first_cause(error))
            )
        results = dict(self._launch_job.result())
        return [
            program_result.value_of(results.get(node["node_id"]), node_name(node))
            for node in members_of(self._coordinator.nodes())
        ]

    def shutdown(
        self, streaming_context: Any = None, grace_secs: float = 0, timeout: float = 259200
    ) -> None:
        """Ends the feed, waits until every program has returned, and stops what is left.

        Args:
            streaming_context: a StreamingContext to wait for first; it is stopped once every fed
                node has asked for no more rows.
            grace_secs: seconds that parameter servers and evaluators get to return by themselves
                when all other nodes have finished.
            timeout: seconds for the programs to return; 0 or less: no limit.

        Raises the cluster's failure if it has one, late ones (after feeding) included, and
        :class:`tfos.errors.ClusterTimeoutError` naming the nodes that did not return in time.
        Interrupted (Ctrl-C, a notebook's stop button), it stops the programs at once. The second
        call does nothing.
        """
        if self._shut_down:
            return
        self._shut_down = True
        try:
            if streaming_context is not None:
                self._await_streaming(streaming_context)
            self._await_programs(grace_secs, timeout if timeout > 0 else None)
        except BaseException as error:
            self._stop(f"the driver's shutdown ended with {type(error).__name__}")
            raise
        finally:
            self._close()

    def status(self) -> list[NodeStatus]:
        """Every node with its state and latest metrics, in the order of their numbers."""
        return [NodeStatus.from_message(node) for node in self._coordinator.nodes()]

    def watch(self, interval: float = 1.0) -> notebook.Watch:
        """Shows the nodes as a table in the notebook cell that calls it, and keeps it up to date,
        while other cells run, until the cluster has ended. ``interval``: seconds between two
        looks."""
        return notebook.Watch(self._repr_html_, self._ended, interval)

    def _repr_html_(self) -> str:
        return notebook.status_html(
            self.cluster_id, self._coordinator.nodes(), self._coordinator.failure
        )

    def ledger(self) -> Ledger:
        """What became of the rows that were fed so far. It is complete once the cluster was shut
        down; before that nodes report their counts with their heartbeats."""
        return self._feed.ledger()

    def tensorboard_url(self) -> str | None:
        """Where TensorBoard answers; None when it was not asked for. Waits until it listens."""

        def started() -> bool:
            return any(node.get("tensorboard") for node in self._coordinator.nodes())

        if not self._has_tensorboard:
            return None
        if not self._coordinator.wait(started, 60):
            return None
        node = next(n for n in self._coordinator.nodes() if n.get("tensorboard"))
        return "http://" + host_and_port(node["address"], node["tensorboard"]["port"])

    @property
    def coordinator_address(self) -> tuple[str, int]:
        return self._coordinator.address, self._coordinator.port

    @property
    def metrics_url(self) -> str:
        """Where the coordinator serves the metrics for Prometheus, with ``auth_header``."""
        return f"http://{host_and_port(*self.coordinator_address)}/metrics"

    def auth_header(self) -> dict[str, str]:
        """The HTTP header that the coordinator wants. It holds the cluster's token, with which one
        can also feed the cluster and join it: hand it on with care and never log it."""
        return {"Authorization": f"Bearer {self._token}"}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if error is None:
            self.shutdown()
        elif not self._shut_down:
            self._abort(f"the driver program failed: {kind.__name__}")

    # -- starting

    def _launch_plan(
        self, payload: bytes, registration_timeout: float, log_dir: str | None, release_port: bool
    ) -> launch.LaunchPlan:
        settings = self._settings
        conf = self.spark_context.getConf()
        return launch.LaunchPlan(
            cluster_id=self.cluster_id,
            token=self._token,
            coordinator_address=self._coordinator.address,
            coordinator_port=self._coordinator.port,
            node={
                "input_mode": self.input_mode,
                "default_fs": self.default_fs,
                "working_dir": self.working_dir,
                "log_dir": log_dir,
                "queues": self.queues,
                "release_port": release_port,
                "parameter_servers": self._parameter_servers,
                "feed_memory": settings.feed_memory,
                "feed_cache_memory": settings.feed_cache_memory,
                "may_lose_nodes": settings.max_lost_nodes > 0,
                "feed_cache_directory": settings.feed_cache_directory,
                "feed_bind_address": settings.feed_bind_address,
                "tensors": {
                    "shared_memory": settings.tensors_shared_memory,
                    "encrypt": settings.tensors_encrypt,
                    "rdma": settings.rdma,
                    "timeline": settings.tensors_timeline,
                },
                "ports": settings.ports,
            },
            payload=payload,
            stay=self.input_mode == "tensorflow",
            registration_timeout_ms=int(registration_timeout * 1000) + 10_000,
            heartbeat_interval_ms=round(settings.heartbeat_interval * 1000),
            heartbeat_timeout_ms=round(settings.heartbeat_timeout * 1000),
            advertised_address=settings.node_advertised_address,
            ports=settings.ports,
            python=settings.python,
            keep_omp_num_threads=conf.contains("spark.executorEnv.OMP_NUM_THREADS"),
            gpu_count=settings.gpu_count,
            gpu_count_if_any=settings.gpu_count_if_any,
            gpu_fraction=settings.gpu_fraction,
            nodes_without_gpus=service_nodes(self._roles),
            parameter_servers=self._parameter_servers,
            log_level=settings.log_level,
            log_dir=log_dir,
            hadoop_environment=hadoop_settings.environment(conf, settings),
        )

    def _launch(self, plan: launch.LaunchPlan) -> None:
        for node_id in range(self._on_driver):
            threading.Thread(
                target=self._launch_on_driver,
                args=(plan, node_id),
                daemon=True,
                name=f"tfos-launch-{node_id}",
            ).start()
        ids = range(self._on_driver, self._node_count)
        self.launch_rdd = self.spark_context.parallelize(ids, len(ids))
        tasks = self.launch_rdd.mapPartitions(partial(launch.launch_task, plan))
        self._launch_job = self._jobs.start("nodes", tasks.collect, self._launch_ended)

    def _launch_ended(self, job: SparkJob) -> None:
        # What ends with the cluster, or because of its end, is no failure of it.
        over = self._closing or self._coordinator.finished
        if job.error is not None and not over:
            self._coordinator.fail("launch the nodes", first_cause(job.error), str(job.error))
        self._coordinator.notify()

    def _launch_on_driver(self, plan: launch.LaunchPlan, node_id: int) -> None:
        try:
            launch.launch(plan, node_id, executor_id="driver", watch_pid=os.getpid(), gpus=[])
        except Exception as error:  # a thread's boundary: the coordinator spreads it
            self._coordinator.fail("launch the nodes", str(error), traceback.format_exc())

    def _wait_until_formed(self, timeout: float) -> None:
        formed = self._coordinator.wait(
            lambda: self._coordinator.formed,
            timeout,
            while_waiting=lambda: self._show_progress("starting"),
        )
        if formed:
            return
        missing = "; ".join(self._why_missing())
        message = f"not all nodes came up within {timeout:g} s: {missing}"
        self._coordinator.fail("start the cluster", message)
        raise NodeFailedError.from_message(
            {"node_id": -1, "step": "start the cluster", "message": message}
        )

    def _why_missing(self) -> list[str]:
        running, total = self._launch_job.task_counts() if self._launch_job else (0, 0)
        reasons = []
        for node in self._coordinator.nodes():
            if node["state"] == "expected":
                if running < total:
                    why = (
                        f"no executor slot (Spark runs {running} of {total} launch tasks; "
                        "free cores or lower the number of nodes)"
                    )
                else:
                    why = "its launch task runs, but no agent has connected"
                reasons.append(
                    f"node {node['node_id']} ({node['job_name']}:{node['task_index']}): "
                    f"expected, {why}"
                )
        return reasons or ["no node is missing, but the roster was not published"]

    def _check_feedable(self, queue: str) -> None:
        if self.input_mode != "spark":
            raise BadInputError(
                "this cluster reads its data itself (input mode 'tensorflow'); "
                "start it with input mode 'spark' to feed it"
            )
        if queue not in self.queues:
            raise BadInputError(f"no queue {queue!r}; this cluster has {', '.join(self.queues)}")
        if self._shut_down:
            raise BadInputError("the cluster was shut down")
        self._coordinator.raise_failure()

    # -- ending

    def _await_streaming(self, streaming_context: Any) -> None:
        while not streaming_context.awaitTerminationOrTimeout(1):
            self._coordinator.raise_failure()
            self._show_progress("streaming")
            if self._feed.nobody_wants_rows():
                streaming_context.stop(stopSparkContext=False, stopGraceFully=True)

    def _await_programs(self, grace_secs: float, timeout: float | None) -> None:
        coordinator = self._coordinator
        coordinator.raise_failure()
        if self.input_mode == "spark":
            coordinator.send("end_feed")

        if unfinished := self._await_training(timeout):
            raise ClusterTimeoutError(
                f"the programs did not return within {timeout:g} s of shutdown and were stopped: "
                + "; ".join(unfinished)
            )
        if grace_secs > 0:
            self._await(
                lambda: all(n["state"] in FINAL_STATES for n in coordinator.nodes()), grace_secs
            )
        self._stop("the cluster is shut down")
        self._await(lambda: coordinator.finished, None)

    def _await_training(self, timeout: float | None) -> list[str]:
        """Until the programs of all nodes that train have returned; those that have not after
        ``timeout`` seconds, for people."""
        nodes = self._feed.fed_nodes
        if self._await(lambda: all(n["state"] in FINAL_STATES for n in nodes()), timeout):
            return []
        return [
            f"{node_name(n)} is {n['state']}" for n in nodes() if n["state"] not in FINAL_STATES
        ]

    def _await(self, condition: Callable[[], bool], seconds: float | None) -> bool:
        doing = "finishing" if self.input_mode == "spark" else "running"
        return self._coordinator.wait(
            condition, seconds, while_waiting=lambda: self._show_progress(doing)
        )

    def _stop(self, reason: str) -> None:
        """Has all nodes end."""
        self._coordinator.send(
            "stop", reason=reason, grace_ms=int(self._settings.stop_grace * 1000)
        )

    def _abort(self, reason: str) -> None:
        """Ends everything without waiting for the programs."""
        self._shut_down = True
        self._feed.cut_short()  # Nodes have no time for a last word.
        self._stop(reason)
        self._close()

    def _at_exit(self) -> None:
        """The driver program ends without having shut the cluster down."""
        self._stop("the driver program has ended")
        self._close(cancel=False)  # Spark's own end takes the jobs along

    def _close(self, cancel: bool = True) -> None:
        """Ends the coordinator once the nodes have, or have had the time to: they were told to."""
        self._closing = True
        atexit.unregister(self._at_exit)
        self._coordinator.wait_quietly(
            lambda: self._coordinator.finished, self._settings.stop_grace + _END_MARGIN_SECONDS
        )
        self._ended.set()
        self._show_progress("ended", last=True)
        self._show_ledger()
        if cancel and self._coordinator.finished and self._launch_job is not None:
            # Its tasks end with their agents: cancelled now, a good run would show a failed job.
            self._launch_job.wait(_RESULTS_SECONDS if self._wants_results else _LAUNCH_END_SECONDS)
        if cancel:
            self._jobs.cancel()
        self._coordinator.close(timeout=self._settings.stop_grace + 10)

    # -- what the user sees

    def _show_progress(self, doing: str, *, last: bool = False) -> None:
        self._progress.show(self._coordinator.nodes(), doing, last=last)

    def _show_ledger(self) -> None:
        ledger = self.ledger()
        for line in ledger.lines():
            self._progress.say(line)
        # Of a cluster that failed, nodes may have ended without a last word.
        if ledger.lines() and self._coordinator.failure is not None:
            self._progress.say(
                "ledger | the cluster failed: nodes may have read more than they said"
            )
        if ledger.asked_for_more:
            logger.warning(
                "%s asked for an epoch that was not fed, and got one without rows: give "
                "train() as many "
                "epochs as the program reads",
                ", ".join(sorted(ledger.asked_for_more)),
            )
        complaint = ledger.complaint()
        if complaint and self._coordinator.failure is None:
            logger.warning("the feed's counts do not add up: %s", complaint)
