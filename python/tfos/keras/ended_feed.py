"""Has ``fit`` end when the feed has. Keras would go on through all other epochs without a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfos.keras.callback import Callback, add_to_fit
from tfos.keras.empty_epochs import EpochWatch


def prepare(package: Any, has_ended: Callable[[], bool]) -> None:
    """For the models of ``package``, Keras 3 or legacy Keras. ``has_ended``: whether the program
    has asked the feed for an epoch that does not come."""
    add_to_fit(package, EndedFeed, lambda model: EndedFeed(has_ended), first=True)


class EndedFeed(Callback):
    """Ends ``fit`` after the first epoch without a batch, and hides what Keras logs of that: a loss
    of 0, which others would take for the best.

    Nodes that train in step come to the same empty epoch, so they end together.

    Owner and lifetime: one ``fit``. Threads: the one that trains.
    """

    #: Keras 3 need not wait for the values of each step because of it.
    async_safe = True
    #: Nor need legacy Keras, where TensorFlow's parameter servers allow no other callbacks.
    _supports_tf_logs = True

    def __init__(self, has_ended: Callable[[], bool]):
        self._has_ended = has_ended
        self._watch = EpochWatch()
        self.model: Any = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._watch.begin(self.model)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._watch.add_batch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._watch.is_empty(self.model) and self._has_ended():
            self.model.stop_training = True
            if logs:
                logs.clear()

    def end(self, returned: bool) -> None:
        """``fit`` has ended, however it did."""
