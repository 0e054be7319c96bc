"""Programs of test_parameter_server_cluster.py, run in real nodes."""

import json
import os
import pathlib
import signal

import numpy as np
import psutil

from support.executor_jvm import executor_of
from tfos import parameter_server
from tfos.parameter_server import connection


def rows():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((512, 4)).astype(np.float32)
    return x, x @ np.array([[1], [-2], [0.5], [3]], np.float32)


def train(ctx):
    """A plain loop and then a fit, of one model."""
    import keras
    from tfos import collective

    x, y = (part[ctx.task_index :: ctx.size] for part in rows())
    keras.utils.set_random_seed(ctx.task_index)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    path = ctx.args["directory"] + "/state.npz"
    server = ctx.parameter_server(model, sync_interval=2, staleness=4)
    with server:  # The plain loop.
        began_with = [weight.tolist() for weight in model.get_weights()]
        collective.barrier()  # A later node has what the servers have by then.
        for start in range(0, len(x), 32):
            model.train_on_batch(x[start : start + 32], y[start : start + 32])
            server.step()
    model.fit(x, y, batch_size=32, epochs=4, verbose=0, callbacks=[server.callback()])
    collective.barrier()
    with server:
        pass  # What all have pushed so far.
    found = {
        "loss": float(model.evaluate(x, y, verbose=0)),
        "began_with": began_with,
        "tf_config": os.environ.get("TF_CONFIG"),
        "jobs": sorted(ctx.cluster_spec),
    }
    if ctx.is_chief:
        with server:
            server.save(path)
            found["version"] = server.version
            found["local_servers"] = server.local_servers
    name = f"{ctx.job_name}-{ctx.task_index}.json"
    pathlib.Path(ctx.args["directory"], name).write_text(json.dumps(found))


def go_on(ctx):
    w = [np.zeros((4, 1), np.float32), np.zeros(1, np.float32)]
    with ctx.parameter_server(w, restore=ctx.args["directory"] + "/state.npz") as server:
        found = {"w": w[0].tolist(), "version": server.version}
        # As a worker of another host, which must go over TCP.
        servers = connection.servers_of(ctx._bootstrap["nodes"], "of another host", encrypt="true")
        worker = connection.Worker(1, "worker:1 on host h", starts=False, workers=ctx.size)
        far = [np.zeros_like(array) for array in w]
        with parameter_server.ParameterServer(
            far, servers, worker, ctx._bootstrap["keys"]["parameters"]
        ) as other:
            found |= {"encrypted": far[0].tolist(), "local_servers": other.local_servers}
    pathlib.Path(ctx.args["directory"], "again.json").write_text(json.dumps(found))


def push_for_ever(ctx):
    w = [np.zeros(1000, np.float32)]
    with ctx.parameter_server(w, sync_interval=1) as server:
        while True:
            w[0] += 1
            server.step()
            ctx.report(pushed=server.version)


def write_result(ctx, **found):
    name = f"{ctx.job_name}-{ctx.task_index}.json"
    pathlib.Path(ctx.args["directory"], name).write_text(json.dumps(found))


def add_through_a_loss(ctx):
    """Adds 1 in each step, until a while after the test has lost the server."""
    lost = pathlib.Path(ctx.args["directory"], "lost")
    w = [np.zeros(1000, np.float32)]
    steps = after = 0
    with ctx.parameter_server(w, sync_interval=1, overlap=ctx.args["overlap"]) as server:
        while after < 30:
            after += lost.exists()
            w[0] += 1
            server.step()
            steps += 1
            ctx.report(pushed=server.version)
        server.pull()
        version = server.version
    write_result(ctx, steps=steps, value=float(w[0][0]), version=version)


def lose(ctx, what):
    """Kills the first server, or what it needs."""
    agent = psutil.Process(ctx._bootstrap["nodes"][0]["agent_pid"])
    lose_of(agent, what)


def lose_of(agent, what):
    """The same, told its agent's process. Returns that of the server."""
    (server,) = agent.children()
    if what == "agent":
        agent.send_signal(signal.SIGKILL)
    elif what == "agent of a stopped server":
        server.send_signal(signal.SIGSTOP)
        agent.send_signal(signal.SIGKILL)
    elif what == "process":
        server.send_signal(signal.SIGKILL)
    else:
        executor_of(server).kill()
    return server


def add_for_each_batch(ctx):
    """Adds 1 for each batch that it is fed, and loses the server in the middle."""
    w = [np.zeros(1000, np.float32)]
    rows = batches = 0
    with ctx.parameter_server(w, sync_interval=1, overlap=False) as server:
        while not ctx.feed.should_stop():
            batch = ctx.feed.next_batch(50)
            if not batch:
                continue
            rows += len(batch)
            batches += 1
            if batches == 10:
                lose(ctx, ctx.args["lost"])
            w[0] += 1
            server.step()
        version = server.version
    write_result(ctx, rows=rows, batches=batches, value=float(w[0][0]), version=version)
