"""Programs that people look into with `tfos status` and its like."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import signal
import threading
import time


def say_lines_and_wait(ctx):
    """Prints lines; then what each file `say-N` holds as it comes, until there is a file `end`."""
    folder = pathlib.Path(ctx.args["dir"])
    for number in range(200):
        print(f"line {number} of {ctx.job_name}:{ctx.task_index}", flush=True)
    (folder / f"said-{ctx.node_id}").touch()
    said = 0
    while not (folder / "end").exists():
        if (more := folder / f"say-{said}").exists():
            print(more.read_text(), flush=True)
            said += 1
        time.sleep(0.01)
    print("the last words", flush=True)


def read_rows_and_say_so(ctx):
    """Reads the feed to its end, however that comes, and leaves a file then."""
    folder = pathlib.Path(ctx.args["dir"])
    rows = 0
    while not ctx.feed.should_stop():
        rows += len(ctx.feed.next_batch(10))
        if rows:
            (folder / f"reads-{ctx.node_id}").touch()
    (folder / f"saved-{ctx.node_id}").write_text(str(rows))


class Gate:
    """Holds the first node in its fourth step, and the others in their third, until they have heard
    that the cluster is being stopped. So the first one begins a step that the others do not."""

    def __init__(self, ctx):
        self._ctx = ctx
        self._folder = pathlib.Path(ctx.args["dir"])
        self._last = 4 if ctx.rank == 0 else 3
        self.steps = 0

    def pass_step(self):
        self.steps += 1
        if self.steps == 3:
            (self._folder / f"trains-{self._ctx.node_id}").touch()
        while self.steps >= self._last and not self._ctx.feed.should_stop():
            time.sleep(0.01)

    def save(self, **values):
        text = json.dumps({"steps": self.steps, **values})
        (self._folder / f"saved-{self._ctx.node_id}").write_text(text)


def read_batches_slowly(ctx):
    """Steps without other nodes, by the feed's rows or batches of columns."""
    gate = Gate(ctx)
    if ctx.args["kind"] == "rows":
        while not ctx.feed.should_stop():
            if ctx.feed.next_batch(8):
                gate.pass_step()
    else:
        for _ in range(2):  # The second pass is empty.
            for _ in ctx.batches(8):
                gate.pass_step()
    gate.save()


def read_batches_in_step(ctx):
    """Passes of as many steps on all nodes, until one is empty."""
    gate = Gate(ctx)
    before = -1
    passes = 0
    while gate.steps > before:
        before = gate.steps
        passes += 1
        for _ in ctx.batches(8, remainder=ctx.args["remainder"]):
            gate.pass_step()
    gate.save(passes=passes)


def ask_for_the_first_rows(ctx):
    """Which never come."""
    (pathlib.Path(ctx.args["dir"]) / f"waits-{ctx.node_id}").touch()
    ctx.dataset(8)
    raise AssertionError("rows have come")


