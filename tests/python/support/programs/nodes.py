"""Programs that the cluster tests run in nodes. Kept in a module of its own, which nodes import,
as a user's would be."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time

import numpy as np


def collect_rows(ctx):
    """Reads the feed to its end and pickles the rows seen, in order."""
    _collect(ctx, [])


def collect_rows_and_say_when_fed(ctx):
    """The same; a file `fed` is there as soon as the first row is."""
    rows = ctx.feed.next_batch(1)
    pathlib.Path(ctx.args["dir"], "fed").touch()
    _collect(ctx, rows)


def _collect(ctx, rows):
    while not ctx.feed.should_stop():
        rows += ctx.feed.next_batch(ctx.args["batch"])
    path = pathlib.Path(ctx.args["dir"], f"rows-{ctx.node_id}")
    path.with_suffix(".part").write_bytes(pickle.dumps(rows))
    path.with_suffix(".part").rename(path)


def read_nothing_until(ctx):
    """Leaves the feed alone until there is a file."""
    while not os.path.exists(ctx.args["path"]):
        time.sleep(0.01)


def return_rank_the_last_late(ctx):
    """Returns the rank; the last one once there is a file."""
    if ctx.rank == ctx.size - 1:
        read_nothing_until(ctx)
    return ctx.rank


def store_each_row(ctx):
    """Pickles each row into a file of its own, row-0, row-1, ..., as soon as it has it."""
    number = 0
    while not ctx.feed.should_stop():
        for row in ctx.feed.next_batch(1):
            path = pathlib.Path(ctx.args["dir"], f"row-{number}")
            path.with_suffix(".part").write_bytes(pickle.dumps(row))
            path.with_suffix(".part").rename(path)
            number += 1


def echo(ctx):
    """Answers each row with (node, row)."""
    feed = ctx.data_feed(train=False)
    while not feed.should_stop():
        feed.batch_results([(ctx.node_id, row) for row in feed.next_batch(ctx.args["batch"])])


def echo_slowly_with_a_child(ctx):
    """As `read_slowly_with_a_child`, with results."""
    start_children(ctx)
    while not ctx.feed.should_stop():
        ctx.feed.batch_results(ctx.feed.next_batch(1))
        time.sleep(0.01)


def echo_columns(ctx):
    """Answers batches of columns with themselves."""
    feed = ctx.data_feed(train=False, input_mapping=ctx.args["mapping"])
    while not feed.should_stop():
        feed.batch_results(feed.next_batch(ctx.args["batch"]))


def answer(ctx):
    """Answers each batch as the function of ANSWERS does that its first row names."""
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(ctx.args["batch"])
        if rows:
            ctx.feed.batch_results(ANSWERS[rows[0].answer]([int(row.id) for row in rows]))


def _tensors(ids):
    import tensorflow as tf

    return {"number": tf.constant(ids), "text": tf.constant([str(n) for n in ids])}


def _rows(ids):
    from pyspark.sql import Row  # Most nodes go without, which makes their start shorter.

    return [Row(text=str(n), number=n) for n in ids]


def _ragged_tensor(ids):
    import tensorflow as tf

    return {"numbers": tf.ragged.constant([[n] * (n % 3) for n in ids], tf.float32)}


#: What to make of the ids of some rows: the results, in every form that they may have.
ANSWERS = {
    # number long, text string
    "tuples": lambda ids: [(n, str(n)) for n in ids],
    "lists": lambda ids: [[n, str(n)] for n in ids],
    "Rows": _rows,
    "dicts": lambda ids: [{"text": str(n), "number": n} for n in ids],
    "dict of lists": lambda ids: {"number": ids, "text": [str(n) for n in ids]},
    "dict of arrays": lambda ids: {
        "text": np.array([str(n) for n in ids]),
        "number": np.array(ids, np.int16),
    },
    "dict of objects": lambda ids: {
        "text": np.array([str(n).encode() for n in ids], object),
        "number": np.array(ids, "u8"),
    },
    "tensors": _tensors,
    "rows of different kinds": lambda ids: [
        (n, str(n)) if n % 2 else {"number": np.int8(n), "text": str(n)} for n in ids
    ],
    # number long
    "values": lambda ids: ids,
    "NumPy values": lambda ids: [np.int32(n) for n in ids],
    "array": lambda ids: np.array(ids),
    "tuples of one": lambda ids: [(n,) for n in ids],
    "dicts of one": lambda ids: [{"number": n} for n in ids],
    "column of one": lambda ids: {"number": np.array(ids)},
    "generator": lambda ids: (n for n in ids),
    # a double, b double
    "pairs": lambda ids: [(float(n), n / 2) for n in ids],
    "lists of numbers": lambda ids: [[float(n), n / 2] for n in ids],
    "rows of an array": lambda ids: np.array([[n, n / 2] for n in ids], np.float32),
    # numbers array<float>
    "arrays": lambda ids: [np.full(n % 3, n, np.float32) for n in ids],
    "lists of any length": lambda ids: [[float(n)] * (n % 3) for n in ids],
    "lists in a column": lambda ids: {"numbers": [[n] * (n % 3) for n in ids]},
    "ragged tensor": _ragged_tensor,
    # words array<string>
    "lists of words": lambda ids: [[str(n)] * (n % 3) for n in ids],
    "words in tuples": lambda ids: [([str(n)] * (n % 3),) for n in ids],
    "words in a column": lambda ids: {"words": [[str(n)] * (n % 3) for n in ids]},
    # For types: a column `value`.
    "bool": lambda ids: [n % 2 == 0 for n in ids],
    "float": lambda ids: [n / 2 for n in ids],
    "half": lambda ids: np.array(ids, np.float16) / 2,
    "str": lambda ids: [f"\u00fc{n}" for n in ids],
    "bytes": lambda ids: [b"\xff" * n for n in ids],
    "UTF-8": lambda ids: [f"\u00fc{n}".encode() for n in ids],
    "date": lambda ids: [datetime.date(1970, 1, 1) + datetime.timedelta(n) for n in ids],
    "datetime": lambda ids: [EPOCH + datetime.timedelta(seconds=n) for n in ids],
    "aware datetime": lambda ids: [
        EPOCH.replace(tzinfo=datetime.UTC) + datetime.timedelta(seconds=n) for n in ids
    ],
    "datetime64": lambda ids: np.array(ids, "M8[s]"),
    "microseconds": lambda ids: np.array(ids) * 1_000_000,
    "decimal": lambda ids: [decimal.Decimal(n) / 4 for n in ids],
    "now and then None": lambda ids: [n if n % 3 else None for n in ids],
    "None": lambda ids: [None for n in ids],
    "float and None": lambda ids: {"value": [n / 2 if n % 3 else None for n in ids]},
    "lists of str": lambda ids: [[str(n), None] for n in ids],
    "pairs of bytes": lambda ids: np.array([[str(n).encode(), b"x"] for n in ids], object),
    "matrices": lambda ids: np.array(ids, np.float64).reshape(-1, 1, 1) + np.zeros((2, 3)),
    "matrices and None": lambda ids: [np.full((2, 3), n) if n % 3 else None for n in ids],
    "dates in arrays": lambda ids: np.array([[n, n + 1] for n in ids]),
    "one null": lambda ids: [None if n == 7 else n for n in ids],
    "null in an array": lambda ids: [[n, None] for n in ids],
    "large": lambda ids: [1 << 40 for n in ids],
    "huge": lambda ids: [1 << 70 for n in ids],
    "mixed": lambda ids: [n if n % 2 else str(n) for n in ids],
    "complex": lambda ids: np.array(ids, np.complex64),
    "objects": lambda ids: [{n} for n in ids],
    "structs": lambda ids: [{"value": {"a": n}} for n in ids],
    "too many": lambda ids: ids + [0],
}
EPOCH = datetime.datetime(1970, 1, 1)


def fail_at_once(ctx):
    raise ValueError(f"broken on purpose in node {ctx.node_id}")


def fail_with_a_name_that_is_no_text(ctx):
    raise ValueError("can't read " + os.fsdecode(b"/data/caf\xe9"))


def fail_with_a_long_text(ctx):
    raise ValueError("begin" + "x" * (5 << 20) + "end")


def fail_with_closed_streams(ctx):
    sys.stderr.close()
    sys.stdout.close()
    raise ValueError("nothing to print to")


def write_environment(ctx):
    """Writes the environment as it is, as null-terminated bytes."""
    path = pathlib.Path(ctx.args["dir"], f"environment-{ctx.node_id}")
    _write_whole(path, b"".join(k + b"=" + v + b"\0" for k, v in os.environb.items()))


def fail_after_first_batch(ctx):
    feed = ctx.data_feed(train=ctx.args["train"])
    feed.next_batch(1)
    raise ValueError("broken while reading")


def fail_in_the_last_node(ctx):
    """The last node fails after its first row; the others read to the end of their feed."""
    ctx.feed.next_batch(1)
    if ctx.rank == ctx.size - 1:
        raise ValueError("broken in the last node")
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(1)
        time.sleep(0.01)


def fail_after_the_feed(ctx):
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(100)
    raise OSError("broken while exporting")


def take_one_batch_and_stop(ctx):
    ctx.feed.next_batch(10)
    ctx.feed.terminate()


def return_at_once(ctx):
    return None


def return_rank(ctx):
    return ctx.rank


def answer_halves(ctx):
    """Answers each row with four times the column ``half``."""
    while not ctx.feed.should_stop():
        rows = ctx.feed.next_batch(ctx.args["batch"])
        ctx.feed.batch_results([4 * float(row.half) for row in rows])


def read_slowly_with_a_child(ctx):
    """Starts children of its own, says its pids, and reads one row at a time for ever."""
    start_children(ctx)
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(1)
        time.sleep(0.01)


class HangsWhileLoading:
    """A program that its node never gets to call, as when an import of it hangs. The node says its
    pid."""

    def __init__(self, directory):
        self.directory = directory

    def __reduce__(self):
        return hang_while_loading, (self.directory,)

    def __call__(self, ctx):
        raise AssertionError("the node was not to get here")


def hang_while_loading(directory):
    write_pids(directory, os.getpid(), os.getpid())
    signal.pause()


def wait_for_ever_with_a_child(ctx):
    start_children(ctx)
    signal.pause()


def start_children(ctx):
    """Starts one in the node's process group and one that leaves it, and says all pids."""
    child = subprocess.Popen(["sleep", "1000"])
    daemon = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    say_pids(ctx, child.pid, daemon.pid)


