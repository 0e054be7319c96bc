"""Programs that people look into with `tfos status` and its like."""

from __future__ import annotations

import itertools
import pathlib
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
