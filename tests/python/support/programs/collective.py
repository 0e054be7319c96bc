"""Programs of test_collective.py; in a module that nodes can import."""

import json
import os


def report(ctx, **found):
    with open(
        os.path.join(ctx.args["directory"], f"{ctx.job_name}-{ctx.task_index}.json"), "w"
    ) as file:
        json.dump(found, file)


def operations(ctx):
    import tensorflow as tf

    from tfos import collective

    rank, size = collective.rank(), collective.size()
    mine = {"a": tf.constant([1.0 + rank, 2.0]), "b": [tf.constant(3 * rank, tf.int64), None]}
    sums = collective.all_reduce(mine, "sum")
    mean = collective.all_reduce(tf.constant([float(rank)]), weight=1.0 + rank)
    rows = collective.all_gather(tf.fill([rank + 1, 2], rank))
    variable = tf.Variable([float(rank), 5.0 + rank])
    collective.broadcast_variables([variable], root=size - 1)

    @tf.function
    def in_graph(x):
        slices = tf.IndexedSlices(
            tf.ones([2, 3]) * (rank + 1.0),
            tf.constant([rank, rank + 1]),
            tf.constant([size + 1, 3]),
        )
        reduced, half, sparse = collective.all_reduce([x, tf.cast(x, tf.float16), slices])
        return reduced, half, tf.convert_to_tensor(sparse)

    reduced, half, dense = in_graph(tf.constant([2.0 * rank]))
    wide = tf.range(20_000, dtype=tf.float32) / 7 + rank
    rounded = collective.all_reduce(
        [wide, tf.constant([rank + 1 / 3], tf.float64)], compression="bfloat16"
    )
    collective.barrier("done")
    report(
        ctx,
        rank=rank,
        size=size,
        transport=collective.group().transport,
        rounded=[rounded[0].numpy().tolist(), float(rounded[1][0])],
        a=sums["a"].numpy().tolist(),
        b=int(sums["b"][0]),
        none=sums["b"][1] is None,
        mean=mean.numpy().tolist(),
        rows=rows.numpy().tolist(),
        variable=variable.numpy().tolist(),
        reduced=reduced.numpy().tolist(),
        half=half.numpy().tolist(),
        dense=dense.numpy().tolist(),
    )


def _model(keras, seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
    )


def rows_of(count):
    import numpy as np

    random = np.random.default_rng(5)
    x = random.normal(size=(count, 8)).astype(np.float32)
    return x, (x.sum(axis=1, keepdims=True) ** 2).astype(np.float32)


def _excluding(keras):
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=5.0)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    return optimizer


def _halving(keras):
    """A schedule as Keras' documentation writes them: without a configuration."""

    class Halving(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.01 * 0.5 ** (keras.ops.cast(step, "float32") / 4)

    return Halving()


def _falling(keras):
    """A schedule with a configuration, that Keras does not know by its name."""

    class Falling(keras.optimizers.schedules.LearningRateSchedule):
        def __init__(self, first):
            self.first = first

        def __call__(self, step):
            return self.first / (1 + keras.ops.cast(step, "float32"))

        def get_config(self):
            return {"first": self.first}

    return Falling(0.01)


OPTIMIZERS = {
    "excluding": _excluding,
    "halving": lambda keras: keras.optimizers.Adam(_halving(keras)),
    "falling": lambda keras: keras.optimizers.Adam(_falling(keras)),
    "adam": lambda keras: keras.optimizers.Adam(0.01),
    "clipped": lambda keras: keras.optimizers.SGD(0.01, momentum=0.9, global_clipnorm=0.1),
    "accumulating": lambda keras: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2),
    "adamw": lambda keras: keras.optimizers.AdamW(
        keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9), clipnorm=0.5
    ),
}


