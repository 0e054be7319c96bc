"""A running cluster of nodes: feeding it, looking at it, and ending it."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Sequence
from typing import Any

from tfos.base import keys
from tfos.base.programs import driver_only, program_result
from tfos.base.quantities import seconds
from tfos.base.roles import members_of
from tfos.base.setting import MOST_SECONDS
from tfos.cluster import notebook
from tfos.cluster.closing import Closing
from tfos.cluster.connect import channel_to
from tfos.cluster.coordinator import Coordinator, node_name
from tfos.cluster.ending import Ending
from tfos.cluster.feed.cluster_feed import FEED_TIMEOUT_SECONDS, ClusterFeed
from tfos.cluster.launcher import Launcher
from tfos.cluster.leaving import LeavingWatch
from tfos.cluster.ledger import Ledger
from tfos.cluster.losses import ExecutorLosses
from tfos.cluster.plan import ClusterPlan
from tfos.cluster.progress import Progress
from tfos.cluster.resumption import is_in_stream
from tfos.cluster.training import kind_of, plan_training, sources_of_training
from tfos.cluster.view.addresses import Addresses
from tfos.cluster.view.onlookers import Onlookers
from tfos.cluster.view.report import Report
from tfos.cluster.view.tab import tab_of
from tfos.cluster.view.teller import Teller
from tfos.errors import BadInputError, ClusterTimeoutError
from tfos.feed import frames
from tfos.files import paths
from tfos.mlflow.driver import TrackedRun
from tfos.node_status import NodeStatus
from tfos.spark.connect import ConnectContext
from tfos.spark.jobs import SparkJobs
from tfos.spark.sources import is_frame, is_rdd

#: For TensorBoard to import what it needs on a busy host.
_TENSORBOARD_SECONDS = 300.0
#: As for `tfos stop --timeout`.
_MOST_STOP_SECONDS = 24 * 3600.0

logger = logging.getLogger(__name__)


class Cluster:
    """A running TensorFlow cluster. Made by :func:`tfos.run`.

    Owner and lifetime: the driver program, which ends it with ``shutdown`` or by leaving a
    ``with`` block; when the driver dies, everything of the cluster ends with it.
    Threads: ``train`` and ``inference`` may be called from several; ``shutdown`` from one; ``stop``
    from any, and from signal handlers.
    Errors: the first failure of any node is raised from wherever the driver waits, as
    :class:`tfos.errors.NodeFailedError` with the remote traceback; all nodes are stopped by then.
    So is :class:`tfos.errors.ClusterStoppedError`, after ``tfos stop`` or ``stop``.
    """

    def __init__(self, sc: Any, plan: ClusterPlan, progress: Progress, tracked: TrackedRun | None):
        request, settings = plan.request, plan.settings
        self.spark_context = sc
        self.cluster_id = secrets.token_hex(8)
        self.input_mode = request.input_mode
        self.default_fs = paths.default_fs(sc)
        self.working_dir = os.getcwd()
        self._queues = request.queues
        self._resumption = plan.resumption
        self._token = keys.new_token()
        self._jobs = SparkJobs(sc, self.cluster_id)
        self._begun = threading.Event()  # all that follows here is there
        self._has_tensorboard = request.tensorboard
        self._progress = progress
        coordinator = self._coordinator = Coordinator(
            plan.of_coordinator(self.cluster_id, sc.appName, self._token),
            self._jobs.cancel,
            channel_to(sc, plan),
            self._stop_as_asked,
            ExecutorLosses(sc),
        )
        self._addresses = Addresses.of(self._coordinator, self._token, settings)
        self._report = Report(self._addresses.page_from_driver)
        self._coordinator.before_end = self._before_end
        progress.say(f"page | {self.page_url}")
        show = self._show_progress = Teller(
            progress, coordinator, lambda: self._feed.tally.counts()
        )
        self._feed = ClusterFeed(
            coordinator, settings, self._token, self._jobs, show, plan.is_elastic, plan.may_grow
        )
        self._ending = Ending(
            self._coordinator, self._feed, self.input_mode == "spark", settings.stop_grace, show
        )
        self._tab = tab_of(sc, self.cluster_id, self._addresses, coordinator, self.ledger, progress)
        self._launcher = Launcher(
            self._jobs, self._coordinator, show, settings.restarts, settings.hosts_loss_period
        )
        self._onlookers = Onlookers(self._coordinator.nodes, tracked)
        self._closing = Closing(
            coordinator,
            self._feed.tally,
            self._ending,
            self._launcher,
            self._jobs,
            feeds=self.input_mode == "spark",
            stop_grace=settings.stop_grace,
            show_end=self._show_end,
            forget=self._tab.close,
        )
        self._begun.set()
        try:
            self._onlookers.begin(
                settings,
                self._addresses,
                self.cluster_id,
                {"application": sc.applicationId, "program": sc.appName},
                progress.show_output,
            )
            launch_plan = plan.of_launch(
                sc.getConf(),
                self.cluster_id,
                self._token,
                self.coordinator_address,
                self.default_fs,
                self.working_dir,
            )
            self._launcher.start(launch_plan, plan.node_count, request.on_driver, plan.profile)
            with show.waiting():
                self._launcher.wait_until_formed(request.registration_timeout)
            LeavingWatch(sc, self._coordinator, self._closing.ended)
        except BaseException:
            self._closing.abort("the cluster could not be started")
            raise
        self._closing.follow_exit()

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
                Those that the checkpoint of ``tfos.run(..., resume=...)`` has are not fed again,
                nor are rows of the next one that the model was trained on.
            feed_timeout: seconds without any progress after which feeding fails. A program may
                pause for as long, to evaluate or to export; one that dies is noticed at once.
            queue: the queue to fill: ``"input"`` or ``"validation"``. Two threads may fill both at
                once; calls for one queue take turns. The program must read both. ``ledger`` adds up
                all queues.
            decimals: what becomes of a DataFrame's decimals: ``"float64"``, or None to refuse them.
            validation: data of the same kind and columns, fed to the queue ``validation`` after
                each epoch: ``ctx.dataset(128, queue="validation")``. The program must read it.
            shuffle: True or a seed: the rows come in another order in each epoch, at the cost of a
                Spark shuffle. With ``cache``, epochs after the first mix the chunks of rows only.
            cache: ``"memory"`` or ``"disk"``: Spark reads the data once, and each node keeps what
                it got of it for the further epochs, in memory up to ``spark.tfos.feed.cacheMemory``
                and beyond that, or all of it, in files on its host. Returns when they have it.
                Where nodes may be lost, Spark's executors keep the rows, and feed each epoch.

        Raises :class:`BadInputError` before anything is fed for data that can't be;
        :class:`tfos.errors.NodeFailedError` for the cluster's first failure, also where a feed task
        noticed it. Raises :class:`tfos.errors.ClusterTimeoutError` where nodes are not ready to be
        fed within ``feed_timeout``, and :class:`tfos.errors.FeedTimeoutError` where a node took
        nothing for as long. Other errors are of the feed, or Spark's own outside of tfos.
        Interrupted (Ctrl-C, a notebook's stop button), it cancels its Spark job. What the nodes
        have got by then is a part of the next epoch that is fed, and is not cached.
        """
        feed_timeout = seconds("feed_timeout", feed_timeout)
        sources = sources_of_training(data, queue, validation)
        for name in sources:
            self._check_feedable(name)
        for source in sources.values():
            self._feed.learn_schema(source)
        resumption = self._resumption
        if resumption and is_in_stream(self.spark_context):
            raise BadInputError(
                "resume: what comes of a stream has no epochs, so none of them can be done. "
                "Leave resume= out, and give ctx.checkpoint a directory"
            )
        plan = plan_training(sources, epochs, shuffle, cache, self._feed.may_lose_nodes, resumption)
        self._feed.tally.count_done(plan.done)
        if plan.jobs == 0:
            self._progress.say(f"resume | these {plan.done} epochs are done: nothing is fed")
            return
        first = self._feed.next_epoch(queue)
        if plan.begins_anew and first == 0:
            self._progress.say(f"resume | the epoch begins anew: {plan.begins_anew}")
        try:
            with self._show_progress.waiting():
                self._feed.train(plan, sources, queue, feed_timeout, decimals)
        except BaseException:
            if resumption and self._feed.next_epoch(queue) == first:
                resumption.give_back(queue, plan.done + plan.jobs * (1 + plan.replay.epochs))
                self._feed.tally.count_done(-plan.done)
            raise

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
            queue: the queue to fill: ``"input"`` or ``"validation"``.
            schema: of the results for a DataFrame: a ``StructType`` or as in
                ``"label int, scores array<float>"``.
            keys: names of columns of the DataFrame, of any type, that are carried through; the
                nodes don't get them.
            decimals: what becomes of a DataFrame's decimals: ``"float64"``, or None to refuse them.

        Raises :class:`BadInputError` for columns, keys and a schema that can't be. When Spark
        computes it, a task fails that got another number of results than rows, or one that does not
        fit the schema.
        """
        feed_timeout = seconds("feed_timeout", feed_timeout)
        self._check_feedable(queue)
        self._show_progress.expect_inference()
        self._feed.learn_schema(data)
        if is_frame(data):
            wanted = frames.plan_inference(data, schema, keys, decimals)
            return self._feed.infer_frame(wanted, feed_timeout, queue, decimals)
        if not is_rdd(data):
            raise BadInputError(
                f"inference takes a DataFrame or an RDD of Spark, not {kind_of(data)}; "
                "spark.createDataFrame makes a DataFrame of a list, sc.parallelize an RDD"
            )
        if schema is not None or keys or decimals is not None:
            raise BadInputError("schema, keys and decimals are for DataFrames, and this is an RDD")
        return self._feed.infer_rdd(data, feed_timeout, queue)

    def wait(self, timeout: float | None = None) -> list[Any]:
        """Waits until the programs of all nodes that train have returned, ends the cluster, and
        returns what they returned, in the order of ``ctx.rank``: None for a node that was lost.
        For input mode ``tensorflow``.

        Args:
            timeout: seconds to wait; None: no limit. When it is over the nodes still run, and one
                may wait again.

        Raises the cluster's failure as :class:`tfos.errors.NodeFailedError`, or
        :class:`tfos.errors.ClusterTimeoutError`. Raises :class:`BadInputError` for a value that
        can't be pickled or has more than 1 MiB, and in input mode ``spark``, where the programs
        end with the feed.
        """
        if self.input_mode != "tensorflow":
            raise BadInputError(
                "wait is for programs that read their data themselves (input mode 'tensorflow'): "
                "programs that Spark feeds return when their feed ends, so call shutdown or leave "
                "the with block"
            )
        limit = None if timeout is None else seconds("timeout", timeout)
        self._closing.wants_results = True
        if not self._closing.has_begun:
            with self._show_progress.waiting():
                unfinished = self._ending.await_training(limit)
            if unfinished:
                raise ClusterTimeoutError(
                    f"the programs did not return within {limit:g} s: {'; '.join(unfinished)}"
                )
            self.shutdown()
        results = self._launcher.results()
        return [
            program_result.value_of(results.get(node["node_id"]), node_name(node))
            for node in members_of(self._coordinator.nodes())
        ]

    def shutdown(
        self,
        streaming_context: Any = None,
        *,
        service_grace: float = 0,
        timeout: float | None = None,
    ) -> None:
        """Ends the feed, waits until every program has returned, and stops what is left.

        Args:
            streaming_context: a StreamingContext to wait for first; it is stopped once every fed
                node has asked for no more rows.
            service_grace: seconds that parameter servers and evaluators get to return by themselves
                when all other nodes have finished.
            timeout: seconds for the programs to return; None: no limit.

        Raises the cluster's failure if it has one, late ones (after feeding) included, and
        :class:`tfos.errors.ClusterTimeoutError` naming the nodes that did not return in time.
        Interrupted (Ctrl-C, a notebook's stop button), it stops the programs at once. The second
        call does nothing.
        """
        if self._closing.has_begun:
            return
        if streaming_context is not None and isinstance(self.spark_context, ConnectContext):
            raise BadInputError(
                "streaming_context: Spark Connect has no DStreams. Call train with a DataFrame of "
                "what has come, as often as there is more, and then shutdown without it"
            )
        grace = seconds("service_grace", service_grace)
        limit = None if timeout is None else seconds("timeout", timeout)

        def wait() -> None:
            if streaming_context is not None:
                self._ending.await_streaming(streaming_context)
            self._launcher.replace_no_more()
            self._ending.await_programs(grace, limit)

        self._closing.shut_down(wait)

    def stop(self, timeout: float = 60.0) -> None:
        """Asks for the cluster's end, as ``tfos stop`` does, and returns at once. Programs that
        Spark feeds end after the step at hand; the ledger counts what is left as left unread.
        Those of input mode ``tensorflow`` get SIGTERM. Any thread may call it, and a signal handler
        (docs/operate.md). A cluster that has failed, ended or was asked before goes on with that.

        Args:
            timeout: seconds in which programs that Spark feeds may save what they want, and
                return. The others, and those that have not returned, get SIGTERM.

        ``train``, ``wait``, ``shutdown`` or the end of the ``with`` block raise
        :class:`tfos.errors.ClusterStoppedError` once all nodes have ended.
        """
        limit = seconds("timeout", timeout)
        if limit > _MOST_STOP_SECONDS:
            raise BadInputError(f"timeout={timeout!r}: at most {_MOST_STOP_SECONDS:g} seconds")
        self._coordinator.ask_to_stop(limit)

    def status(self) -> list[NodeStatus]:
        """Every node with its state and latest metrics, in the order of their numbers."""
        return [NodeStatus.from_message(node) for node in self._coordinator.nodes()]

    def watch(self, interval: float = 1.0) -> notebook.Watch:
        """Shows the nodes as a table in the notebook cell that calls it, and keeps it up to date,
        while other cells run, until the cluster has ended. ``interval``: seconds between two
        looks."""
        pause = seconds("interval", interval)
        if not 0 < pause <= MOST_SECONDS:
            raise BadInputError(
                f"interval={interval!r}: seconds, above 0 and at most {MOST_SECONDS:g}"
            )
        return notebook.Watch(self._repr_html_, self._closing.ended, pause)

    def _repr_html_(self) -> str:
        return notebook.status_html(
            self.cluster_id, self._coordinator.nodes(), self._coordinator.failure
        )

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the cluster's page (``page_url``) as one HTML file, which shows the run without a
        coordinator: as it is now, or as it was at its end once the cluster was shut down.

        Args:
            path: of a file on the driver's host. One that is there is replaced.

        Raises :class:`TfosError` where the coordinator does not answer, or had been killed; OSError
        where the file can't be written.
        """
        self._report.write(path)

    def ledger(self) -> Ledger:
        """What happened to the rows fed so far: a :class:`tfos.Ledger`. It is complete once the
        cluster was shut down; before that nodes report their counts with their heartbeats. It adds
        up all queues."""
        return self._feed.tally.ledger()

    def tensorboard_url(self) -> str | None:
        """Where the coordinator shows TensorBoard, with the key of ``page_url``; None when it was
        not asked for. A method, as it waits until TensorBoard listens: for five minutes at most,
        then it is None, too, and the log of its node has the reason."""

        def started() -> bool:
            return any(node.get("tensorboard") for node in self._coordinator.nodes())

        if not self._has_tensorboard:
            return None
        if not self._coordinator.wait(started, _TENSORBOARD_SECONDS):
            logger.warning(
                "TensorBoard does not listen after %d s; the log of its node says why",
                _TENSORBOARD_SECONDS,
            )
            return None
        return self._addresses.tensorboard

    @property
    def coordinator_address(self) -> tuple[str, int]:
        """The host and the port at which executors reach the coordinator."""
        return self._addresses.address, self._addresses.port

    @property
    def page_url(self) -> str:
        """The cluster's page for a browser, with a key that opens all that people read: also what
        nodes print, and their stacks. The driver prints it at the start. It exists until the
        coordinator ends."""
        return str(self._addresses.page)

    @property
    def metrics_url(self) -> str:
        """Where the coordinator serves the metrics for Prometheus, with ``metrics_header``."""
        return self._addresses.metrics

    @property
    def metrics_header(self) -> dict[str, str]:
        """The HTTP header that ``metrics_url`` wants. It opens the metrics alone."""
        return self._addresses.metrics_header

    @property
    def status_url(self) -> str:
        """Where the coordinator serves the state of all nodes as JSON, with ``status_header``."""
        return self._addresses.status

    @property
    def status_header(self) -> dict[str, str]:
        """The HTTP header that ``status_url`` wants, for people. It opens what the page does."""
        return self._addresses.status_header

    @property
    def operate_link(self) -> str:
        """What ``tfos status --link`` and its like ask for on another host: it opens what is read,
        ``tfos stack``, ``tfos profile`` and ``tfos stop``. On the driver's host they need none."""
        return self._addresses.operate

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if error is None:
            self.shutdown()
        elif not self._closing.has_begun:
            self._closing.abort_after(error)

    # -- how

    __reduce__ = driver_only.refuse

    def _check_feedable(self, queue: str) -> None:
        if self.input_mode != "spark":
            raise BadInputError(
                "this cluster reads its data itself (input mode 'tensorflow'); "
                "start it with input mode 'spark' to feed it"
            )
        if queue not in self._queues:
            raise BadInputError(f"no queue {queue!r}; this cluster has {', '.join(self._queues)}")
        if self._closing.has_begun:
            raise BadInputError("the cluster was shut down")
        self._coordinator.raise_failure()

    def _stop_as_asked(self, reason: str, timeout: float) -> None:
        """Body of the thread that ends the cluster when somebody asks for it with ``tfos stop``."""
        self._begun.wait()
        self._closing.stop_as_asked(reason, timeout)

    def _show_end(self, failure_of_driver: dict[str, Any] | None) -> None:
        """The last that is shown of the cluster, and kept."""
        self._onlookers.finish()
        failed = self._coordinator.failure is not None
        stopped = self._coordinator.was_stopped
        how = "stopped" if stopped else "failed" if failed or failure_of_driver else "ended"
        self._show_progress(how, last=True)
        cut_short = failed and any(n["state"] != "done" for n in self._coordinator.nodes())
        self._progress.say_ledger(self.ledger(), cut_short, stopped)
        self._tab.finish(failure_of_driver)
        self._before_end()

    def _before_end(self) -> None:
        self._onlookers.withdraw()
        # What a client of Spark Connect can't reach, it can't keep.
        if self._coordinator.executor_id is None:
            self._report.keep()
