"""What estimators of the tests train: functions that nodes import."""

import os
import signal


def build_line(args):
    """A line through points, exactly if it may: y = w x + b."""
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(args.get("rate", 0.3)), "mse")
    return model


def watch_line(ctx):
    """Callbacks of Keras: the chief writes what it sees of each epoch, and the second epoch is the
    last one, as its loss in validation is never small enough."""
    import keras

    def write(epoch, logs):
        with open(ctx.args.args["log"], "a") as file:
            file.write(f"{logs['loss']} {logs['val_loss']}\n")

    return [
        keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=1e9),
        *ctx.chief_only(keras.callbacks.LambdaCallback(on_epoch_end=write)),
    ]


def lose_worker_0(ctx):
    """Callbacks with which that node is killed in the middle of its first epoch."""
    import keras

    def kill(batch, logs):
        if ctx.rank == 0 and batch == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    return [keras.callbacks.LambdaCallback(on_train_batch_begin=kill)]


def train_line(args, ctx):
    """An old program: rows of lists, weights by least squares, a tf.Module that is exported."""
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import compat

    feed = ctx.get_data_feed(input_mapping=args.input_mapping)
    points, targets = [], []
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        assert sorted(batch) == ["target", "x"]
        points += batch["x"]
        targets += batch["target"]
    x = np.column_stack([np.asarray(points), np.ones(len(points))])
    found = np.linalg.lstsq(x, np.asarray(targets), rcond=None)[0]

    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = tf.Variable(found, dtype=tf.float32)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def serve(self, x):
            y = tf.linalg.matvec(x, self.weights[:2]) + self.weights[2]
            return {
                "y": y,
                "twice": 2 * y[:, None],
                "name": tf.strings.as_string(tf.cast(tf.round(y), tf.int32)),
            }

    is_chief = ctx.job_name in ("chief", "master") or ctx.num_workers == 1
    line = Line()
    # Each node has seen some of the points, all of which are on the line.
    if is_chief:
        compat.export_saved_model(line, args.export_dir, is_chief)


def count_rows(args, ctx):
    """Reads its data itself: nothing is fed."""
    assert args.input_mode == 0 and ctx.mgr is None
    if ctx.task_index == 0:
        with open(args.model_dir, "w") as file:
            file.write(f"{args.word} {args.steps}")


def export_word(args):
    with open(args.export_dir, "a") as file:
        file.write(args.word)


def train_module(ctx):
    """A program of its own for ``tfos.ml.Estimator``: the mean of its rows as a model."""
    import numpy as np
    import tensorflow as tf

    assert ctx.args.args == {"add": 1}
    values = [batch.numpy() for batch, _ in ctx.dataset(4, features="x", label="y")]
    rows = sum(map(len, values))

    class Mean(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def serve(self, x):
            return {
                "rows": tf.fill(
                    [tf.shape(x)[0]], tf.constant(rows + ctx.args.args["add"], tf.int64)
                )
            }

    mean = Mean()
    assert np.concatenate(values).shape == (rows, 2)
    tf.saved_model.save(mean, ctx.args.model_dir, signatures=mean.serve)
