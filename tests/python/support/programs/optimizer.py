"""Programs of tests/python/keras/optimizer; in a module that nodes can import."""

import numpy as np


def rows_of(rank, batches=4):
    """Batches of four rows, others on each node."""
    random = np.random.default_rng(rank)
    shape = (4 * batches, 3)
    x = random.random(shape).astype(np.float32)
    return x, x.sum(axis=1, keepdims=True)


def model_of(seed, *layers):
    import keras

    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.layers.Input((3,)), *layers, keras.layers.Dense(1)])


def scaled_on_each_node(ctx, kind):
    """Loss scaling around an optimizer of ctx.distribute, by Keras or by the program."""
    import keras
    import tf_keras

    package = tf_keras if kind == "legacy" else keras
    optimizer = ctx.distribute(package.optimizers.SGD(0.01))
    if kind == "own":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    if kind == "both":
        optimizer = ctx.distribute(keras.optimizers.LossScaleOptimizer(optimizer))
    package.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = package.Sequential([package.layers.Input((3,)), package.layers.Dense(1)])
        model.compile(optimizer, "mse")
        x, y = rows_of(ctx.rank)
        if kind == "batch":
            model.train_on_batch(x, y)
        else:
            model.fit(x, y, verbose=0)
    finally:
        package.mixed_precision.set_global_policy("float32")


def distributed_after_training(ctx):
    """An optimizer in its place in a model, with which that has trained by itself."""
    import keras

    model = model_of(ctx.rank)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", jit_compile=False)
    x, y = rows_of(ctx.rank)
    model.fit(x, y, batch_size=4, verbose=0)
    begun = [*model.get_weights(), *(np.asarray(each) for each in model.optimizer.variables)]
    ctx.distribute(model.optimizer)
    made = []
    for _ in range(2):
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
        made.append(model.train_function)
    return begun, model.get_weights(), made[0] is made[1]
