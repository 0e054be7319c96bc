"""Programs of nodes whose Keras runs on JAX or PyTorch. None of them needs TensorFlow."""

from __future__ import annotations

import json
import os
import pathlib
import sys

#: What a node's environment may tell libraries of its cluster.
CLUSTER_VARIABLES = ("JAX_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "KERAS_", "TF_CONFIG")


def tell_environment(ctx):
    """Returns those variables, and whether anything has imported TensorFlow."""
    told = {name: os.environ[name] for name in os.environ if name.startswith(CLUSTER_VARIABLES)}
    return ctx.address, ctx.port, told, "tensorflow" in sys.modules


def _without_tensorflow():
    """As on a host that hasn't it: nothing of tfos has imported it, and nothing can from here on."""
    assert "tensorflow" not in sys.modules
    sys.modules["tensorflow"] = None


def _tell(ctx, **results):
    pathlib.Path(ctx.args["dir"], f"node-{ctx.rank}").write_text(json.dumps(results))


def _model():
    import keras

    keras.utils.set_random_seed(7)
    return keras.Sequential(
        [
            keras.layers.Input((2,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )


def train_with_jax(ctx):
    """Joins JAX's processes, adds up over them, and trains one model on the rows of both."""
    _without_tensorflow()
    import keras

    keras.distribution.initialize()
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    gathered = multihost_utils.process_allgather(np.array([ctx.rank + 1]))
    total = jax.pmap(lambda one: jax.lax.psum(one, "nodes"), axis_name="nodes")(
        np.full((jax.local_device_count(),), ctx.rank + 1)
    )
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    model = _model()
    model.compile(keras.optimizers.SGD(0.05), "mse")
    batches = ctx.batches(16, features="x", label="y", remainder="drop")
    history = model.fit(batches, epochs=ctx.args["epochs"], verbose=0)
    _tell(
        ctx,
        processes=[jax.process_index(), jax.process_count()],
        gathered=np.ravel(gathered).tolist(),
        total=np.asarray(total).ravel().tolist(),
        losses=history.history["loss"],
        weights=[np.asarray(weight).tolist() for weight in model.get_weights()],
        steps=int(model.optimizer.iterations),
    )


def train_with_torch(ctx):
    """Joins PyTorch's processes, adds up over them, and trains one model on the rows of both."""
    _without_tensorflow()
    import numpy as np
    import torch
    import torch.distributed as dist

    import keras

    dist.init_process_group("gloo")
    total = torch.tensor([ctx.rank + 1])
    dist.all_reduce(total)
    model = _model()
    trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    steps = 0
    for _ in range(ctx.args["epochs"]):
        batches = ctx.batches(16, features="x", label="y", remainder="drop")
        some = []
        for x, y in batches:
            loss = keras.losses.mean_squared_error(
                torch.from_dlpack(y)[:, None], trained(torch.from_dlpack(x))
            ).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            some.append(float(loss.detach()))
            steps += 1
        losses.append(float(np.mean(some)))
    _tell(
        ctx,
        processes=[dist.get_rank(), dist.get_world_size()],
        total=total.tolist(),
        losses=losses,
        weights=[weight.detach().numpy().tolist() for weight in model.parameters()],
        steps=steps,
    )
    dist.destroy_process_group()


def fit_alone(ctx):
    """Keras' fit of whatever backend, on this node's rows and with validation data."""
    _without_tensorflow()
    import keras

    model = _model()
    model.compile("sgd", "mse")
    rows = ctx.batches(16, label="y", remainder="pad")
    history = model.fit(
        rows,
        epochs=ctx.args["epochs"],
        validation_data=ctx.batches(16, label="y", queue="validation"),
        verbose=0,
    )
    _tell(
        ctx,
        backend=keras.backend.backend(),
        losses=history.history["loss"],
        validation=history.history["val_loss"],
        steps=int(model.optimizer.iterations),
    )


def table(spark, rows):
    """x, which the model takes as float32, and y = 2 x0 - x1."""
    return spark.range(rows, numPartitions=3).selectExpr(
        "transform(array(id % 7 / 7, id % 5 / 5), v -> float(v)) AS x",
        "float(2 * (id % 7) / 7 - (id % 5) / 5) AS y",
    )


def told(directory):
    """What both nodes have told of their training."""
    return [json.loads(pathlib.Path(directory, f"node-{rank}").read_text()) for rank in range(2)]
