"""What a run of the tests holds of tfos: processes, sockets, shared memory."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator

import psutil

from support.places import RUN_ID, RUN_VARIABLE


def held() -> set[str]:
    """What of tfos exists now, as text, one entry each."""
    found = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "tfos" in name}
    names_of_sockets = _abstract_sockets()
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if environment.get(RUN_VARIABLE) != RUN_ID:
                continue
            command = process.cmdline()
            if is_of_tfos(command) or "TFOS_AGENT_FD" in environment:
                found.add(f"process {process.pid}: {' '.join(command)}")
            found |= {
                f"{what} in process {process.pid}: {' '.join(command)}"
                for what in _open_things(process.pid, names_of_sockets)
            }
        except psutil.AccessDenied:
            continue  # Somebody else's, such as a container's first process.
        except (psutil.NoSuchProcess, psutil.ZombieProcess, FileNotFoundError, ProcessLookupError):
            continue  # It ended while being looked at.
    return found


def is_of_tfos(command: list[str]) -> bool:
    """Its executable, or a module of the package that Python runs: `tfos.node`, `tfos.cli.doctor`."""
    is_executable = bool(command) and os.path.basename(command[0]) == "tfos"
    return is_executable or any(re.fullmatch(r"tfos(\.\w+)+", word) for word in command)


def _abstract_sockets() -> dict[str, str]:
    """{inode: name} of the abstract sockets of tfos."""
    lines = pathlib.Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
    fields = [line.split() for line in lines]
    return {row[6]: row[7] for row in fields if len(row) == 8 and row[7].startswith("@tfos")}


def _open_things(pid: int, names_of_sockets: dict[str, str]) -> Iterator[str]:
    """The abstract sockets and the shared memory of tfos that a process has open."""
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except FileNotFoundError:
            continue  # Closed meanwhile.
        if target.startswith("/memfd:tfos"):
            yield target
        elif (inode := target.removeprefix("socket:[").rstrip("]")) in names_of_sockets:
            yield f"socket {names_of_sockets[inode]}"