def ignore_stop(ctx):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say_pids(ctx)
    signal.pause()
    while True:
        signal.pause()


def say_pids(ctx, *others):
    write_pids(ctx.args["dir"], ctx.node_id, os.getpid(), *others)


def write_gpus(ctx):
    """Its GPUs, as the program and as CUDA see them."""
    found = {
        "gpus": ctx.gpus,
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "fraction": ctx.gpu_fraction,
    }
    _write_whole(
        pathlib.Path(ctx.args, f"{ctx.job_name}-{ctx.task_index}"), json.dumps(found).encode()
    )


def write_pids(directory, name, *pids):
    _write_whole(pathlib.Path(directory, f"pids-{name}"), " ".join(map(str, pids)).encode())


def _write_whole(path, content):
    """For those who wait for the file, by a pattern of its name perhaps: it is there when all of it is."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.rename(path)


def leave_a_row_unanswered(ctx):
    """Answers all rows of a partition but one, and returns."""
    feed = ctx.data_feed(train=False)
    feed.batch_results(feed.next_batch(100)[1:])


def fit_dataset(ctx):
    """Trains on the feed for one pass and notes the rows and steps that it took."""
    import tensorflow as tf

    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    spec = [tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.float32)]
    model.fit(ctx.dataset(8, spec=spec), verbose=0)
    steps = int(model.optimizer.iterations)
    rows = ctx._feed_source.server.counters()["rows"]
    pathlib.Path(ctx.args["dir"], f"fit-{ctx.node_id}").write_bytes(pickle.dumps((rows, steps)))


def read_passes(ctx):
    """Reads passes over the dataset of each queue in turn, and stores the labels of every batch as
    JSON. Padding is left out."""
    import tensorflow as tf

    args = ctx.args
    spec = None
    if args.get("spec"):
        spec = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.int64)}
    datasets = [
        ctx.dataset(args["batch"], queue=queue, remainder=args.get("remainder"), spec=spec)
        for queue in args["queues"]
    ]
    passes = []
    for _ in range(args["passes"]):
        for dataset in datasets:
            passes.append([])
            for element in dataset:
                labels, mask = (
                    (element[0][1], element[1])
                    if (args.get("remainder") == "pad")
                    else (element[1], None)
                )
                labels = labels.numpy()
                if mask is not None:
                    assert len(labels) == args["batch"]
                    labels = labels[mask.numpy() > 0]
                passes[-1].append(labels.tolist())
    path = pathlib.Path(ctx.args["dir"], f"passes-{ctx.node_id}")
    path.write_text(json.dumps(passes))


def train_in_step(ctx):
    """Trains with a strategy that waits for all nodes in every step; stores the steps of each epoch
    and the weights as JSON."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    padded = ctx.args["remainder"] == "pad"
    dataset = strategy.distribute_datasets_from_function(
        lambda _context: ctx.dataset(4, label="y", remainder=ctx.args["remainder"]).prefetch(2)
    )
    with strategy.scope():
        weights = tf.Variable(tf.zeros([2]))

    def gradient(x, y, mask):
        with tf.GradientTape() as tape:
            error = tf.linalg.matvec(x, weights) - tf.cast(y, tf.float32)
            loss = tf.reduce_sum(mask * error**2)
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, tape.gradient(loss, weights))
        weights.assign_sub(1e-6 * total)

    @tf.function
    def step(batch):
        x, y, *mask = batch
        strategy.run(gradient, args=(x, y, mask[0] if padded else tf.ones([4])))

    steps = []
    for _ in range(ctx.args["epochs"]):
        steps.append(0)
        for batch in dataset:
            step(batch)
            steps[-1] += 1
    path = pathlib.Path(ctx.args["dir"], f"fit-{ctx.node_id}")
    path.write_text(json.dumps({"steps": steps, "weights": weights.numpy().tolist()}))


def save_once_a_node_leaves(ctx):
    """Writes who leaves, and why, as soon as it hears of it. Then it waits to be ended."""
    while not ctx.leaving:
        time.sleep(0.01)
    said = {str(number): why for number, why in ctx.leaving.items()}
    _write_whole(pathlib.Path(ctx.args["dir"], f"saved-{ctx.node_id}"), json.dumps(said).encode())
    signal.pause()
