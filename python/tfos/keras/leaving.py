"""The callback that saves before a node is lost: what is behind ``ctx.on_leaving``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tfos.keras.callback import Callback
from tfos.keras.variables import synchronize


class SaveBeforeLoss(Callback):
    """Calls ``save(model)`` after the batch during which this node has heard that another node, or
    itself, will be lost: once for each such node, and again if it came back and will be lost again.

    Args:
        save: what is done with the model.
        leaving: the nodes that will be lost, as ``ctx.leaving`` tells them.
    """

    def __init__(self, save: Callable[[Any], Any], leaving: Callable[[], Mapping[int, str]]):
        self._save = save
        self._leaving = leaving
        #: Nodes with the reasons, which name their executors.
        self._known: set[tuple[int, str]] = set()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        leaving = set(self._leaving().items())
        new, self._known = leaving - self._known, leaving
        if new:
            synchronize(self.model)
            self._save(self.model)