def train_alone(keras, name, x, y, steps_per_execution=1, epochs=2):
    model = _model(keras, 0)
    model.compile(OPTIMIZERS[name](keras), "mse", steps_per_execution=steps_per_execution)
    model.fit(x, y, batch_size=32, epochs=epochs, shuffle=False, verbose=0)
    return [weight.tolist() for weight in model.get_weights()]


def uneven_parts(x, y, rank):
    """This node's part of each batch of 32 rows: 20 of them or 12; of the last one, which has 10
    rows, 8 or 2."""
    for start in range(0, len(x), 32):
        part = slice(start, start + 20) if rank == 0 else slice(start + 20, start + 32)
        if start + 32 > len(x):
            part = slice(start, start + 8) if rank == 0 else slice(start + 8, start + 10)
        yield x[part], y[part]


def keras_training(ctx):
    """Each node trains with half of every batch; other seeds give other weights at first."""
    import tensorflow as tf

    import keras
    from tfos import collective

    rank, size = collective.rank(), collective.size()
    x, y = rows_of(256)
    found = {}
    for name, optimizer in OPTIMIZERS.items():
        model = _model(keras, rank)
        model.compile(
            ctx.distribute(optimizer(keras)), "mse", steps_per_execution=4 if name == "adam" else 1
        )
        # Rows of each global batch of 32 dealt out to the nodes.
        mine = tf.data.Dataset.from_tensor_slices((x, y)).shard(size, rank).batch(32 // size)
        model.fit(mine, epochs=2, verbose=0)
        found[name] = [weight.tolist() for weight in model.get_weights()]
    uneven = _model(keras, rank)
    uneven.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse")
    for part in uneven_parts(x[:106], y[:106], rank):
        uneven.train_on_batch(*part)
    found["uneven"] = [weight.tolist() for weight in uneven.get_weights()]
    path = os.path.join(ctx.args["directory"], f"model-{rank}.keras")
    model.save(path)
    # A model that was loaded goes on with its optimizer's state.
    loaded = keras.models.load_model(path)
    iterations = int(loaded.optimizer.iterations)
    loaded.compile(ctx.distribute(loaded.optimizer), "mse")
    loaded.fit(mine, epochs=1, verbose=0)
    report(
        ctx,
        weights=found,
        saved=type(loaded.optimizer).__name__,
        iterations=iterations,
        iterations_after=int(loaded.optimizer.iterations),
    )


def mixed_precision(ctx):
    """Overflows on one node only, in its third step."""
    import numpy as np

    import keras
    from tfos import collective

    keras.config.set_dtype_policy("mixed_float16")
    model = _model(keras, collective.rank())
    model.compile(ctx.distribute(keras.optimizers.SGD(0.001)), "mse")
    x, y = (0.01 * values for values in rows_of(64))  # Scaled losses stay within float16.
    for step in range(6):
        spoiled = np.full_like(x, np.inf) if (step, collective.rank()) == (2, 1) else x
        model.train_on_batch(spoiled, y)
    report(
        ctx,
        weights=[weight.tolist() for weight in model.get_weights()],
        iterations=int(model.optimizer.iterations),
    )


class Adversaries:
    """Two models with an optimizer each, in a custom loop."""

    def __init__(self, ctx, keras, rank):
        self.models = [_model(keras, seed + 10 * rank) for seed in (1, 2)]
        self.optimizers = [ctx.distribute(keras.optimizers.Adam(0.01)) for _ in self.models]

    def step(self, x):
        import tensorflow as tf

        maker, judge = self.models
        with tf.GradientTape(persistent=True) as tape:
            made = maker(x)
            judged = judge(tf.tile(made, [1, 8]))
            losses = [tf.reduce_mean(judged), tf.reduce_mean(tf.square(judged - made))]
        for loss, model, optimizer in zip(losses, self.models, self.optimizers, strict=True):
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


def kinds_of_models(ctx):
    """Two optimizers in one step; metrics and statistics that are averaged, and XLA asked for; a model
    without an input shape; gradients of an embedding; legacy Keras."""
    import warnings

    import numpy as np
    import tensorflow as tf
    import tf_keras

    import keras
    from tfos import collective

    rank = collective.rank()
    x, y = (values[rank::2] for values in rows_of(64))
    adversaries = Adversaries(ctx, keras, rank)
    for _ in range(3):
        tf.function(adversaries.step)(tf.constant(x))

    model = keras.Sequential(
        [keras.layers.Input((8,)), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    model.compile(
        ctx.distribute(keras.optimizers.SGD(0.001)), "mse", metrics=["mae"], jit_compile=True
    )
    heard = {}
    listener = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: heard.update(logs))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        history = model.fit(
            x + rank,
            y,
            batch_size=8,
            epochs=2,
            verbose=0,
            callbacks=[ctx.average_metrics(batch_norm=True), listener],
        )
    # Nothing says what goes into it before it trains.
    shapeless = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])
    shapeless.compile(ctx.distribute(keras.optimizers.SGD(0.001)), "mse")
    shapeless.fit(x, y, batch_size=8, epochs=1, verbose=0)
    words = np.arange(4 * rank, 4 * rank + 32).reshape(32, 1) % 50
    embedded = {}
    for name, kind in {"keras": keras, "tf_keras": tf_keras}.items():
        embedded[name] = kind.Sequential(
            [
                kind.layers.Embedding(50, 4),
                kind.layers.GlobalAveragePooling1D(),
                kind.layers.Dense(1),
            ]
        )
        embedded[name].compile(ctx.distribute(kind.optimizers.Adam(0.01, clipnorm=1.0)), "mse")
        embedded[name].fit(words, y, batch_size=8, epochs=2, verbose=0)
    report(
        ctx,
        weights=[
            weight.tolist()
            for each in (*adversaries.models, model, shapeless, *embedded.values())
            for weight in each.get_weights()
        ],
        history=history.history,
        heard=heard,
        warned=[str(warning.message) for warning in warned if "XLA" in str(warning.message)],
    )


