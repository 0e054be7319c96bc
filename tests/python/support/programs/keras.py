"""Programs of test_keras_nodes.py; in a module that nodes can import."""

import itertools
import os
import pathlib
import signal

import numpy as np

#: Rows of a batch on each node, and batches of an epoch: the chief's end first.
ROWS, BATCHES, EPOCHS = (20, 12), (3, 5), 2
WORDS = 50


def package_of(kind):
    import tf_keras

    import keras

    return tf_keras if kind.startswith("legacy") else keras


def model_of(kind, seed):
    keras = package_of(kind)
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    if kind.endswith("embedding"):
        return keras.Sequential(
            [
                layers.Input((4,), dtype="int32"),
                layers.Embedding(WORDS, 3),
                layers.GlobalAveragePooling1D(),
                layers.Dense(1),
            ]
        )
    return keras.Sequential(
        [layers.Input((4,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
    )


def steps_of(kind, batches=None):
    """The batch of each node in each step of an epoch; fewer nodes where rows are used up."""
    random = np.random.default_rng(7)
    batches = batches or ((4, 0) if kind == "empty" else BATCHES)
    # Legacy Keras weighs nodes alike.
    sizes = (16, 16) if kind.startswith("legacy") else ROWS

    def batch(rows):
        x = (
            random.integers(0, WORDS, (rows, 4))
            if kind.endswith("embedding")
            else random.normal(size=(rows, 4)).astype(np.float32)
        )
        return x, np.sin(x.sum(axis=1, keepdims=True)).astype(np.float32)

    nodes = [
        [batch(rows) for _ in range(count)] for rows, count in zip(sizes, batches, strict=True)
    ]
    return list(itertools.zip_longest(*nodes))


def dataset_of(steps, rank):
    """As ``ctx.dataset``: of batches that nobody has counted."""
    import tensorflow as tf

    mine = [step[rank] for step in steps if step[rank] is not None]
    x, y = steps[0][0]
    return tf.data.Dataset.from_generator(
        lambda: iter(mine),
        output_signature=(
            tf.TensorSpec([None, *x.shape[1:]], x.dtype),
            tf.TensorSpec([None, 1], tf.float32),
        ),
    )


def together(step):
    """The batch of a machine that has the rows of all nodes."""
    return [
        np.concatenate(columns) for columns in zip(*(each for each in step if each is not None))
    ]


def policy(kind):
    return "mixed_float16" if kind == "mixed_float16" else "float32"


def optimizer_of(kind):
    # Keras runs a step to find out that there is no batch, and may count it as an iteration; legacy
    # Keras may also let the momenta of an embedding decay. These don't look at either.
    return package_of(kind).optimizers.SGD(
        0.05, momentum=0.0 if kind == "legacy embedding" else 0.9
    )


def uneven(ctx, kind):
    import keras

    rank = ctx.node_id
    keras.config.set_dtype_policy(policy(kind))
    try:
        model = model_of(kind, seed=rank)  # Other weights at first.
        model.compile(ctx.distribute(optimizer_of(kind)), "mse", metrics=["mae"])
        history = model.fit(
            dataset_of(steps_of(kind), rank),
            epochs=EPOCHS,
            verbose=0,
            validation_data=together(steps_of(kind)[0]),
            callbacks=[ctx.average_metrics()],
        )
    finally:
        keras.config.set_dtype_policy("float32")
    return {
        "weights": [np.asarray(weight, np.float32) for weight in model.get_weights()],
        "iterations": int(model.optimizer.iterations),
        "history": history.history,
    }


#: What leaves elements out of the loss, and the reduction of it.
MASKED = {
    "mask": ("sum_over_batch_size", None),
    "mask and weights": ("mean_with_sample_weight", "float32"),
    "ignored class": ("sum_over_batch_size", None),
    "uint8": ("mean_with_sample_weight", "uint8"),
    "bool": ("mean_with_sample_weight", "bool"),
}


def masked(ctx, kind):
    """A step in which other parts of the nodes' rows count; on one machine without a context.
    Returns the weights that it ends with."""
    import tensorflow as tf

    import keras

    reduction, dtype = MASKED[kind]
    keras.utils.set_random_seed(1)
    words = keras.layers.Input((4,), dtype="int32")
    embedded = keras.layers.Embedding(10, 3, mask_zero=kind.startswith("mask"))(words)
    model = keras.Model(words, keras.layers.Dense(5)(embedded))
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True,
        ignore_class=-1 if kind == "ignored class" else None,
        reduction=reduction,
    )
    optimizer = keras.optimizers.SGD(0.5)
    model.compile(ctx.distribute(optimizer) if ctx else optimizer, loss)
    # 300 rows of each node, of which one has hardly any that count.
    random = np.random.default_rng(3)
    x, y = random.integers(1, 10, (600, 4)), random.integers(0, 5, (600, 4))
    y[300:] = 2
    columns = [x, y]
    if kind.startswith("mask"):
        x[300:, 1:] = 0
    elif kind == "ignored class":
        y[300:, 1:] = -1
    if dtype is not None:
        counts = np.ones((600, 1), dtype)
        counts[3:290] = 0  # The worker's sum is more than a byte holds.
        columns.append(counts)
    part = slice(None) if ctx is None else slice(300 * ctx.node_id, 300 * (ctx.node_id + 1))
    rows = tf.data.Dataset.from_tensor_slices(tuple(column[part] for column in columns))
    model.fit(rows.batch(600), verbose=0)
    return model.get_weights()


def nested(ctx, kind):
    """Steps whose loss is computed in a function within that of the step, or in a loop."""
    import warnings

    import tensorflow as tf

    import keras

    class Nested(keras.Sequential):
        def gradients(self, x, y):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
            return tape.gradient(loss, self.trainable_variables)

        def train_step(self, data):
            x, y = data
            if kind == "function":
                gradients = tf.function(self.gradients)(x, y)
            else:
                (kernel,), _ = tf.while_loop(
                    lambda sums, place: place < 2,
                    lambda sums, place: (
                        [
                            sums[0]
                            + self.gradients(x[place : place + 1], y[place : place + 1])[0] / 2
                        ],
                        place + 1,
                    ),
                    ([tf.zeros((1, 1))], 0),
                )
                gradients = [kernel]
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": tf.constant(0.0)}

    rank = ctx.node_id
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = Nested([keras.layers.Input((1,)), dense])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.5)), "mse")
    # Gradients of 2 and 4, of batches of different sizes.
    x = np.ones((2 + 2 * rank, 1), np.float32)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.fit(x, -rank * x, batch_size=4, verbose=0)
    texts = [str(each.message) for each in warned if "compute_loss" in str(each.message)]
    return model.get_weights()[0].tolist(), texts


