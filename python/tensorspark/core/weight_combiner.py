"""How the server combines its weights with those that a worker pushes.

A ``SparkSession`` only asks a combiner which one it is: the native server combines. ``compute`` is
the same calculation for programs that call it.
"""

from __future__ import annotations

import abc
from typing import Any


class WeightCombiner(abc.ABC):
    """One of the combiners below. There can't be others, as no Python runs in the server."""

    #: What tfos calls it; None here.
    kind: str | None = None

    @abc.abstractmethod
    def compute(
        self, origin_weight: Any, new_weight: Any, worker_id: Any = -1, name: str | None = None
    ) -> Any:
        """The server's weight after a worker has pushed ``new_weight``."""


class MeanWeightCombiner(WeightCombiner):
    """``((num - 1) * server + new) / num``, with as many workers as ``num``."""

    kind = "mean"

    def __init__(self, num: int):
        self.num = num

    def compute(
        self, origin_weight: Any, new_weight: Any, worker_id: Any = -1, name: str | None = None
    ) -> Any:
        return ((self.num - 1) * origin_weight + new_weight) / self.num


class UpdateMeanWeightCombiner(WeightCombiner):
    """``(server + new) / 2``, and the first that is pushed as it is."""

    kind = "update-mean"

    def __init__(self, server: Any = None):
        """``server`` tells ``compute`` the version, as its attribute ``_version``; without one it
        counts its calls for each name."""
        self._server = server
        self._calls: dict[str | None, int] = {}

    def compute(
        self, origin_weight: Any, new_weight: Any, worker_id: Any = -1, name: str | None = None
    ) -> Any:
        version = self._calls.get(name, 0) if self._server is None else self._server._version
        self._calls[name] = version + 1
        return new_weight if version == 0 else (origin_weight + new_weight) / 2


class DeltaWeightCombiner(WeightCombiner):
    """``server + (new - last)``, ``last`` being what the worker has begun from: the server's value
    after its previous push."""

    kind = "delta"

    def __init__(self) -> None:
        self._last: dict[tuple[Any, str | None], Any] = {}

    def compute(
        self, origin_weight: Any, new_weight: Any, worker_id: Any = -1, name: str | None = None
    ) -> Any:
        if worker_id == -1:
            raise ValueError("the combiner of changes must know whose they are: worker_id")
        updated = origin_weight + (new_weight - self._last.get((worker_id, name), 0))
        self._last[worker_id, name] = updated
        return updated

    def reset_value(self) -> None:
        """Forgets what workers have pushed."""
        self._last = {}


#: What the server can do. One that inherits from these calculates otherwise.
COMBINERS = (MeanWeightCombiner, UpdateMeanWeightCombiner, DeltaWeightCombiner)
