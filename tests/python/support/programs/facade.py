"""Programs for TensorFlowOnSpark that the facade's tests run in nodes."""

import json
import os
import sys
import threading
from pathlib import Path


def note(args, ctx, **fields):
    """Leaves what a node saw for the test to read."""
    path = Path(args.notes) / f"{ctx.job_name}-{ctx.task_index}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(fields))
    partial.rename(path)


def describe_node(args, ctx):
    note(
        args,
        ctx,
        executor_id=ctx.executor_id,
        worker_num=ctx.worker_num,
        num_workers=ctx.num_workers,
        cluster_spec=ctx.cluster_spec,
        argv=sys.argv,
        tf_config=os.environ.get("TF_CONFIG"),
        defaultFS=ctx.defaultFS,
        pid=os.getpid(),
        working_dir=ctx.working_dir,
        tmp_socket=ctx.tmp_socket is not None,
    )
    if ctx.job_name in ("ps", "evaluator"):
        threading.Event().wait()


def sum_rows(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while not feed.should_stop():
        rows += feed.next_batch(7)
    note(args, ctx, rows=rows)


def square_rows(args, ctx):
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        feed.batch_results([row * row for row in feed.next_batch(7)])


def fail_in_helper():
    raise ValueError("the learning rate is negative")
