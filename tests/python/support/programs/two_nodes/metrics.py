"""Programs of test_keras_callback.py: metrics of nodes; in a module that nodes can import. Their
models do not change in training."""

import importlib

import numpy as np

#: Rows of each node, to train on and to validate with. All batches of a model of several outputs
#: have as many: Keras weighs them alike in the loss of each output.
ROWS, HELD_BACK = {1: (5, 22), 2: (8, 20)}, {1: (9, 2), 2: (12, 4)}


def rows_of(number, seed, outputs=("a",)):
    """Features, labels and sample weights of each output."""
    random = np.random.default_rng(seed)
    return (
        random.random((number, 3), np.float32),
        {name: random.random((number, 1), np.float32) + 1 for name in outputs},
        {name: random.random(number, np.float32) * seed for name in outputs},
    )


def joined(parts):
    """The rows of all nodes, as one machine has them."""
    x, y, weights = zip(*parts, strict=True)
    return (
        np.concatenate(x),
        {name: np.concatenate([each[name] for each in y]) for name in y[0]},
        {name: np.concatenate([each[name] for each in weights]) for name in weights[0]},
    )


def data_of(rank, validates, outputs):
    """What a node trains on and validates with; rank None: one machine."""
    held_back = HELD_BACK[len(outputs)]
    sizes = [ROWS[len(outputs)], held_back if validates == "on all" else (held_back[0], 0)]
    parts = [
        [rows_of(number, seed + 2 * place, outputs) for seed, number in enumerate(each, 1)]
        for place, each in enumerate(sizes)
    ]
    return [joined(each) if rank is None else each[rank] for each in parts]


def model_of(package, outputs):
    keras = importlib.import_module(package)
    keras.utils.set_random_seed(1)
    rows = keras.Input((3,))
    return keras, keras.Model(
        rows,
        {name: keras.layers.Dense(1, name=name, activation="sigmoid")(rows) for name in outputs},
    )


def batches(rows):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(rows).batch(4)


def history_of(model, rows, held_back, callbacks):
    history = model.fit(
        batches(rows),
        epochs=2,
        verbose=0,
        callbacks=callbacks,
        validation_data=batches(held_back),
    )
    return history.history


def logs_of(ctx, package, validates, outputs):
    """With metrics of all kinds; on one machine without a context."""
    rows, held_back = data_of(None if ctx is None else ctx.node_id, validates, outputs)
    keras, model = model_of(package, outputs)
    kinds = keras.metrics
    model.compile(
        keras.optimizers.SGD(0.0),
        dict.fromkeys(outputs, "mse"),
        metrics={
            name: ["mae", kinds.RootMeanSquaredError(name="root"), kinds.R2Score(name="r2")]
            for name in outputs
        },
        weighted_metrics={
            name: ["mape", kinds.Precision(thresholds=0.6, name="precise")] for name in outputs
        },
    )
    return history_of(model, rows, held_back, [ctx.average_metrics()] if ctx else [])


def own_steps(ctx, returned):
    """A step that returns numbers of its own, of which the model has no metrics."""
    import tensorflow as tf

    import keras

    class Own(keras.Sequential):
        def train_step(self, data):
            x, y = data
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
            return {returned: loss}

    model = Own([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0))
    rank = 0 if ctx is None else ctx.node_id
    x = np.full((4, 1), 1 + rank, np.float32)
    callbacks = [ctx.average_metrics()] if ctx else []
    return model.fit(x, 0 * x, batch_size=4, epochs=2, verbose=0, callbacks=callbacks).history


def own_metrics(ctx):
    """A metric whose variable isn't a sum, and one that has none."""
    import tensorflow as tf

    import keras

    class Largest(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="largest")
            self.value = self.add_variable((), "zeros", aggregation="mean", name="value")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.value.assign(tf.maximum(self.value, tf.reduce_max(y_true)))

        def result(self):
            return self.value + 0.0

    class Rank(keras.metrics.Metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            pass

        def result(self):
            return tf.constant(float(ctx.node_id))

    found = {}
    for metric in (Largest(), Rank(name="rank")):
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[metric])
        number = 1 + 2 * ctx.node_id
        x = np.full((number, 1), 8.0 * number, np.float32)
        history = model.fit(x, x, verbose=0, callbacks=[ctx.average_metrics()])
        found[metric.name] = history.history[metric.name]
        found[f"{metric.name} left"] = float(np.asarray(metric.result()))
    return found
