"""Starting the nodes of a cluster: Spark's launch job, threads for those on the driver, and the
wait until all are there."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark import StorageLevel

from tfos.base.roles import members_of
from tfos.cluster import launch
from tfos.cluster.coordinator import FINAL_STATES, Coordinator, node_name
from tfos.errors import NodeFailedError, TfosError
from tfos.spark import allocation
from tfos.spark.connect import ConnectTasks
from tfos.spark.jobs import SparkJob, SparkJobs, first_cause

logger = logging.getLogger(__name__)

#: A node whose start has failed so often in a row is left alone. That does not count as a restart.
_MOST_FAILED_STARTS = 16
#: Before another try, and as much longer after each; a node that came is known by then.
_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 30.0
#: Before another try for a node that was turned away from its host: Spark may choose the same one.
_ELSEWHERE_SECONDS = 5.0
_LOOK_SECONDS = 60.0
#: For an executor slot for a server that was lost. The tasks that feed may have all of them, and
#: they end only when the nodes read on, which wait for the server.
_SLOT_SECONDS = 15.0


class Launcher:
    """Starts the nodes of one cluster. It also starts others in place of lost ones, where no launch
    task does: those that Spark feeds, as their tasks have ended, and those that were turned away
    from a host that is avoided, as theirs end with that.

    Owner and lifetime: the :class:`tfos.Cluster`, as long as it runs.
    Threads: that of the cluster's owner; it starts some for nodes on the driver.
    Errors: what can't be launched goes to the coordinator, which ends the cluster.

    restarts: how often a lost node is started again within ``loss_period`` seconds.
    """

    def __init__(
        self,
        jobs: SparkJobs,
        coordinator: Coordinator,
        show_progress: Callable[[str], None],
        restarts: int = 15,
        loss_period: float = 3600.0,
    ):
        self._jobs = jobs
        self._coordinator = coordinator
        self._show_progress = show_progress
        self._restarts = restarts
        self._loss_period = loss_period
        self._closing = False
        self._held: list[Any] = []
        self.job: SparkJob | None = None
        self._lock = threading.Lock()
        self._starting: set[int] = set()  # in place of lost ones
        #: By node: when it was started again, by the monotonic clock.
        self._starts: dict[int, list[float]] = {}
        #: By node: how many starts have failed since it last came.
        self._failed: Counter[int] = Counter()
        #: By node: the last job that has started it again, and that lasts as long as the node.
        self._again: dict[int, SparkJob] = {}
        #: Nodes that are lost: since when, by the monotonic clock. inf: the user has been told.
        self._lost_since: dict[int, float] = {}
        self._others_come = False
        self._replaces = True

    def start(
        self, plan: launch.LaunchPlan, nodes: int, on_driver: int, profile: Any = None
    ) -> None:
        """Starts all nodes, the first ones on the driver, and returns at once. ``profile`` is what
        each launch task asks of Spark; None: its default."""
        for node_id in range(on_driver):
            threading.Thread(
                target=self._launch_on_driver,
                args=(plan, node_id),
                daemon=True,
                name=f"tfos-launch-{node_id}",
            ).start()
        task = partial(launch.launch_task, plan)
        tasks = self._make_tasks(plan, task, range(on_driver, nodes), profile)
        self._others_come = bool(plan.node["late"] or plan.returning_nodes) and not plan.stay
        started = "the node" if nodes - on_driver == 1 else f"{nodes - on_driver} nodes"
        doing = f"start {started} of {self._jobs.spark_context.appName}"
        self.job = self._jobs.start("nodes", doing, tasks.collect, self._ended)
        if self._others_come or plan.node["late"]:
            threading.Thread(
                target=self._replace_lost,
                args=(plan, on_driver, profile),
                daemon=True,
                name="tfos-replace-nodes",
            ).start()

    def _make_tasks(
        self, plan: launch.LaunchPlan, task: Callable[..., Any], nodes: range, profile: Any
    ) -> Any:
        tasks = self._jobs.tasks(task, nodes, profile)
        if not plan.stay:
            # Once the tasks have ended, Spark does not see that an executor has a node. But with
            # dynamic allocation it keeps executors that hold cached data, however idle.
            self._held.append(tasks.persist(StorageLevel.MEMORY_AND_DISK))
        return tasks

    def _replace_lost(self, plan: launch.LaunchPlan, on_driver: int, profile: Any) -> None:
        """Body of the thread that starts a node again when it is lost: in a Spark job of its own,
        as its launch task has ended."""
        while not self._is_over():
            self._coordinator.wait_quietly(
                lambda: self._is_over() or bool(self._missing(plan, on_driver)), _LOOK_SECONDS
            )
            if plan.stay and not self._is_over():
                self._tell_of_long_losses()
            for node_id in [] if self._is_over() else self._missing(plan, on_driver):
                with self._lock:
                    self._starting.add(node_id)
                    self._starts[node_id] = [*self._recent_starts(node_id), time.monotonic()]
                known = dataclasses.replace(plan, gpus_of_executors=self._gpus_of_executors())
                task = partial(launch.launch_task, known)
                tasks = self._make_tasks(plan, task, range(node_id, node_id + 1), profile)
                if node_id < plan.returning_nodes:
                    threading.Thread(
                        target=self._start_server_again,
                        args=(plan, node_id, tasks),
                        daemon=True,
                        name=f"tfos-launch-{node_id}",
                    ).start()
                    continue
                again = partial(self._started_again, node_id)
                job = self._jobs.start("node", self._doing(node_id), tasks.collect, again)
                if plan.stay:
                    self._again[node_id] = job
                if self._is_over():
                    job.cancel()

    def _tell_of_long_losses(self) -> None:
        """Where launch tasks start lost nodes again, only their executors' logs say why that
        fails."""
        now = time.monotonic()
        nodes = self._coordinator.nodes()
        if all(node["state"] in FINAL_STATES for node in members_of(nodes)):
            return  # Nobody joins nodes that have ended.
        # One without a host has never come.
        lost = {n["node_id"]: n for n in nodes if n["state"] == "lost" and n["host"]}
        self._lost_since = {node_id: self._lost_since.get(node_id, now) for node_id in lost}
        for node_id, since in self._lost_since.items():
            if now - since < _LOOK_SECONDS:
                continue
            self._lost_since[node_id] = math.inf
            logger.warning(
                "%s is lost, and has not come again for %d s. If its launch task tries that, the "
                "log of its executor says why it fails",
                node_name(lost[node_id]),
                now - since,
            )

    def _gpus_of_executors(self) -> dict[str, list[str]]:
        """By executor: the GPUs of its nodes, and of those that were lost."""
        found: dict[str, list[str]] = {}
        for node in self._coordinator.nodes():
            found.setdefault(node["executor_id"], []).extend(node["gpus"])
        return found

    def _doing(self, node_id: int) -> str:
        """What Spark's pages call the job that starts a node again."""
        node = node_name(self._coordinator.nodes()[node_id])
        return f"start {node} of {self._jobs.spark_context.appName} again"

    def _start_server_again(self, plan: launch.LaunchPlan, node_id: int, tasks: Any) -> None:
        """Body of a thread that starts a server which was lost. Whatever fails, there are further
        attempts."""
        try:
            self._start_server(plan, node_id, tasks)
        except Exception as error:
            self._count_failed_start(node_id)
            name = node_name(self._coordinator.nodes()[node_id])
            logger.warning("%s was not started again: %s", name, first_cause(error))
        else:
            self._failed.pop(node_id, None)
        finally:
            self._pause_before_another(node_id)

    def _start_server(self, plan: launch.LaunchPlan, node_id: int, tasks: Any) -> None:
        """In a Spark job, or beside the driver if Spark has no slot for that."""
        job = self._jobs.start(
            "node",
            self._doing(node_id),
            tasks.collect,
            lambda job: self._coordinator.notify(),
        )

        def has_come() -> bool:
            state = self._coordinator.nodes()[node_id]["state"]
            return self._is_over() or job.done or state != "lost"

        came = self._coordinator.wait_quietly(has_come, _SLOT_SECONDS)
        # An executor can't reach a client of Spark Connect.
        if came or isinstance(tasks, ConnectTasks) or job.task_counts()[0] > 0:
            while not self._is_over() and not job.done:
                self._coordinator.wait_quietly(lambda: self._is_over() or job.done, _LOOK_SECONDS)
        if job.done:
            if job.error is not None and not self._is_over():
                raise job.error
            return
        job.cancel()
        if not self._is_over():
            self._launch_again_on_driver(plan, node_id)

    def _launch_again_on_driver(self, plan: launch.LaunchPlan, node_id: int) -> None:
        name = node_name(self._coordinator.nodes()[node_id])
        logger.warning(
            "no executor slot got free within %g s for %s, which was lost: it comes again on the "
            "driver's host",
            _SLOT_SECONDS,
            name,
        )
        self._launch_here(plan, node_id)

    def _launch_here(self, plan: launch.LaunchPlan, node_id: int) -> None:
        launch.launch(
            plan,
            node_id,
            executor_id="driver",
            watch_pid=os.getpid(),
            gpus=[],
            is_over=self._is_over,
        )

    def _missing(self, plan: launch.LaunchPlan, on_driver: int) -> list[int]:
        """Nodes that are lost, or never came, and that nothing starts at the moment. With
        ``plan.stay``, launch tasks start them, until one is turned away: its task has ended."""
        away = self._coordinator.turned_away_nodes()
        if plan.stay and not away and not self._again:
            return []
        gone = {"lost"}
        if self.job is not None and self.job.done:
            gone.add("expected")
        nodes = self._coordinator.nodes()
        training = members_of(nodes)
        # Nobody joins nodes that have ended.
        have_ended = all(n["state"] in FINAL_STATES | {"expected"} for n in training)
        if have_ended or not self._coordinator.formed:
            return []
        missing = []
        if not plan.stay:
            servers = nodes[: plan.returning_nodes]
            missing += [n["node_id"] for n in servers if n["state"] == "lost"]
        if plan.node["late"] and self._replaces:
            missing += [
                n["node_id"]
                for n in training
                if n["node_id"] in away
                or (n["state"] in gone and (not plan.stay or n["node_id"] in self._again))
            ]
        with self._lock:  # The last that is taken: some call this under the coordinator's.
            return [
                node_id
                for node_id in missing
                if node_id >= on_driver
                and node_id not in self._starting
                and len(self._recent_starts(node_id)) < self._restarts
                and self._failed[node_id] < _MOST_FAILED_STARTS
            ]

    def _recent_starts(self, node_id: int) -> list[float]:
        """When the node was started again within the period of losses: what was before that is
        forgotten."""
        since = time.monotonic() - self._loss_period
        return [start for start in self._starts.get(node_id, []) if start > since]

    def _started_again(self, node_id: int, job: SparkJob) -> None:
        if job.error is not None and not self._is_over():
            failed = self._count_failed_start(node_id)
            logger.warning(
                "node %d was not started again%s: %s",
                node_id,
                " and is given up" if failed >= _MOST_FAILED_STARTS else "",
                first_cause(job.error),
            )
        elif node_id in self._coordinator.turned_away_nodes():
            # It was not started, and a host that is avoided may be for an hour.
            with self._lock:
                self._starts[node_id].pop()
            self._pause_before_another(node_id, _ELSEWHERE_SECONDS)
            return
        else:
            self._failed.pop(node_id, None)
        self._pause_before_another(node_id)

    def _count_failed_start(self, node_id: int) -> int:
        """How many have failed since the node last came."""
        with self._lock:
            self._starts[node_id].pop()
            self._failed[node_id] += 1
            return self._failed[node_id]

    def _pause_before_another(self, node_id: int, pause: float | None = None) -> None:
        if pause is None:
            tries = len(self._starts[node_id]) + self._failed[node_id]
            pause = min(_PAUSE_SECONDS * tries, _LONGEST_PAUSE_SECONDS)
        self._coordinator.wait_quietly(self._is_over, pause)
        with self._lock:
            self._starting.discard(node_id)
        self._coordinator.notify()

    def _is_over(self) -> bool:
        ends = self._coordinator.finished or self._coordinator.failure is not None
        return self._closing or ends

    def wait_until_formed(self, timeout: float) -> None:
        """Returns when all nodes are there; :class:`NodeFailedError` says which are not."""
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

    def results(self) -> dict[int, bytes | None]:
        """What the programs have returned, by node. Call it once they have."""
        assert self.job is not None  # since the cluster has formed
        results = self._results_of(self.job)
        for job in self._again_of_done():
            returned = self._results_of(job)
            results |= {node: result for node, result in returned.items() if result is not None}
        return results

    @staticmethod
    def _results_of(job: SparkJob) -> dict[int, bytes | None]:
        if not job.done or job.error is not None:
            raise TfosError(
                "what the programs returned did not reach the driver: "
                + (
                    "Spark's launch tasks were cancelled"
                    if job.error is None
                    else first_cause(job.error)
                )
            )
        return dict(job.result())

    def _again_of_done(self) -> list[SparkJob]:
        """The jobs in which nodes whose programs have returned were started again."""
        nodes = self._coordinator.nodes()
        again = list(self._again.items())  # Another thread may add some.
        return [job for node_id, job in again if nodes[node_id]["state"] == "done"]

    def replace_no_more(self) -> None:
        """From now on nobody is to come in place of a node that trains and is lost."""
        self._replaces = False
        self._coordinator.notify()

    def close(self) -> None:
        """From now on a launch job that ends is not a failure."""
        self._closing = True
        self._coordinator.notify()

    def wait(self, seconds: float) -> None:
        """Gives the launch tasks time to end by themselves."""
        deadline = time.monotonic() + seconds
        for job in [self.job, *self._again_of_done()]:
            if job is not None:
                job.wait(max(0.0, deadline - time.monotonic()))

    def release_executors(self) -> None:
        """From now on dynamic allocation may remove the executors of nodes that were fed."""
        # A program may stop its session first, which gives back everything.
        for held in self._held:
            if isinstance(held, ConnectTasks) or held.ctx._jsc is not None:
                held.unpersist()

    def _ended(self, job: SparkJob) -> None:
        # What ends with the cluster, or because of its end, is not a failure of it.
        over = self._closing or self._coordinator.finished
        if job.error is not None and self._others_come and self._coordinator.formed:
            logger.warning("a node that was late did not start: %s", first_cause(job.error))
        elif job.error is not None and not over:
            self._coordinator.fail("launch the nodes", first_cause(job.error), str(job.error))
        self._coordinator.notify()

    def _launch_on_driver(self, plan: launch.LaunchPlan, node_id: int) -> None:
        try:
            self._launch_here(plan, node_id)
        except Exception as error:  # a thread's boundary: the coordinator spreads it
            self._coordinator.fail("launch the nodes", str(error), traceback.format_exc())

    def _why_missing(self) -> list[str]:
        running, total = self.job.task_counts() if self.job else (0, 0)
        reasons = []
        for node in self._coordinator.nodes():
            if node["state"] not in ("expected", "lost"):
                continue
            if total == 0:
                why = "Spark has not begun its job yet"
            elif running < total:
                why = (
                    f"no executor slot (Spark runs {running} of {total} launch tasks; "
                    f"{self._why_no_slot()})"
                )
            else:
                why = "its launch task runs, but no agent has connected"
            lost = f", {node['detail']}" if node["state"] == "lost" else ""
            reasons.append(
                f"node {node['node_id']} ({node['job_name']}:{node['task_index']}): "
                f"{node['state']}{lost}; {why}"
            )
        return reasons or ["no node is missing, but the roster was not published"]

    def _why_no_slot(self) -> str:
        sc = self._jobs.spark_context
        what_to_do = "free cores or lower the number of nodes"
        if not allocation.is_dynamic(sc):
            return what_to_do
        return f"{allocation.executors_for_people(sc)}; {what_to_do}"
