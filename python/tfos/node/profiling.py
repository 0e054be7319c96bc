"""What a profile of this node has besides the stacks that the native side samples, for people who
ask with ``tfos profile``.

The native side calls these functions on a thread of its own, at the beginning and the end of each
second that it samples. Nothing here runs before somebody asks.
"""

from __future__ import annotations

import math
import os
import re
import threading
from typing import Any

from tfos.node import collectives
from tfos.node.agent_link import AgentLink
from tfos.node.dataset_waits import DatasetWaits

#: The metrics of a node by which a profile is explained.
_COUNTERS = ("step", "rows", "batches", "feed_node_wait_seconds")
#: The same, of those of collective operations.
_OF_COLLECTIVES = ("collective_seconds", "collective_wait_seconds")
#: What the names of a pool's threads differ by.
_NUMBER = re.compile(r"\d+")
_link: AgentLink | None = None


def serve(link: AgentLink) -> None:
    """From now on people may ask."""
    global _link
    _link = link
    link.native.serve_profiles()


def begin() -> None:
    """A second that is sampled begins."""
    _dataset_waits.begin()


def end() -> None:
    """It is over."""
    _dataset_waits.end()


def thread_names() -> dict[int, str]:
    """What the threads of Python are called, by their identity. Those of a pool have one name."""
    names = {thread.ident: _name(thread.name) for thread in threading.enumerate() if thread.ident}
    main = threading.main_thread().ident
    return names | ({main: "MainThread"} if main else {})


def cpu_seconds() -> dict[str, float]:
    """What CPU time the threads of the process have had, native ones too, by their names."""
    seconds: dict[str, float] = {}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/stat", "rb") as file:
                stat = file.read().decode("utf-8", "replace")
        except OSError:  # It has ended.
            continue
        # TID (NAME) STATE PPID ...; a name may have anything in it.
        name, fields = stat.partition("(")[2].rpartition(")")[::2]
        user, kernel = map(int, fields.split()[11:13])
        name = "MainThread" if int(thread) == os.getpid() else _name(name)
        ticks = (user + kernel) / os.sysconf("SC_CLK_TCK")
        seconds[name] = seconds.get(name, 0.0) + ticks
    return seconds


def counters() -> dict[str, float]:
    """The node's counters at this moment."""
    metrics: dict[str, Any] = _link.metrics() if _link else {}
    read = {name: metrics[name] for name in _COUNTERS if name in metrics}
    of_collectives = collectives.counters()
    read |= {name: of_collectives[name] for name in _OF_COLLECTIVES if name in of_collectives}
    read |= _dataset_waits.counters()
    return {
        name: float(value)
        for name, value in read.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _steps() -> float | None:
    steps = _link.metrics().get("step") if _link else None
    return steps if isinstance(steps, int | float) and math.isfinite(steps) else None


def _name(name: str) -> str:
    return _NUMBER.sub("N", name)


_dataset_waits = DatasetWaits(_steps)