def different_shapes(ctx):
    import tensorflow as tf

    from tfos import collective

    collective.all_reduce(tf.zeros([100 + collective.rank()]), name="odd")


def one_dies(ctx):
    import signal

    import tensorflow as tf

    from tfos import collective

    step = 0
    while True:
        collective.all_reduce(tf.zeros([10_000]))
        step += 1
        if step == 50 and collective.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def fed_unevenly(ctx):
    """Nodes get different numbers of rows; each fits what it gets: as most programs do; and with
    padded batches, and then with those that it has, which it keeps."""
    import keras
    from tfos import collective

    model = _model(keras, collective.rank())
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse")
    history = model.fit(
        ctx.dataset(8, features="x", label="y"), verbose=0, callbacks=[ctx.average_metrics()]
    )
    found = {
        "fit": {
            "history": history.history,
            "weights": [weight.tolist() for weight in model.get_weights()],
        }
    }
    for remainder in ("pad", "join"):
        model = _model(keras, collective.rank())
        model.compile(
            ctx.distribute(keras.optimizers.Adam(0.01)),
            keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"),
        )
        batches = []

        def keep(x, y, mask=None, batches=batches):
            real = slice(None) if mask is None else mask.numpy() > 0
            batches.append([x.numpy()[real].tolist(), y.numpy()[real].tolist()])
            return (x, y) if mask is None else (x, y, mask)

        dataset = ctx.dataset(8, features="x", label="y", remainder=remainder)
        for batch in dataset:
            model.train_on_batch(*keep(*batch))
        found[remainder] = {
            "batches": batches,
            "weights": [weight.tolist() for weight in model.get_weights()],
        }
    report(ctx, **found)


def train_on_batches(keras, batches):
    """The weights of one machine that trains with these batches as ``fed_unevenly`` does."""
    import numpy as np

    model = _model(keras, 0)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    for x, y in batches:
        model.train_on_batch(np.asarray(x, np.float32), np.asarray(y, np.float32))
    return model.get_weights()
