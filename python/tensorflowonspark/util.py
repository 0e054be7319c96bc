"""Small helpers that old programs import."""

from __future__ import annotations

import os

from tfos import parallel
from tfos.base import network

_EXECUTOR_ID_FILE = "executor_id"


def get_ip_address():
    """The address of this host as others see it."""
    return network.local_address()


def find_in_path(path, file):
    """The first ``file`` in the directories of ``path`` (joined by ``os.pathsep``), or False."""
    candidates = (os.path.join(directory, file) for directory in path.split(os.pathsep))
    return next((found for found in candidates if os.path.isfile(found)), False)


def single_node_env(num_gpus=1, worker_index=-1, nodes=()):
    """Prepares this process for TensorFlow on its own: which GPUs it sees, and ``hdfs://``.

    ``nodes`` are the hosts of all instances, of which this is number ``worker_index``.
    """
    parallel.prepare_process(num_gpus, worker_index, list(nodes))


def write_executor_id(num):
    """Writes the executor's number into the working directory."""
    with open(_EXECUTOR_ID_FILE, "w", encoding="ascii") as file:
        file.write(str(num))


def read_executor_id():
    """The number that ``write_executor_id`` wrote."""
    with open(_EXECUTOR_ID_FILE, encoding="ascii") as file:
        return int(file.read())
