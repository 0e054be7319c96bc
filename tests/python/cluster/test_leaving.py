"""Which nodes hear that an executor goes, with what Spark says in the test's hands."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from tfos.cluster.leaving import LeavingWatch


def test_a_node_that_came_again_on_another_executor_is_announced_again():
    decommissioned = set()
    scheduler = SimpleNamespace(
        getExecutorDecommissionState=lambda executor: SimpleNamespace(
            isDefined=lambda: executor in decommissioned
        )
    )
    context = SimpleNamespace(
        getConf=dict,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(taskScheduler=lambda: scheduler)),
    )
    node = {
        "node_id": 1,
        "job_name": "worker",
        "task_index": 1,
        "host": "h",
        "executor_id": "1",
        "state": "running",
    }
    told = []
    coordinator = SimpleNamespace(
        nodes=lambda: [dict(node)], send=lambda kind, **fields: told.append((kind, fields))
    )
    watch = LeavingWatch(context, coordinator, threading.Event())

    def notice(executor):
        return (
            "leaving",
            {"node_id": 1, "reason": f"executor {executor} is being decommissioned"},
        )

    watch._look()
    assert told == []
    decommissioned.add("1")
    watch._look()
    watch._look()
    assert told == [notice(1)]
    node["state"] = "lost"
    watch._look()
    node.update(state="running", executor_id="4")
    watch._look()
    assert told == [notice(1)]
    decommissioned.add("4")
    watch._look()
    watch._look()
    assert told == [notice(1), notice(4)]
