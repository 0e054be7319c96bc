"""Programs with ``ctx.checkpoint``; in a module that nodes can import."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import signal
import threading
import warnings

import numpy as np
from pyspark import TaskContext

import tfos
from support.programs.lives import begin_life, kill_after, say_it_joins, wait_for_those_who_join
from support.waiting import wait_for
from tfos.errors import BadInputError

BATCHES, EPOCHS, ROWS = 5, 3, 8
#: Seconds between two checkpoints, of which there is none within an epoch.
NEVER = 1e9
#: Rows of ``numbered_rows``.
NUMBERED = 600


def model_of(seed, units=6):
    """Its random layer has a seed of its own, and its statistics are those of a node."""
    import keras

    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.layers.Input((4,)),
            keras.layers.Dense(units, activation="tanh", name="inner"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dropout(0.3, name="drop"),
            keras.layers.Dense(1, name="outer"),
        ]
    )


def dataset_of(rank=0, batches=BATCHES, read=None):
    """The same batches in each epoch. ``read``: a list that gets the number of each."""
    import tensorflow as tf

    def make():
        random = np.random.default_rng([7, rank])
        for number in range(batches):
            x = random.normal(size=(ROWS, 4)).astype(np.float32)
            if read is not None:
                read.append(number)
            yield x, np.sin(x.sum(axis=1, keepdims=True))

    dataset = tf.data.Dataset.from_generator(
        make,
        output_signature=(
            tf.TensorSpec([None, 4], tf.float32),
            tf.TensorSpec([None, 1], tf.float32),
        ),
    )
    # Else Keras looks for one more, and may count that as a step.
    return dataset.apply(tf.data.experimental.assert_cardinality(batches))


def everything_of(model):
    """All that a checkpoint has."""
    return [np.asarray(one.value.numpy()) for one in [*model.variables, *model.optimizer.variables]]


def after_batch(epoch, batch, act):
    """A callback that acts when so many batches of an epoch, from 1, were trained on."""
    import keras

    class Act(keras.callbacks.Callback):
        epoch = 0

        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_train_batch_end(self, number, logs=None):
            if (self.epoch, number + 1) == (epoch, batch):
                act(self.model)

    return Act()


def wait_for_writer(checkpoints):
    """A callback that has each checkpoint written before the next batch."""
    import keras

    return keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: checkpoints._writer.wait(60),
        on_epoch_end=lambda epoch, logs: checkpoints._writer.wait(60),
    )


def wait_for_checkpoint(directory, epoch, step):
    """Until the newest one is as new."""
    found = None

    def is_there():
        nonlocal found
        # Writers may delete what is looked at.
        with contextlib.suppress(BadInputError, OSError):
            found = tfos.last_checkpoint(directory)
        return found is not None and (found.epoch, found.step) >= (epoch, step)

    wait_for(is_there, lambda: f"a checkpoint of {(epoch, step)}; the newest is {found}")


def stopping_early(ctx, directory, dies):
    """Trains until the loss, which is told, has not become better for two epochs: after epoch 3. With
    ``dies``, all nodes die in epoch 3. Returns the epochs and the best weights of this node."""
    import keras

    def die(model):
        wait_for_checkpoint(directory, 3, 0)
        os.kill(os.getpid(), signal.SIGKILL)

    model = model_of(seed=3)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    losses = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(told=(3, 1, 2, 2, 2, 2)[epoch])
    )
    stopping = keras.callbacks.EarlyStopping(
        "told", mode="min", patience=2, restore_best_weights=True, start_from_epoch=1
    )
    history = model.fit(
        dataset_of(ctx.rank),
        epochs=6,
        verbose=0,
        callbacks=[
            losses,
            stopping,
            ctx.checkpoint(directory),
            *([after_batch(3, 2, die)] if dies else []),
        ],
    )
    return history.epoch, stopping.best_epoch, model.get_weights()


class Unreadable(list):
    """What a dataset reads, for ``dataset_of``, where its first batch can't be read."""

    def append(self, number):
        raise OSError("the batch can't be read")


def resumable(ctx, directory, moment, dies, sharded=False, fail=()):
    """Trains; with ``dies``, all nodes die when the checkpoint of a moment is there. ``fail``: the
    ranks of those that can't read their data."""
    import keras

    def die(model):
        wait_for_checkpoint(directory, *moment)
        os.kill(os.getpid(), signal.SIGKILL)

    begun = []
    model = model_of(seed=3 + ctx.rank)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    begin = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: begun.append(int(model.optimizer.iterations))
    )
    checkpoints = ctx.checkpoint(directory, every_seconds=0, keep=2, sharded=sharded)
    history = model.fit(
        dataset_of(ctx.rank, read=Unreadable() if ctx.rank in fail else None),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[
            begin,
            checkpoints,
            wait_for_writer(checkpoints),
            *([after_batch(*moment, die)] if dies else []),
        ],
    )
    return {"epochs": history.epoch, "begun": begun[0], "all": everything_of(model)}


def of_args(ctx):
    return resumable(ctx, **ctx.args)


