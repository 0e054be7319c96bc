"""What the nodes of equality.py run: they train, write down each step, and are killed in some."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import threading
import time

import equality_steps as steps
import numpy as np

#: Between two looks for a node that comes again.
LOOK_SECONDS = 0.02
#: Undisturbed steps after the last failure. Another cluster makes them, too.
STEPS_AFTER = 2 * steps.STEPS_OF_AN_EPOCH


class Journal:
    """Writes the steps of a node to a file of its own, as soon as they have ended. What is written
    is there although the process is killed: the kernel has it."""

    def __init__(self, directory, rank, optimizer):
        self._path = pathlib.Path(directory, f"journal-{rank}")
        self._optimizer = optimizer
        if self._path.exists():  # A life before may have ended in the middle of a line.
            whole, end, _ = self._path.read_text().rpartition("\n")
            self._path.write_text(whole + end)
        self._before = None

    def begin(self):
        """Before a step."""
        self._before = (int(self._optimizer.iterations), steps.momentum_of(self._optimizer))

    def end(self, step, model):
        """After a step; its batches, by rank. None if the node has not made it, but reads past
        it."""
        iterations, momentum = self._before
        if int(self._optimizer.iterations) == iterations:
            return None
        batches = steps.attendance_of(momentum, steps.momentum_of(self._optimizer))
        line = {
            "step": step,
            "iterations": int(self._optimizer.iterations),
            "batches": batches,
            "digest": steps.digest_of(steps.variables_of(model, self._optimizer)),
        }
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return batches


class Failures:
    """Kills this node where the plan says so: one node at a time, each of them once the one before
    trains again. All nodes see the same files."""

    def __init__(self, ctx):
        self._rank, self._size = ctx.rank, ctx.size
        self._plan = ctx.args["plan"]
        self._directory = pathlib.Path(ctx.args["directory"])
        self._begun = self._count("begun")
        self._is_newcomer = self._begun > 0 and self._plan[self._begun - 1]["victim"] == ctx.rank
        #: Steps since the last failure: of all nodes, and without the one that was killed.
        self._whole = self._alone = 0
        self._began_at = None
        self._seconds = 0.0

    def say_it_joins(self):
        """Before the training begins."""
        if self._is_newcomer:
            self._write("joins", self._begun - 1)

    def before_step(self):
        begun = self._count("begun")
        if begun > self._begun:
            self._begun, self._whole, self._alone = begun, 0, 0
        self._wait_for_the_last_one()
        if self._is_next():
            failure = self._plan[self._begun]
            self._write("begun", self._begun)
            self._begun += 1
            delay = failure["moment"] * self._seconds
            threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        self._began_at = time.monotonic()

    def after_step(self, batches):
        self._seconds = time.monotonic() - self._began_at
        if self._is_newcomer:
            self._is_newcomer = False
            self._write("back", self._begun - 1)
        if batches.count(0) > steps.NODES - self._size:
            self._alone, self._whole = self._alone + 1, 0
        elif self._count("back") == self._begun:
            self._whole += 1

    def are_over(self):
        """And all nodes have trained together for an epoch since."""
        return self._begun == len(self._plan) and self._whole >= steps.STEPS_OF_AN_EPOCH

    def _is_next(self):
        return (
            self._begun < len(self._plan)
            and self._plan[self._begun]["victim"] == self._rank
            and self._count("back") == self._begun
            and self._whole >= self._plan[self._begun]["after"]
        )

    def _wait_for_the_last_one(self):
        """Once the others have made their steps without it. Else they would make hundreds."""
        if self._alone == 0 or self._alone < self._plan[self._begun - 1]["alone"]:
            return
        while not self._path("joins", self._begun - 1).exists():
            time.sleep(LOOK_SECONDS)

    def _path(self, what, number):
        return self._directory / f"{what}-{number}"

    def _write(self, what, number):
        self._path(what, number).touch()

    def _count(self, what):
        return len(list(self._directory.glob(f"{what}-*")))


class Program:
    """What both loops have in common. ``begin`` of the arguments: the state to begin with, on the
    chief, the step that it was saved after, and the last step."""

    def __init__(self, ctx, optimizer):
        self.directory = pathlib.Path(ctx.args["directory"])
        with (self.directory / f"lives-{ctx.rank}").open("a") as file:
            file.write(f"{os.getpid()}\n")
        self._rank = ctx.rank
        # Nodes begin with weights of their own, and then take the chief's.
        self.model, self.optimizer = steps.model_of(ctx.args["units"], ctx.rank), optimizer
        optimizer.build(self.model.trainable_variables)
        self.model.compile(optimizer, "mse")
        begin = ctx.args.get("begin") or {"state": None, "step": 0, "last": None}
        self.first, self.last = begin["step"], begin["last"]
        if begin["state"] and ctx.is_chief:
            values = np.load(begin["state"])
            variables = [*self.model.weights, *optimizer.variables]
            for variable, name in zip(variables, values, strict=True):
                variable.assign(values[name])
        self.failures = Failures(ctx)
        self.journal = Journal(self.directory, ctx.rank, optimizer)

    def before_step(self):
        self.journal.begin()
        self.failures.before_step()

    def after_step(self, step):
        batches = self.journal.end(step, self.model)
        if batches is not None:
            self.failures.after_step(batches)

    def last_after(self, step):
        """The last step, if all nodes know now that the failures are over; else None. All call it
        after the same step: the files may be other ones for each of them, so they agree."""
        import tensorflow as tf

        from tfos import collective

        if float(collective.all_reduce(tf.constant(float(self.failures.are_over())))) != 1:
            return None
        self.save(f"state-{self._rank}-{step}.npz")
        return step + STEPS_AFTER

    def end(self):
        self.save(f"end-{self._rank}.npz")

    def save(self, name):
        """The state of this node, whole or not at all."""
        part = self.directory / f".{name}"
        np.savez(part, **steps.variables_of(self.model, self.optimizer))
        part.rename(self.directory / name)


def fit(ctx):
    """Runs in every node: `fit`, until all failures of the plan are over."""
    import tensorflow as tf

    import keras

    program = Program(ctx, ctx.distribute(steps.optimizer_of()))
    at = {"epoch": program.first // steps.STEPS_OF_AN_EPOCH}

    def batches():
        for batch in range(1, steps.STEPS_OF_AN_EPOCH + 1):
            yield steps.batch_of(at["epoch"] * steps.STEPS_OF_AN_EPOCH + batch, ctx.rank)

    class Watch(keras.callbacks.Callback):
        last = program.last

        def on_epoch_begin(self, epoch, logs=None):
            at["epoch"] = epoch

        def on_train_batch_begin(self, batch, logs=None):
            program.before_step()

        def on_train_batch_end(self, batch, logs=None):
            program.after_step(at["epoch"] * steps.STEPS_OF_AN_EPOCH + batch + 1)

        def on_epoch_end(self, epoch, logs=None):
            step = (epoch + 1) * steps.STEPS_OF_AN_EPOCH
            if self.last is None:
                self.last = program.last_after(step)
            self.model.stop_training = step == self.last

    dataset = tf.data.Dataset.from_generator(batches, output_signature=steps.kinds_of_batch())
    # Else Keras makes a step to find out that there is no batch, and may count it.
    counted = dataset.apply(tf.data.experimental.assert_cardinality(steps.STEPS_OF_AN_EPOCH))
    program.failures.say_it_joins()
    program.model.fit(
        counted, initial_epoch=at["epoch"], epochs=1_000_000, verbose=0, callbacks=[Watch()]
    )
    program.end()


def state(ctx):
    """Runs in every node: a loop with `tfos.elastic.State`, until these failures are over."""
    import tensorflow as tf

    import tfos

    program = Program(ctx, steps.optimizer_of())
    model, optimizer = program.model, program.optimizer
    gradients_of = steps.gradients_function(model)
    apply = tf.function(lambda means: optimizer.apply(means, model.trainable_variables))
    program.failures.say_it_joins()
    with tfos.elastic.State(
        model=model, optimizer=optimizer, step=program.first, last=program.last
    ) as state:
        while state.step != state.last:
            program.before_step()
            gradients = gradients_of(*steps.batch_of(state.step + 1, ctx.rank))
            apply(tfos.collective.all_reduce(gradients, weight=steps.ROWS[ctx.rank]))
            state.step += 1
            program.after_step(state.step)
            if state.last is None and state.step % steps.STEPS_OF_AN_EPOCH == 0:
                state.last = program.last_after(state.step)
            state.commit()
    program.end()


LOOPS = {"fit": fit, "state": state}
