"""ctx.parameter_server in real clusters: native ps nodes, training, what becomes of their death."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import psutil
import pytest

import tfos
from support.programs import parameter_server as programs
from tfos.errors import BadInputError, NodeFailedError


def test_nodes_train_through_native_servers_and_another_cluster_goes_on(spark, tmp_path, leftovers):
    args = {"directory": str(tmp_path)}
    # The servers' nodes are on the driver, so that two executor slots are left for training.
    with tfos.run(
        spark,
        programs.train,
        nodes=4,
        parameter_servers=2,
        driver_parameter_servers=True,
        input_mode="tensorflow",
        args=args,
    ) as cluster:
        servers = [node for node in cluster.status() if node.job_name == "ps"]
        assert len(servers) == 2
    first, second = (
        json.loads((tmp_path / f"worker-{index}.json").read_text()) for index in (0, 1)
    )
    assert first["began_with"] == second["began_with"], "the chief's weights, on both"
    assert first["loss"] < 0.05 and second["loss"] < 0.05
    assert first["jobs"] == ["worker"], "TensorFlow runs in no other"
    assert "ps" not in json.loads(first["tf_config"])["cluster"]
    # Each has 8 + 32 batches of 32 rows, and exchanges every two.
    assert first["version"] == 2 * (4 + 16)
    assert first["local_servers"] >= 1
    for node in cluster.status()[:2]:
        assert node.state == "done"
    assert sum(node.metrics.get("parameter_pushes", 0) for node in cluster.status()[:2]) >= 40

    with tfos.run(spark, programs.go_on, nodes=2, parameter_servers=1, args=args, encrypt=True):
        pass
    again = json.loads((tmp_path / "again.json").read_text())
    assert again["version"] == first["version"]
    assert again["encrypted"] == again["w"] and again["local_servers"] == 0
    np.testing.assert_allclose(again["w"], [[1], [-2], [0.5], [3]], atol=0.2)


@pytest.mark.failure("parameter server killed", "parameter servers")
@pytest.mark.failure("out-of-memory kill", "parameter servers")
def test_a_server_that_is_not_to_come_again_ends_the_cluster_and_is_named(spark, leftovers):
    cluster = tfos.run(
        spark,
        programs.push_for_ever,
        nodes=2,
        parameter_servers=1,
        input_mode="tensorflow",
        late_nodes=False,
    )
    pushing = cluster._coordinator.wait(
        lambda: cluster.status()[1].metrics.get("pushed", 0) > 0, 120
    )
    assert pushing
    server = cluster.status()[0]
    assert psutil.Process(server.pid).cmdline()[1:] == ["parameter-server"], "no Python runs there"
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(NodeFailedError, match="ps:0|parameter server ps:0 on host"):
        cluster.shutdown()


def test_a_cluster_without_servers_says_so(tmp_path):
    from tfos.node.context import NodeContext

    node = {"default_fs": "file:///", "working_dir": "/", "log_dir": None}
    bootstrap = dict.fromkeys(
        (
            "node_id",
            "executor_id",
            "job_name",
            "task_index",
            "cluster_spec",
            "num_workers",
            "nodes",
            "host",
            "address",
            "port",
            "gpus",
            "gpu_fraction",
        )
    )
    ctx = NodeContext({**bootstrap, "node": node, "cluster_spec": {}}, None, None, None, None)
    with pytest.raises(BadInputError, match="parameter_servers=1"):
        ctx.parameter_server([])