def uneven(ctx, directory):
    """Nodes have different numbers of batches. Returns what became of the checkpoints, and all that
    one has."""
    import keras

    model = model_of(seed=3 + ctx.rank)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    kept = ctx.checkpoint(directory, every_seconds=0, keep=2, sharded=True)
    model.fit(
        dataset_of(ctx.rank, BATCHES + 4 * ctx.rank),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[kept, wait_for_writer(kept)],
    )
    return kept._counts, everything_of(model)


def cannot_write_once(ctx, directory):
    """The worker can't write its part of the first checkpoint. Returns what became of them here, and
    the warnings."""
    import keras

    model = model_of(seed=3)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    kept = ctx.checkpoint(directory, sharded=True)
    if ctx.rank == 1:
        plain = kept._directory._write_archive

        def write(*arguments):
            kept._directory._write_archive = plain
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        kept._directory._write_archive = write
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(
            dataset_of(ctx.rank),
            epochs=2,
            verbose=0,
            callbacks=[kept, wait_for_writer(kept)],
        )
    return kept._counts, [str(one.message) for one in caught]


def of_two_steps(ctx, directory):
    """Runs two steps in one call."""
    import keras

    model = model_of(seed=3)
    optimizer = ctx.distribute(keras.optimizers.Adam(0.01))
    model.compile(optimizer, "mse", steps_per_execution=2)
    kept = ctx.checkpoint(directory, every_seconds=0, sharded=True)
    model.fit(dataset_of(ctx.rank), verbose=0, callbacks=[kept])


def with_a_directory_each(ctx, directory):
    """Nodes that do not share a disk."""
    import keras

    model = model_of(seed=3)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    begun = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda *_: pathlib.Path(f"{directory}-begun").touch()
    )
    own = pathlib.Path(directory) / str(ctx.rank)
    model.fit(
        dataset_of(ctx.rank),
        epochs=1,
        verbose=0,
        callbacks=[ctx.checkpoint(own, sharded=True), begun],
    )


def lose_the_chief(ctx):
    """The chief dies in the second epoch. The others wait there for a later checkpoint."""
    import keras

    directory, sharded = ctx.args["directory"], ctx.args.get("sharded", False)
    model = model_of(seed=ctx.rank)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])

    def die(model):
        if ctx.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wait(model):
        wait_for_checkpoint(directory, 1, 3)

    kept = ctx.checkpoint(directory, every_seconds=0, sharded=sharded)
    model.fit(
        dataset_of(ctx.rank, 8),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[
            kept,
            after_batch(1, 2, die),
            # Else a node that still writes could prevent that there are any of these steps.
            *([wait_for_writer(kept)] if sharded else []),
            after_batch(1, 6, wait),
        ],
    )
    return everything_of(model)


def lose_the_chief_after_another(ctx):
    """The last node dies and comes again. Then the chief dies. The others wait in the same epoch
    for a checkpoint after that."""
    import keras
    from tfos import collective

    directory, sharded = ctx.args["directory"], ctx.args.get("sharded", False)
    life = begin_life(ctx)

    class Act(keras.callbacks.Callback):
        complete = lost = None

        def on_train_batch_end(self, batch, logs=None):
            if sharded and (life > 0 or self.lost is not None):
                kept._writer.wait(60)  # Else a node that still writes could prevent all of them.
            if life > 0:
                return
            if batch == 1 and ctx.rank == 2:
                kill_after(0)
            elif batch == 3:
                wait_for_those_who_join(ctx)
            elif batch > 3 and self.complete is None and collective.size() == 3:
                self.complete = batch
                if ctx.rank == 0:
                    kill_after(0)
            elif self.complete is not None and self.lost is None and collective.size() == 2:
                self.lost = batch
            elif self.lost is not None and batch == self.lost + 3:
                wait_for_checkpoint(directory, 0, self.lost + 1)
                if sharded:
                    kept._every = NEVER

        def on_epoch_end(self, epoch, logs=None):
            assert life > 0 or self.lost is not None

    model = model_of(seed=ctx.rank)
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    # If nodes agree, one of them asks for all: the one that knows when to stop asking.
    asks = not sharded or (ctx.rank, life) == (1, 0)
    kept = ctx.checkpoint(directory, every_seconds=0 if asks else NEVER, sharded=sharded)
    say_it_joins(ctx)
    model.fit(dataset_of(ctx.rank, 2000), epochs=1, verbose=0, callbacks=[kept, Act()])
    return life


def rows_to_fit(spark):
    """160 rows for ``fit_what_is_left``."""
    columns = "array(float(id / 160), 1.0F) AS x", "float(id / 80) AS y"
    return spark.range(0, 160, 1, 4).selectExpr(*columns)


def numbered_rows(spark, kind):
    """As many rows as NUMBERED, which hold their number, of which partitions have different
    numbers: a DataFrame ("frame") or an RDD ("rdd")."""
    if kind == "frame":
        sizes = spark.range(0, NUMBERED, 1, 3)
        return sizes.selectExpr("array(float(id), 1.0F) AS x", "float(id / 80) AS y")
    rows = [
        {"x": np.array([number, 1], np.float32), "y": number / 80} for number in range(NUMBERED)
    ]
    return spark.sparkContext.parallelize(rows, 5)


