"""The GPUs of this host, and which of them a process takes.

Only ``nvidia-smi`` is asked, so that nothing here loads CUDA or TensorFlow into a Spark worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfos.errors import BadInputError, TfosError

logger = logging.getLogger(__name__)

NVIDIA_SMI = ("nvidia-smi",)
_BUSY_QUERY = ("--query-compute-apps=gpu_uuid", "--format=csv,noheader")
_QUERY = ("--query-gpu=index,uuid,memory.used,memory.total", "--format=csv,noheader,nounits")
_SEEN = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
_TIMEOUT_SECONDS = 30
_LEASE_INTERVAL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Gpu:
    """One GPU of this host. ``index`` is what CUDA_VISIBLE_DEVICES takes; memory is in MiB."""

    index: str
    uuid: str
    memory_used: int
    memory_total: int


@dataclasses.dataclass(frozen=True)
class Leased:
    """GPUs that one process may use. Another process that inherits ``descriptors`` holds them,
    too, until it ends."""

    indices: list[str]
    descriptors: list[int] = dataclasses.field(default_factory=list)


def has_devices(folder: str = "/dev") -> bool:
    """Whether this host seems to have a GPU: without asking the driver, which takes a second."""
    return any(pathlib.Path(folder).glob("nvidia[0-9]*"))


def list_gpus(command: Sequence[str] = NVIDIA_SMI) -> list[Gpu]:
    """Every GPU of this host in the order of its index; none when there is no driver."""
    return [_parse(line) for line in _answer(command, _QUERY)]


def visible_gpus(command: Sequence[str] = NVIDIA_SMI) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES leaves to this process, in its order, as CUDA reads it: the
    list ends at the first word that fits none. A slice of a GPU (MIG) is one by its name, and says
    nothing about its memory. In a Spark task the variable counts as the executor has it."""
    gpus = list_gpus(command)
    variable = variables_of_executor()["CUDA_VISIBLE_DEVICES"]
    if variable is None:
        return gpus
    left = []
    for name in (part.strip() for part in variable.split(",")):
        if name.startswith("MIG-"):  # The driver does not list them.
            left.append(Gpu(name, name, 0, 0))
            continue
        is_uuid = name.startswith("GPU-")
        named = [g for g in gpus if g.index == name or (is_uuid and g.uuid.startswith(name))]
        if not named:
            break
        left.append(named[0])
    return left


def variables_of_executor() -> dict[str, str | None]:
    """The variables that say which GPUs a process sees; None for those that are not set.

    In a Spark task they are the executor's. A task that ran before in the same Python worker, such
    as one of inference, may have set others, and they stay in its ``os.environ``.
    """
    variables: Mapping[str, str] = os.environ
    if _is_in_spark_task():
        # Workers are forks of a daemon: this is what the executor gave to that.
        words = pathlib.Path("/proc/self/environ").read_bytes().split(b"\0")
        variables = dict(os.fsdecode(word).partition("=")[::2] for word in words)
    return {name: variables.get(name) for name in _SEEN}


def _is_in_spark_task() -> bool:
    pyspark = sys.modules.get("pyspark")  # A Spark worker has it.
    return pyspark is not None and pyspark.TaskContext.get() is not None


def list_free_gpus(command: Sequence[str] = NVIDIA_SMI) -> list[Gpu]:
    """Those of the visible ones that no process computes on now, as far as the driver shows
    processes: in a container it shows its own alone."""
    busy = set(_answer(command, _BUSY_QUERY))
    return [gpu for gpu in visible_gpus(command) if gpu.uuid not in busy]


