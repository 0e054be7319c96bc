"""What drivers and programs see of nodes."""

from __future__ import annotations

import dataclasses
import re

import pytest

import tfos
from tfos.node.context import NodeContext
from tfos.node_status import NodeStatus

MESSAGE = {
    "node_id": 3,
    "job_name": "worker",
    "task_index": 1,
    "rank": 1,
    "state": "running",
    "detail": "",
    "host": "h",
    "address": "10.0.0.6",
    "port": 2222,
    "pid": 7,
    "agent_pid": 6,
    "executor_id": "0",
    "gpus": ["0"],
    "feed": {"socket": "tfos-x", "port": 40000},
    "tensorboard": {"pid": 9, "port": 6006},
    "metrics": {"step": 1},
}


def test_a_node_is_read_from_its_message():
    node = NodeStatus.from_message(MESSAGE)
    assert (node.node_id, node.name, node.rank, node.host) == (3, "worker:1", 1, "h")
    assert node.state == "running"
    assert (node.address, node.port, node.feed_port) == ("10.0.0.6", 2222, 40000)
    assert (node.tensorboard_pid, node.tensorboard_port) == (9, 6006)
    assert node.gpus == ("0",) and node.metrics == {"step": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.state = "done"


def test_a_node_that_has_not_registered_has_neither_host_nor_feed():
    expected = {"node_id": 0, "job_name": "ps", "task_index": 0, "rank": -1}
    node = NodeStatus.from_message(
        {**expected, "state": "expected", "host": None, "feed": None, "tensorboard": None}
    )
    assert (node.rank, node.host, node.feed_port, node.tensorboard_pid) == (None,) * 4
    assert (node.detail, node.leaving, node.gpus, node.metrics) == ("", "", (), {})


def test_a_program_sees_the_nodes_of_its_cluster():
    bootstrap = {
        "node": {"default_fs": "file://", "working_dir": "/", "log_dir": None},
        "node_id": 3,
        "executor_id": "0",
        "job_name": "worker",
        "task_index": 1,
        "cluster_spec": {},
        "num_workers": 2,
        "nodes": [MESSAGE],
        "host": "h",
        "address": "10.0.0.6",
        "port": 2222,
        "gpus": [],
        "gpu_fraction": 0.0,
    }
    context = NodeContext(bootstrap, None, None, None, None)
    assert context.nodes == [NodeStatus.from_message(MESSAGE)]
    assert context.rank == context.nodes[0].rank == 1


def test_every_field_is_documented():
    assert tfos.NodeStatus is NodeStatus
    for field in dataclasses.fields(NodeStatus):
        assert re.search(rf"^ +(\w+, )*{field.name}(,|:)", NodeStatus.__doc__, re.MULTILINE), (
            field.name
        )
