"""What drivers see of nodes."""

from __future__ import annotations

import dataclasses
import re

import pytest

import tfos
from tfos.cluster.status import NodeStatus

MESSAGE = {
    "node_id": 3,
    "job_name": "worker",
    "task_index": 1,
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
    assert (node.node_id, node.name, node.state, node.host) == (3, "worker:1", "running", "h")
    assert (node.address, node.port, node.feed_port) == ("10.0.0.6", 2222, 40000)
    assert (node.tensorboard_pid, node.tensorboard_port) == (9, 6006)
    assert node.gpus == ("0",) and node.metrics == {"step": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        node.state = "done"


def test_a_node_that_has_not_registered_has_neither_host_nor_feed():
    expected = {"node_id": 0, "job_name": "ps", "task_index": 0, "state": "expected"}
    node = NodeStatus.from_message({**expected, "host": None, "feed": None, "tensorboard": None})
    assert (node.host, node.feed_port, node.tensorboard_pid) == (None, None, None)
    assert (node.detail, node.leaving, node.gpus, node.metrics) == ("", "", (), {})


def test_every_field_is_documented():
    assert tfos.NodeStatus is NodeStatus
    for field in dataclasses.fields(NodeStatus):
        assert re.search(rf"^ +(\w+, )*{field.name}(,|:)", NodeStatus.__doc__, re.MULTILINE), (
            field.name
        )