def without_graphs(ctx):
    """The worker has no rows, so it sees no gradients; on one machine without a context."""
    import keras

    model = model_of("embedding", seed=0)
    optimizer = keras.optimizers.SGD(0.05)
    model.compile(ctx.distribute(optimizer) if ctx else optimizer, "mse", run_eagerly=True)
    batches = dataset_of(steps_of("embedding", batches=(2, 0)), ctx.node_id if ctx else 0)
    model.fit(batches, epochs=EPOCHS, verbose=0)
    return model.get_weights()


def scores_of_classes(ctx):
    """A metric of a number for each class, of as many rows on each node."""
    import keras

    rank = ctx.node_id
    identity = keras.layers.Dense(3, kernel_initializer="identity", use_bias=False)
    model = keras.Sequential([keras.layers.Input((3,)), identity])
    model.compile(
        ctx.distribute(keras.optimizers.SGD(0.0)),
        "mse",
        metrics=[keras.metrics.F1Score(average=None, name="f1")],
    )
    # The worker is wrong about the second class alone, which it takes for the third.
    labels = np.eye(3, dtype=np.float32)
    answers = labels if rank == 0 else labels[[0, 2, 2]]
    history = model.fit(answers, labels, verbose=0, callbacks=[ctx.average_metrics()])
    return np.asarray(history.history["f1"][0]).tolist(), history.history["loss"]


def batch_norm(ctx, kind):
    """As many batches on both nodes, of as many rows."""
    rank = ctx.node_id
    model = normalised(kind, seed=rank)
    model.compile(ctx.distribute(package_of(kind).optimizers.SGD(0.05)), "mse")
    model.fit(
        dataset_of(steps_of("legacy", (4, 4)), rank),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[ctx.average_metrics(batch_norm=True)],
    )
    return model.get_weights()


def normalised(kind, seed):
    keras = package_of(kind)
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.layers.Input((4,)),
            keras.layers.Dense(3),
            keras.layers.BatchNormalization(momentum=0.8),
            keras.layers.Dense(1),
        ]
    )


def normalised_alone(kind):
    """One machine that normalises each node's rows by themselves."""
    import tensorflow as tf

    model = normalised(kind, seed=0)
    optimizer = package_of(kind).optimizers.SGD(0.05)
    moving = [model.layers[1].moving_mean, model.layers[1].moving_variance]
    for step in steps_of("legacy", (4, 4)) * EPOCHS:
        before, gradients, after = [tf.constant(np.asarray(each)) for each in moving], [], []
        for x, y in step:
            for variable, value in zip(moving, before):
                variable.assign(value)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            gradients.append(tape.gradient(loss, model.trainable_variables))
            after.append([np.asarray(each) for each in moving])
        for variable, values in zip(moving, zip(*after)):
            variable.assign(np.mean(values, axis=0))
        means = [tf.add_n(list(each)) / 2 for each in zip(*gradients)]
        optimizer.apply_gradients(zip(means, model.trainable_variables))
    return model.get_weights()


