"""Programs that the cluster tests run in nodes. Kept in a module of its own, which nodes import,
as a user's would be."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time


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


def rows_of(directory):
    """What the programs above have seen: {node id: rows, in order}."""
    return {
        int(path.name.removeprefix("rows-")): pickle.loads(path.read_bytes())
        for path in pathlib.Path(directory).glob("rows-*")
    }


def all_rows_of(directory):
    """The same, node by node."""
    return [row for _, rows in sorted(rows_of(directory).items()) for row in rows]


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


def fail_at_once(ctx):
    raise ValueError(f"broken on purpose in node {ctx.node_id}")


def fail_with_a_name_that_is_no_text(ctx):
    raise ValueError("can't read " + os.fsdecode(b"/data/caf\xe9"))


def fail_in_tags(ctx):
    raise ValueError("<b>no</b> & such column")


def count_steps_until(ctx):
    """Reads a batch a step to the end of the feed, and returns once there is a file."""
    step = 0
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(100)
        step += 1
        ctx.report(step=step, loss=0.25)
    read_nothing_until(ctx)


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


def export_to_a_full_disk(ctx):
    while not ctx.feed.should_stop():
        ctx.feed.next_batch(100)
    pathlib.Path("/dev/full").write_bytes(b"a model")


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


def all_reduce_for_ever_with_a_child(ctx):
    import tensorflow as tf

    from tfos import collective

    start_children(ctx)
    step = 0
    while True:
        collective.all_reduce(tf.ones([1000]))
        ctx.report(step=(step := step + 1))


def sum_until_another_came(ctx):
    """Makes steps until a node was lost and another one has come in its place. Returns how many made
    a step, a number for each change."""
    import tensorflow as tf

    import tfos

    with tfos.elastic.State(sizes=[]) as state:
        while state.sizes[-3:] != [ctx.size, ctx.size - 1, ctx.size]:
            size = int(tfos.collective.all_reduce(tf.ones([1]), "sum")[0])
            if state.sizes[-1:] != [size]:
                state.sizes.append(size)
            ctx.report(size=size)
            state.commit()
    return state.sizes


def push_for_ever_with_a_child(ctx):
    import numpy as np

    start_children(ctx)
    with ctx.parameter_server([np.zeros(1000, np.float32)], sync_interval=1) as server:
        while True:
            server.step()
            ctx.report(step=server.version)


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
        "order": os.environ.get("CUDA_DEVICE_ORDER"),
        "jax": os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION"),
    }
    _write_whole(
        pathlib.Path(ctx.args, f"{ctx.job_name}-{ctx.task_index}"), json.dumps(found).encode()
    )


def import_made_up_torch(ctx):
    """What tfos tells a PyTorch with two GPUs once the program has imported it."""
    directory = pathlib.Path(ctx.args)
    (directory / "torch.py").write_text(
        "class cuda:\n"
        "    shares = {}\n"
        "    device_count = staticmethod(lambda: 2)\n"
        "    set_per_process_memory_fraction = staticmethod(\n"
        "        lambda share, device: cuda.shares.update({device: share}))\n"
    )
    sys.path.insert(0, ctx.args)
    import torch

    return torch.cuda.shares


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


def save_once_a_node_leaves(ctx):
    """Writes who leaves, and why, as soon as it hears of it. Then it waits to be ended."""
    while not ctx.leaving:
        time.sleep(0.01)
    said = {str(number): why for number, why in ctx.leaving.items()}
    _write_whole(pathlib.Path(ctx.args["dir"], f"saved-{ctx.node_id}"), json.dumps(said).encode())
    signal.pause()
