"""``TFParallel.run``: independent single-node instances, over ``tfos.parallel``."""

from __future__ import annotations

from tfos import parallel
from tfos.errors import TfosError

from . import TFSparkNode


def run(sc, map_fn, tf_args, num_executors, use_barrier=True):
    """Runs ``map_fn(tf_args, ctx)`` in ``num_executors`` Spark tasks; returns what each returned.

    ``tf_args.num_gpus``, if there is one, is how many GPUs each instance gets.
    """
    try:
        return parallel.run(
            sc,
            _InstanceProgram(map_fn, tf_args),
            instances=num_executors,
            gpu_count=getattr(tf_args, "num_gpus", None),
            barrier=use_barrier,
        )
    except TfosError as error:
        if "barrier=False" in str(error):
            error.add_note("TFParallel.run calls this argument use_barrier.")
        raise


class _InstanceProgram:
    def __init__(self, map_fn, tf_args):
        self._map_fn = map_fn
        self._tf_args = tf_args

    def __call__(self, instance):
        TFSparkNode.use_argv(self._tf_args)
        ctx = TFSparkNode.TFNodeContext(
            executor_id=instance.index,
            job_name="worker",
            task_index=instance.index,
            defaultFS=instance.default_fs,
            working_dir=instance.working_dir,
        )
        ctx.num_workers = instance.count
        ctx.gpus = list(instance.gpus)
        return self._map_fn(self._tf_args, ctx)