def resumable(ctx, directory, die_in_epoch):
    """Backed up by the chief after each epoch."""
    import keras

    def die(epoch, logs):
        if epoch == die_in_epoch:
            os.kill(os.getpid(), signal.SIGKILL)

    model = model_of("dense", seed=3 * ctx.node_id)
    model.compile(ctx.distribute(optimizer_of("dense")), "mse")
    checkpoint = pathlib.Path(directory, "model.keras")
    history = model.fit(
        dataset_of(steps_of("dense"), ctx.node_id),
        epochs=4,
        verbose=0,
        callbacks=[
            *ctx.chief_only(
                [
                    keras.callbacks.BackupAndRestore(f"{directory}/backup"),
                    keras.callbacks.ModelCheckpoint(checkpoint),
                ]
            ),
            keras.callbacks.LambdaCallback(on_epoch_begin=die),
        ],
    )
    return {"weights": model.get_weights(), "epochs": history.epoch}


def in_graphs(ctx):
    """What nodes exchange in a function that is traced once and called three times."""
    import tensorflow as tf

    from tfos import collective

    rank = ctx.node_id
    if rank == 0:
        meet = tf.function(lambda: collective.barrier("in a graph"))
    else:

        def meet():
            collective.barrier("in a graph")

    @tf.function
    def exchange(x):
        first = collective.broadcast({"b": x, "a": [x + 1]}, root=1)
        collective.barrier("in between")
        return first, collective.all_gather({"rows": tf.fill([rank + 1], x), "other": [x[None]]})

    found = []
    for step in range(3):
        meet()
        found.append(
            tf.nest.map_structure(
                lambda each: each.numpy().tolist(), exchange(tf.constant(10.0 * rank + step))
            )
        )
    return found


def after_the_worker(ctx):
    """What the chief computes when the worker's program has ended."""
    import tensorflow as tf

    from tfos import collective

    collective.barrier("both are there")
    if ctx.node_id == 1:
        return None
    total, count = collective.all_reduce([tf.constant(3.0), tf.constant(1.0)], "sum")
    mean = collective.all_reduce(tf.constant(3.0))
    return float(total), float(count), float(mean), collective.size()


def different_lists(ctx):
    import tensorflow as tf

    from tfos import collective

    collective.all_reduce([tf.zeros([2, 3]), tf.zeros([4 + ctx.node_id])], name="odd")


def different_models(ctx):
    import keras

    model = keras.Sequential(
        [
            keras.layers.Input((4,)),
            keras.layers.Dense(8),
            keras.layers.Dense(2 + ctx.node_id, name="last"),
        ]
    )
    model.compile(ctx.distribute(keras.optimizers.Adam()), "mse")
    model.fit(np.zeros((4, 4)), np.zeros((4, 2 + ctx.node_id)), verbose=0)


def built_on_the_chief(ctx):
    import keras

    shape = [keras.layers.Input((4,))] if ctx.node_id == 0 else []
    model = keras.Sequential([*shape, keras.layers.Dense(2)])
    model.compile(ctx.distribute(keras.optimizers.Adam()), "mse")
    model.fit(np.zeros((4, 4)), np.zeros((4, 2)), verbose=0)


def weightless(ctx):
    """A batch of the only node that still has some weighs nothing, and is not even numbers."""
    import tensorflow as tf

    import keras

    x, y = np.ones((4, 4), np.float32), np.ones((4, 1), np.float32)
    weights = np.ones(4, np.float32)
    batches = [(x, y, weights)]
    if ctx.node_id == 1:
        batches += [(x * np.nan, y, 0 * weights), (2 * x, y, weights)]
    data = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature=tuple(tf.TensorSpec(each.shape, each.dtype) for each in batches[0]),
    )
    model = model_of("dense", seed=ctx.node_id)
    model.compile(
        ctx.distribute(optimizer_of("dense")),
        keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"),
    )
    model.fit(data, epochs=1, verbose=0)
    return model.get_weights()


def with_profile(ctx):
    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.05)), "mse")
    directory = f"{ctx.log_dir}/{ctx.job_name}-{ctx.task_index}"
    board = keras.callbacks.TensorBoard(directory, profile_batch=(2, 4))
    model.fit(ctx.dataset(32, features="x", label="y"), callbacks=[board], verbose=0)


def with_summaries(ctx):
    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.05)), "mse")
    model.fit(
        ctx.dataset(32, features="x", label="y"),
        epochs=3,
        callbacks=[
            *ctx.chief_only(keras.callbacks.TensorBoard(ctx.log_dir)),
            ctx.summaries(),
        ],
        verbose=0,
    )


def _in_graph(shape, operation):
    import tensorflow as tf

    signature = [tf.TensorSpec([None] * len(shape), tf.float32)]
    return tf.function(operation, input_signature=signature)(tf.zeros(shape))


def rows_of_other_widths(ctx):
    from tfos import collective

    width = 3 * (1 + ctx.node_id)
    _in_graph([2, width], lambda rows: collective.all_gather(rows, name="wide"))


def as_many_elements(ctx):
    from tfos import collective

    shape = [2, 6] if ctx.node_id == 0 else [3, 4]
    _in_graph(shape, lambda tensor: collective.all_reduce(tensor, name="as many"))


def rows_of_strings(ctx):
    import tensorflow as tf

    from tfos import collective

    collective.all_gather(tf.constant(["a"]))