def rows_that_break_off(spark, folder, fails):
    """Likewise, of which one partition has none. When all nodes train on others in the second
    epoch, it ``fails``, or else it waits without end."""
    frame = rows_to_fit(spark)

    def rows_of(batches):
        if TaskContext.get().partitionId() == 3:
            if not fails:
                threading.Event().wait()
            wait_for(lambda: len(list(folder.glob("trains-*"))) == 2, "the second epoch")
            raise RuntimeError("no more rows can be read")
        yield from batches

    return frame.mapInArrow(rows_of, frame.schema)


def fit_what_is_left(ctx):
    """Fits ``epochs`` of the feed, and notes which ones Keras went through and the steps in all.
    ``kill``: a process that this node kills when it begins its second epoch. ``repeat``: how many
    epochs of the feed one of fit reads. ``fit``: more options for Keras. A file ``trains-N`` says
    that this node trains in its second epoch."""
    import tensorflow as tf

    import keras

    args = ctx.args
    # Without rows, as where all epochs are done, nothing else says what the columns are.
    spec = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.float32)}
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])
    kept = ctx.checkpoint()

    def begin(epoch, logs=None):
        if epoch == 1 and args.get("kill"):
            wait_for_checkpoint(args["resume"], 1, 0)
            os.kill(args["kill"], signal.SIGKILL)

    def say(model):
        pathlib.Path(args["notes"], f"trains-{ctx.rank}").touch()

    dataset = ctx.dataset(8, features="x", label="y", spec=spec)
    history = model.fit(
        dataset.repeat(args["repeat"]) if "repeat" in args else dataset,
        epochs=args["epochs"],
        verbose=0,
        callbacks=[
            kept,
            keras.callbacks.LambdaCallback(on_epoch_begin=begin),
            after_batch(1, 1, say),
        ],
        **args.get("fit", {}),
    )
    found = {"epochs": history.epoch, "steps": int(model.optimizer.iterations)}
    pathlib.Path(args["notes"], f"node-{ctx.rank}").write_text(json.dumps(found))


def fit_and_note_rows(ctx):
    """Fits ``epochs`` of ``numbered_rows`` with a checkpoint after each step, and notes what it
    does in a file: a line for each epoch, for each step that it passes over, and for each batch,
    with the numbers of its rows. ``kill``: a process that the first node kills in the second epoch,
    when there is a checkpoint of so many steps: ``after``. -1: it raises an error instead."""
    import tensorflow as tf

    import keras
    from tfos.keras.skipping import is_skipping

    args = ctx.args
    notes = pathlib.Path(args["notes"], f"rows-{args['run']}-{ctx.rank}")

    def note(what):
        with notes.open("a") as file:
            print(json.dumps(what), file=file)

    def note_rows(numbers):
        note(numbers.astype(int).tolist())
        return np.int64(0)

    @tf.function
    def noted(x, y):
        with tf.control_dependencies([tf.numpy_function(note_rows, [x[:, 0]], tf.int64)]):
            return tf.identity(x) / NUMBERED, y

    of_labels = tf.float32 if args["kind"] == "frame" else tf.float64
    spec = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], of_labels)}
    dataset = ctx.dataset(8, features="x", label="y", spec=spec, remainder=args["remainder"])
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.Adam(0.01)), "mse", metrics=["mae"])

    class Act(keras.callbacks.Callback):
        epoch = 0

        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch
            note(f"epoch {epoch}")

        def on_train_batch_end(self, batch, logs=None):
            if is_skipping(self.model):
                note("passed over")
            elif args["kill"] and ctx.rank == 0 and self.epoch == 1 and batch > args["after"] + 3:
                wait_for_checkpoint(args["resume"], 1, args["after"])
                if args["kill"] < 0:
                    raise RuntimeError("in the second epoch")
                os.kill(args["kill"], signal.SIGKILL)
                threading.Event().wait()

    sharded = args.get("sharded", False)
    kept = ctx.checkpoint(every_seconds=0, sharded=sharded)
    history = model.fit(
        dataset.map(noted),
        epochs=args["epochs"],
        verbose=0,
        # Else a node that still writes could prevent all checkpoints that are waited for.
        callbacks=[kept, wait_for_writer(kept), Act()],
    )
    note(history.epoch)


def noted_rows(directory, run, nodes=2):
    """What ``fit_and_note_rows`` has noted: of each node, how many steps of the second epoch it has
    passed over, and then its batches."""
    found = []
    for rank in range(nodes):
        file = pathlib.Path(directory, f"rows-{run}-{rank}")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        epochs = [number for number, line in enumerate(lines) if str(line).startswith("epoch")]
        begin = lines.index("epoch 1") + 1
        end = next((number for number in epochs if number >= begin), len(lines))
        passed_over = lines[begin:end].count("passed over")
        found.append((passed_over, lines[begin + passed_over : end]))
    return found
