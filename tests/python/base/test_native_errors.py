"""Failures of native code arrive as exceptions of what has failed."""

from __future__ import annotations

import socket

import pytest

from tfos import _native
from tfos.errors import (
    BadInputError,
    FeedError,
    NodeLostError,
    TensorError,
    TensorTimeoutError,
    TfosError,
)

KEY = "ab" * 32


@pytest.fixture
def listener():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def join(listener, members=1, connect_timeout=0.0, rdma="false"):
    port = listener.getsockname()[1]
    return _native.TensorGroup.join(
        members=[(f"worker {rank}", "127.0.0.1", port) for rank in range(members)],
        rank=0,
        key=KEY,
        listener=listener.fileno(),
        connect_timeout=connect_timeout,
        stall_after=60.0,
        shared_memory=False,
        encrypt="auto",
        rdma=rdma,
        packaged_ucx="",
        timeline="",
    )


def test_a_member_that_does_not_come_is_no_failure_of_the_feed(listener):
    with pytest.raises(TensorTimeoutError, match="worker 1 did not come") as raised:
        join(listener, members=2)
    assert isinstance(raised.value, TensorError) and isinstance(raised.value, TimeoutError)
    assert not isinstance(raised.value, FeedError)


def test_a_group_that_was_closed_has_lost_its_nodes(listener):
    group = join(listener)
    group.close("enough")
    with pytest.raises(NodeLostError, match="enough"):
        group.barrier("after the end")


def test_a_wrong_setting_of_tensors_is_bad_input(listener):
    with pytest.raises(
        BadInputError, match="spark.tfos.rdma must be false, true or required, not 'perhaps'"
    ):
        join(listener, rdma="perhaps")


def test_an_agent_that_is_gone_is_no_failure_of_the_feed(monkeypatch):
    ours, agents = socket.socketpair()
    agents.close()
    monkeypatch.setenv("TFOS_AGENT_FD", str(ours.detach()))
    with pytest.raises(TfosError, match="the agent is gone") as raised:
        _native.NodeLink.from_environment()
    assert type(raised.value) is TfosError
