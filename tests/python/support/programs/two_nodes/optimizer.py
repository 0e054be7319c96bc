"""Programs of nodes that train one model, with what Keras' optimizers and callbacks can do; in a
module that nodes can import."""

import warnings

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
    import tf_keras

    import keras

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


def leftovers(ctx):
    """What each node has accumulated after each of two epochs of one fit, and after another fit.
    The chief has four batches of an epoch, the worker one, and every third is applied."""
    import tensorflow as tf

    import keras

    optimizer = ctx.distribute(keras.optimizers.SGD(0.0, gradient_accumulation_steps=3))
    kernel = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.layers.Input((1,)), kernel])
    model.compile(optimizer, "mse")
    # The gradient of a batch is 2 on the chief, and -18 on the worker.
    count, target = ((4, 0.0), (1, 10.0))[ctx.rank]
    rows = tf.data.Dataset.from_tensors((tf.ones([1, 1]), tf.fill([1, 1], target))).repeat(count)
    found = []

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            found.append(round(float(np.asarray(optimizer._accumulated_gradients[0]).item())))

    for epochs in (2, 1):
        model.fit(rows, epochs=epochs, callbacks=[Look()], verbose=0)
    return found, int(np.asarray(optimizer._iterations))


def averaged_weights(ctx, policy, batches):
    """The weights at the end of each epoch, where the optimizer accumulates and averages them."""
    import tensorflow as tf

    import keras

    keras.config.set_dtype_policy(policy)
    try:
        model = model_of(ctx.rank)
        optimizer = keras.optimizers.Adam(
            0.05,
            gradient_accumulation_steps=2,
            use_ema=True,
            ema_momentum=0.5,
            ema_overwrite_frequency=5,
        )
        model.compile(ctx.distribute(optimizer), "mse")
        rows = tf.data.Dataset.from_tensor_slices(rows_of(ctx.rank, batches[ctx.rank])).batch(4)
        found = []
        look = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: found.append(model.get_weights())
        )
        model.fit(rows, epochs=4, verbose=0, callbacks=[look])
    finally:
        keras.config.set_dtype_policy("float32")
    return found, int(np.asarray(optimizer._iterations))


def synchronized(ctx, kind):
    """The warnings of two fits, as a program gets them by default."""
    import tf_keras

    import keras

    package = tf_keras if kind == "legacy" else keras
    layers = package.layers
    norms = [layers.BatchNormalization(synchronized=both, name=f"n{both}") for both in (0, 1)]
    inner = package.Sequential([layers.Input((3,)), *norms])
    model = package.Sequential([layers.Input((3,)), inner, layers.Dense(1)])
    model.compile(ctx.distribute(package.optimizers.SGD(0.1)), "mse")
    x, y = rows_of(ctx.rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            model.fit(x, y, verbose=0)
    return [str(each.message) for each in caught if "ctx.distribute" in str(each.message)]


def compressed(ctx, row):
    """What the weights were moved by in an epoch in which the gradient is ``row``, of the chief:
    the worker has no rows. As between hosts."""
    import tensorflow as tf

    import keras
    from tfos.base import training_nodes

    training_nodes.set_option("shared_memory", False)
    kernel = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.layers.Input(row.shape), kernel])
    optimizer = ctx.distribute(keras.optimizers.SGD(1.0), compression="float16")
    model.compile(optimizer, lambda labels, given: given)
    batches = [(row[None], np.zeros([1, 1], np.float32))] if ctx.is_chief else []
    specs = tf.TensorSpec([None, *row.shape], tf.float32), tf.TensorSpec([None, 1], tf.float32)
    rows = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=specs)
    model.fit(rows, verbose=0)
    return -model.get_weights()[0][:, 0]


class Stopped(Exception):
    """The program ends in the middle of ``fit``."""


def fit_and_go_on(ctx, directory, callbacks_of, epochs, stops_in):
    """The model of a fit that ends as an epoch begins, and of one that goes on from there; or of
    one that never ends, if no epoch is given."""
    import keras
    from tfos import collective

    def stop(epoch, logs=None):
        if epoch == stops_in and not has_stopped:
            raise Stopped

    has_stopped = stops_in is None
    x, y = rows_of(ctx.rank)
    while True:
        model = model_of(ctx.rank)
        optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)
        model.compile(ctx.distribute(optimizer), "mse")
        kept = ctx.checkpoint(directory)
        begin = keras.callbacks.LambdaCallback(on_epoch_begin=stop)
        callbacks = [*callbacks_of(), kept, begin]
        try:
            model.fit(x, y, batch_size=4, epochs=epochs, verbose=0, callbacks=callbacks)
        except Stopped:
            kept._writer.wait(60)
            collective.barrier("it is written")
            has_stopped = True
        else:
            return model


def swapped(ctx, directory):
    """Callbacks see averages of the weights at the end of an epoch; also the one that saves."""
    import keras

    def callbacks_of():
        return [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)]

    stopped = fit_and_go_on(ctx, f"{directory}/stopped", callbacks_of, 4, 2)
    whole = fit_and_go_on(ctx, f"{directory}/whole", callbacks_of, 4, None)
    return stopped.get_weights(), whole.get_weights()


def kept_best(ctx, directory):
    """The chief keeps the best model under a name for each epoch."""
    import keras

    def score(epoch, logs):
        logs["score"] = [1.0, 0.5, 2.0, 0.25][epoch]

    def callbacks_of():
        path = f"{directory}/best-{{epoch}}.weights.h5"
        options = {"save_best_only": True, "save_weights_only": True}
        best = keras.callbacks.ModelCheckpoint(path, "score", mode="min", **options)
        return [keras.callbacks.LambdaCallback(on_epoch_end=score), *ctx.chief_only(best)]

    fit_and_go_on(ctx, f"{directory}/run", callbacks_of, 4, 2)


class Fed:
    """What ``ctx.checkpoint`` asks of a node's feed, in an epoch that is whole or was cut short."""

    def __init__(self, is_whole):
        self.is_whole = is_whole
        self.has_ended = False

    def epochs_read(self):
        return int(self.has_ended and self.is_whole)

    def is_cut_short(self):
        return not self.is_whole

    def begin_log(self):
        return None


def cut_short_on_the_worker(ctx, directory, sharded):
    """The feed has ended when the chief had trained on all its rows, and the worker had not."""
    import tensorflow as tf

    import keras
    from tfos.keras.checkpoint.saving import Checkpoints

    feed = Fed(is_whole=ctx.is_chief)
    kept = Checkpoints(directory, None, 3, sharded=sharded, nodes=2, reads_past=False, feed=feed)
    end = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: setattr(feed, "has_ended", True)
    )
    model = model_of(seed=3)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse")
    # It does not tell how many it has.
    batches = tf.data.Dataset.from_tensor_slices(rows_of(ctx.rank)).batch(4).filter(lambda *_: True)
    model.fit(batches, verbose=0, callbacks=[kept, end])
