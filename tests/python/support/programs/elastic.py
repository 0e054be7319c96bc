"""Programs of test_elastic_state.py; in a module that nodes can import."""

from __future__ import annotations

import numpy as np


def begins(ctx):
    """What each node has after the beginning of the block, and after a step."""
    import tensorflow as tf

    import keras
    import tfos

    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.full((4, 1), 1.0 + 5 * ctx.rank, np.float32)])
    optimizer = ctx.distribute(keras.optimizers.SGD(1.0))
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(2 + ctx.rank)
    variables = {
        "a": tf.Variable(1.0 + ctx.rank),
        "b": [keras.Variable(2.0 + ctx.rank)],
    }
    with tfos.elastic.State(
        model=model,
        optimizer=optimizer,
        variables=variables,
        step=7 * ctx.rank,
        best=None if ctx.is_chief else "something longer",
        names=[ctx.job_name],
    ) as state:
        begun = model.get_weights()[0][:, 0].tolist()
        optimizer.apply([tf.zeros([4, 1])], model.trainable_variables)
        state.step += 1
        state.commit()
    return {
        "weights": begun,
        "variables": [float(variables["a"]), float(variables["b"][0])],
        "values": {"step": state.step, "best": state.best, "names": state.names},
        "iterations": int(optimizer.iterations),
    }


def other_names(ctx):
    import tensorflow as tf

    import tfos

    name = "step" if ctx.is_chief else "epoch"
    with tfos.elastic.State(variable=tf.Variable(1.0), **{name: 0}):
        pass


def other_shapes(ctx):
    import tensorflow as tf

    import tfos

    with tfos.elastic.State(variable=tf.Variable(tf.zeros([2 + ctx.rank])), step=0):
        pass


def begins_compiled(ctx):
    """What the optimizer of a compiled model has on each node after the beginning of the block."""
    import keras
    import tfos

    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.5, momentum=0.9), "mse")
    if ctx.is_chief:  # It has trained; the others join.
        model.fit(np.ones([1, 4]), np.ones([1, 1]), epochs=3, verbose=0)
    with tfos.elastic.State(model=model, step=0):
        return [variable.numpy().tolist() for variable in model.optimizer.variables]