def fit_and_lose_a_node(ctx):
    """Steps of all nodes together. One is killed in its third step, the first time that it runs."""
    import keras

    folder = pathlib.Path(ctx.args["dir"])
    lost = folder / f"lost-{ctx.node_id}"
    model = keras.Sequential([keras.Input([1], name="x"), keras.layers.Dense(1)])
    optimizer = ctx.distribute(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse")

    class Die(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if ctx.rank == 1 and batch == 2 and not lost.exists():
                lost.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    dataset = ctx.dataset(8, features="x", label="y")
    model.fit(dataset, epochs=10**6, verbose=0, callbacks=[Die()])
    weights = [weight.tolist() for weight in model.get_weights()]
    text = json.dumps({"iterations": int(optimizer.iterations), "weights": weights})
    (folder / f"saved-{ctx.node_id}").write_text(text)


def answer_the_first_rows(ctx):
    """Answers ten rows, and no others before it hears of the end."""
    folder = pathlib.Path(ctx.args["dir"])
    feed = ctx.feed
    while not feed.should_stop():
        rows = feed.next_batch(10)
        feed.batch_results(rows)
        (folder / f"answers-{ctx.node_id}").touch()
        while not feed.should_stop():
            time.sleep(0.01)
    (folder / f"saved-{ctx.node_id}").touch()


def fit_slowly(ctx):
    """Steps of all nodes together."""
    import keras

    gate = Gate(ctx)
    model = keras.Sequential([keras.Input([1], name="x"), keras.layers.Dense(1)])
    model.compile(ctx.distribute(keras.optimizers.SGD(0.1)), "mse")

    class Pass(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            gate.pass_step()

    remainder = ctx.args["kind"].partition(" ")[2] or None
    dataset = ctx.dataset(8, features="x", label="y", remainder=remainder)
    epochs = model.fit(dataset, epochs=1000, verbose=0, callbacks=[Pass()]).epoch
    gate.save(
        epochs=len(epochs),
        iterations=int(model.optimizer.iterations),
        weights=[weight.tolist() for weight in model.get_weights()],
    )


def hang_in_native_code(ctx):
    """Never lets go of Python's lock again, on the main thread, while another one waits for it."""
    waits = threading.Thread(target=wait_in_python, args=(ctx.args["dir"],), name="the-waiter")
    waits.start()
    pathlib.Path(ctx.args["dir"], f"hangs-{ctx.node_id}").touch()
    hang_natively()


def print_and_hang(ctx):
    """Hangs in Python, or as `hang_in_native_code` does on every second node."""
    print(f"{ctx.job_name}:{ctx.task_index} is about to hang", flush=True)
    if ctx.task_index % 2:
        hang_in_native_code(ctx)
    pathlib.Path(ctx.args["dir"], f"hangs-{ctx.node_id}").touch()
    wait_in_python(ctx.args["dir"])


def hang_natively():
    sum(itertools.repeat(0))


def wait_in_python(folder):
    """Until there is a file `end`."""
    while not pathlib.Path(folder, "end").exists():
        time.sleep(0.01)


def compute_hotly(ctx):
    """Spends its time in `hot_function` until there is a file `end`."""
    folder = pathlib.Path(ctx.args["dir"])
    for step in itertools.count():
        if (folder / "end").exists():
            return
        hot_function("a value that no profile has")
        ctx.report(step=step)
        (folder / f"computes-{ctx.node_id}").touch()


def hot_function(secret):
    # Far longer than the 5 ms after which a thread must give Python's lock away: samples would
    # fall on the calls between two rounds, which do so at once.
    total = 0
    for number in range(2_000_000):
        total += number * len(secret)
    return total


def wait_on_the_main_thread(ctx):
    pathlib.Path(ctx.args["dir"], f"waits-{ctx.node_id}").touch()
    wait_in_python(ctx.args["dir"])


def multiply_matrices(ctx):
    """Until there is a file `end`, with the same result each time."""
    import tensorflow as tf

    folder = pathlib.Path(ctx.args["dir"])
    matrix = tf.random.stateless_normal((300, 300), (1, 2))
    first = tf.matmul(matrix, matrix).numpy()
    (folder / f"computes-{ctx.node_id}").touch()
    while not (folder / "end").exists():
        for _ in range(100):
            product = tf.matmul(matrix, matrix)
        assert abs(product.numpy() - first).max() < 1e-3
    (folder / f"ended-{ctx.node_id}").touch()


def fit_on_a_slow_dataset(ctx):
    """Trains until there is a file `end`. Each batch takes far longer than its step, and no Python
    makes it."""
    import tensorflow as tf

    import keras

    folder = pathlib.Path(ctx.args["dir"])

    class UntilTheEnd(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            (folder / f"trains-{ctx.node_id}").touch()
            if (folder / "end").exists():
                self.model.stop_training = True

    def sort_for_long(x, y):
        numbers = tf.random.uniform((300, 300))
        _, numbers = tf.while_loop(
            lambda turn, _: turn < 4,
            lambda turn, all_: (turn + 1, tf.sort(tf.matmul(all_, all_) * 1e-2)),
            (0, numbers),
        )
        return x + 0 * tf.reduce_sum(numbers), y

    dataset = tf.data.Dataset.from_tensors((tf.ones((8, 4)), tf.ones((8, 1)))).repeat()
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(
        dataset.map(sort_for_long),
        steps_per_epoch=1_000_000,
        verbose=0,
        callbacks=[UntilTheEnd()],
    )