def _answer(command: Sequence[str], query: Sequence[str]) -> list[str]:
    """The lines that the tool prints; none when there is no driver."""
    if shutil.which(command[0]) is None:
        return []
    try:
        found = subprocess.run(
            [*command, *query],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TfosError(
            f"{command[0]} did not answer within {_TIMEOUT_SECONDS} s: this host's GPU driver "
            "hangs, or persistence mode is off (nvidia-smi -pm 1)"
        ) from error
    if found.returncode != 0:
        # The tool without a loaded driver: an image for GPU hosts, on a host without one.
        return []
    return [line.strip() for line in found.stdout.splitlines() if line.strip()]


def pick(
    count: int, worker_index: int = -1, command: Sequence[str] = NVIDIA_SMI, *, free: bool = False
) -> list[str]:
    """The indices of ``count`` GPUs for one of the processes on this host, among those that are
    visible to them.

    With ``worker_index`` >= 0 processes of different indices get disjoint GPUs, as long as there
    are enough for all of them; after that they wrap around. With -1 the least used ones are taken.
    ``free``: only among those that no process computes on. Instances that start one after the other
    leave it False: each would count the GPUs by another list.
    BadInputError says how many there are when they are fewer than ``count``.
    """
    if count <= 0:
        return []
    gpus = visible_gpus(command)
    if free and len(gpus) >= count:
        every, gpus = len(gpus), list_free_gpus(command)
        if len(gpus) < count:
            raise BadInputError(
                f"{count} GPU(s) were asked for, and of this host's {every} only "
                f"{len(gpus)} are free: "
                "processes compute on the others (nvidia-smi shows them)"
            )
    if len(gpus) < count:
        raise BadInputError(
            f"{count} GPU(s) were asked for and this host has {len(gpus)}: ask for fewer per node, "
            "or run on hosts that have them. Where CUDA_VISIBLE_DEVICES is set, others don't count"
        )
    if worker_index < 0:
        gpus.sort(key=lambda gpu: gpu.memory_used)
        return [gpu.index for gpu in gpus[:count]]
    groups = len(gpus) // count
    first = (worker_index % groups) * count
    return [gpu.index for gpu in gpus[first : first + count]]


@contextlib.contextmanager
def leased(
    count: int,
    command: Sequence[str] = NVIDIA_SMI,
    *,
    timeout: float = math.inf,
    assigned: Sequence[str] = (),
    of_executor: Sequence[str] = (),
) -> Iterator[Leased]:
    """``count`` GPUs that no other node or instance of tfos on this host has until
    the block ends. If Spark has ``assigned`` some, those, or others ``of_executor`` in place of
    what is taken.

    Waits while others have them, as for a task slot, and says so once in the log. TfosError after
    ``timeout`` seconds, BadInputError when the host has fewer than ``count``.
    """
    if count <= 0:
        yield Leased([])
        return
    from tfos import _native

    found = _listed_for_spark(command) if assigned else visible_gpus(command)
    gpus = [(gpu.index, gpu.uuid) for gpu in found]
    known = len({*assigned, *of_executor}) if assigned else len(gpus)
    whose = "executor" if assigned else "host"
    waiting = False
    deadline = time.monotonic() + timeout
    while (lease := _native.GpuLease.take(count, gpus, assigned, of_executor)) is None:
        if not waiting:
            logger.warning(
                "waiting for %d of this %s's %d GPU(s): other tfos processes hold them. No "
                "instance waits when a host has no more task slots than GPUs for them "
                "(spark.task.cpus, or "
                "spark.task.resource.gpu.amount)",
                count,
                whose,
                known,
            )
            waiting = True
        if time.monotonic() >= deadline:
            raise TfosError(
                f"{count} of the {known} GPU(s) of {socket.gethostname()} were not free within "
                f"{timeout:g} s (spark.tfos.slots.timeout): other tfos processes hold them, as the "
                "nodes of a cluster do. End these first, ask for fewer instances, or pass "
                "barrier=False"
            )
        time.sleep(_LEASE_INTERVAL_SECONDS)
    try:
        yield Leased(lease.indices, lease.descriptors)
    finally:
        lease.release()


def _listed_for_spark(command: Sequence[str]) -> list[Gpu]:
    """Every GPU of this host, for the UUIDs of those that Spark has assigned. None where the driver
    does not answer: they have names without it."""
    try:
        return list_gpus(command)
    except TfosError as error:
        logger.warning(
            "the instance takes the GPUs that Spark assigned without their UUIDs, and may get one "
            "that another tfos process has: %s",
            error,
        )
        return []


def cap_tensorflow(
    tensorflow: Any, fraction: float, indices: Sequence[str], command: Sequence[str] = NVIDIA_SMI
) -> None:
    """Has this process's TensorFlow take at most ``fraction`` of the memory of its GPUs, which are
    ``indices`` of this host. Before TensorFlow uses them."""
    total = {gpu.index: gpu.memory_total for gpu in list_gpus(command)}
    visible = tensorflow.config.list_physical_devices("GPU")
    for device, index in zip(visible, indices, strict=False):
        if not total.get(index):
            raise TfosError(
                f"GPU {index} does not say how much memory it has, so a node can't take "
                f"{fraction:.0%} "
                "of it (spark.tfos.gpu.fraction): give each node a whole GPU (spark.tfos.gpu.count)"
            )
        limit = tensorflow.config.LogicalDeviceConfiguration(
            memory_limit=int(total[index] * fraction)
        )
        tensorflow.config.set_logical_device_configuration(device, [limit])


def environment(indices: Sequence[str], fraction: float = 0.0) -> dict[str, str]:
    """The variables with which a process sees the GPUs ``indices`` alone, and with which its JAX
    takes at most ``fraction`` of their memory. Before anything uses CUDA."""
    # CUDA counts the fastest GPU first unless it is told to count as nvidia-smi does.
    variables = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(indices),
    }
    if fraction:
        # All versions of JAX know this name. The newer XLA_CLIENT_MEM_FRACTION excludes it.
        variables["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(fraction)
    return variables


def cap_torch(torch: Any, fraction: float) -> None:
    """Has this process's PyTorch take at most ``fraction`` of the memory of each GPU that it sees.
    Starts CUDA where there is a GPU."""
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(fraction, device)


def _parse(line: str) -> Gpu:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        raise TfosError(
            f"nvidia-smi answered a line that is not index, UUID, memory used and in all: {line!r}"
        )
    index, uuid, *memory = fields
    # Some boards report "[N/A]" or "[Not Supported]" for memory; they sort as unused.
    return Gpu(index, uuid, *(int(mib) if mib.isdigit() else 0 for mib in memory))
