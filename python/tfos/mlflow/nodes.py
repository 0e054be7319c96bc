"""What the metrics of a cluster's nodes become in a run of MLflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tfos.keras.rates import Rates
from tfos.mlflow.writer import Point, name_for_mlflow

#: A process that has ended has none of it, which does not belong to its curve.
_OF_A_PROCESS = frozenset({"rss_bytes"})


class NodeMeter:
    """Makes points of what is known of nodes. Threads: one at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._begun = clock()
        self._nodes: dict[str, Rates] = {}

    def look(self, nodes: Iterable[Mapping[str, Any]]) -> list[Point]:
        """``nodes``: as in docs/formats/control-protocol.md, with their ``metrics``. Those of which
        nothing is new have no point."""
        now = self._clock()
        points = []
        for node in nodes:
            name = f"{node['job_name']}_{node['task_index']}"
            step = node["metrics"].get("step", 0)
            number = max(0, int(step)) if isinstance(step, (int, float)) else 0
            rates = self._nodes.setdefault(name, Rates(self._begun))
            points += [
                Point(name_for_mlflow(metric, f"{name}/"), value, number)
                for metric, value in rates.look(node["metrics"], now).items()
                if value or metric not in _OF_A_PROCESS
            ]
        return points
