"""At which of a host's addresses nodes listen."""

from __future__ import annotations

import psutil
import pytest

import tfos
from support.waiting import wait_for


def exchange_until_the_feed_ends(ctx):
    """Has the node listen for all that it listens for."""
    import numpy as np

    tfos.collective.barrier()
    if ctx.args["parameter_servers"]:
        with ctx.parameter_server([np.zeros(2, np.float32)], sync_interval=1) as server:
            server.step()
    ctx.report(exchanged=1)
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(1)


def listening(node):
    """Where its process listens: {port: address}."""
    connections = psutil.Process(node.pid).net_connections("tcp")
    return {at.laddr.port: at.laddr.ip for at in connections if at.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize("parameter_servers", [0, 1])
@pytest.mark.parametrize("bind_address", ["all", "advertised"])
def test_nodes_listen_where_the_setting_says(spark, bind_address, parameter_servers, leftovers):
    """Two workers, or a native parameter server and a worker."""
    with tfos.run(
        spark,
        exchange_until_the_feed_ends,
        nodes=2,
        parameter_servers=parameter_servers,
        args={"parameter_servers": parameter_servers},
        node_bind_address=bind_address,
    ) as cluster:

        def exchanged():
            nodes = cluster.status()
            done = sum(node.metrics.get("exchanged", 0) for node in nodes)
            return nodes if done == len(nodes) - parameter_servers else None

        nodes = wait_for(exchanged, cluster.status)
        found = {node.name: listening(node) for node in nodes}
    for node in nodes:
        if node.job_name != "ps":
            assert node.feed_port in found[node.name]
        address = "::" if bind_address == "all" else node.address
        assert set(found[node.name].values()) == {address}, found
