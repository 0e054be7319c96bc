"""Starting the nodes of a cluster: Spark's launch job, threads for those on the driver, and the
wait until all are there."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark import StorageLevel

from tfos.cluster import launch
from tfos.cluster.coordinator import Coordinator
from tfos.errors import NodeFailedError, TfosError
from tfos.spark import allocation
from tfos.spark.connect import ConnectTasks
from tfos.spark.jobs import SparkJob, SparkJobs, first_cause


class Launcher:
    """Starts the nodes of one cluster.

    Owner and lifetime: the :class:`tfos.cluster.Cluster`, as long as it runs.
    Threads: that of the cluster's owner; it starts some for nodes on the driver.
    Errors: what can't be launched goes to the coordinator, which ends the cluster.
    """

    def __init__(
        self, jobs: SparkJobs, coordinator: Coordinator, show_progress: Callable[[str], None]
    ):
        self._jobs = jobs
        self._coordinator = coordinator
        self._show_progress = show_progress
        self._closing = False
        self._held: Any = None
        self.job: SparkJob | None = None
        self._tasks: Any = None

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
        self._tasks = self._jobs.tasks(task, range(on_driver, nodes), profile)
        if not plan.stay and not isinstance(self._tasks, ConnectTasks):
            # Once the tasks have ended, Spark does not see that an executor has a node. But with
            # dynamic allocation it keeps executors that hold cached data, however idle.
            self._held = self._tasks.persist(StorageLevel.MEMORY_AND_DISK)
        self.job = self._jobs.start("nodes", self._tasks.collect, self._ended)

    @property
    def rdd(self) -> Any:
        """That of the launch tasks, which Spark Connect has not: then it is None."""
        return None if isinstance(self._tasks, ConnectTasks) else self._tasks

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
        if not self.job.done or self.job.error is not None:
            error = self.job.error
            raise TfosError(
                "what the programs returned did not reach the driver: "
                + ("Spark's launch tasks were cancelled" if error is None else first_cause(error))
            )
        return dict(self.job.result())

    def close(self) -> None:
        """From now on a launch job that ends is not a failure."""
        self._closing = True

    def wait(self, seconds: float) -> None:
        """Gives the launch tasks time to end by themselves."""
        if self.job is not None:
            self.job.wait(seconds)

    def release_executors(self) -> None:
        """From now on dynamic allocation may remove the executors of nodes that were fed."""
        # A program may stop its session first, which gives back everything.
        if self._held is not None and self._held.ctx._jsc is not None:
            self._held.unpersist()

    def _ended(self, job: SparkJob) -> None:
        # What ends with the cluster, or because of its end, is not a failure of it.
        over = self._closing or self._coordinator.finished
        if job.error is not None and not over:
            self._coordinator.fail("launch the nodes", first_cause(job.error), str(job.error))
        self._coordinator.notify()

    def _launch_on_driver(self, plan: launch.LaunchPlan, node_id: int) -> None:
        try:
            launch.launch(plan, node_id, executor_id="driver", watch_pid=os.getpid(), gpus=[])
        except Exception as error:  # a thread's boundary: the coordinator spreads it
            self._coordinator.fail("launch the nodes", str(error), traceback.format_exc())

    def _why_missing(self) -> list[str]:
        running, total = self.job.task_counts() if self.job else (0, 0)
        reasons = []
        for node in self._coordinator.nodes():
            if node["state"] == "expected":
                if total == 0:
                    why = "Spark has not begun its job yet"
                elif running < total:
                    why = (
                        f"no executor slot (Spark runs {running} of {total} launch tasks; "
                        f"{self._why_no_slot()})"
                    )
                else:
                    why = "its launch task runs, but no agent has connected"
                reasons.append(
                    f"node {node['node_id']} ({node['job_name']}:{node['task_index']}): "
                    f"expected, {why}"
                )
        return reasons or ["no node is missing, but the roster was not published"]

    def _why_no_slot(self) -> str:
        sc = self._jobs.spark_context
        what_to_do = "free cores or lower the number of nodes"
        if not allocation.is_dynamic(sc):
            return what_to_do
        return f"{allocation.executors_for_people(sc)}; {what_to_do}"
