"""The GPUs of a host, over ``tfos.base.gpu``."""

from __future__ import annotations

from tfos.base import gpu

AS_STRING = "string"
AS_LIST = "list"


def is_gpu_available():
    """Whether this host has a GPU."""
    return bool(gpu.list_gpus())


def get_gpus(num_gpu=1, worker_index=-1, format=AS_STRING):
    """The indices of ``num_gpu`` GPUs that no process computes on, as a comma-separated string or
    as a list. Does not wait: fewer free ones are an error at once."""
    indices = gpu.pick(num_gpu, worker_index, free=True)
    return indices if format == AS_LIST else ",".join(indices)
