"""Has ``fit`` end when the feed has. Keras would go on through all other epochs without a batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tfos.keras.callback import Callback, add_to_fit
from tfos.keras.empty_epochs import EpochWatch
from tfos.keras.skipping import is_skipping

#: Is told True once the program may report numbers of an epoch without a batch: its callbacks have
#: them, and then the history. Is told False when the next epoch begins, or the next ``fit``.
TellEmpty = Callable[[bool], None]


def prepare(
    package: Any, has_ended: Callable[[], bool], tell_empty: TellEmpty = lambda is_empty: None
) -> None:
    """For the models of ``package``, Keras 3 or legacy Keras. ``has_ended``: whether the program
    has asked the feed for an epoch that does not come."""
    add_to_fit(package, EndedFeed, lambda model: EndedFeed(has_ended, tell_empty), first=True)


class EndedFeed(Callback):
    """Ends ``fit`` after the first epoch without a batch, and has callbacks of the program see NaN
    in place of what Keras logs of it: a loss of 0, which others would take for the best. They see
    NaN, too, of an epoch whose batches were all trained on before the checkpoint.

    Nodes that train in step decide at the end of each epoch, together, so all leave at the same
    one: the feed may have ended with rows of an epoch on some of them alone.

    Owner and lifetime: one ``fit``. Threads: the one that trains.
    """

    #: Keras 3 need not wait for the values of each step because of it.
    async_safe = True
    #: Nor need legacy Keras, where TensorFlow's parameter servers allow no other callbacks.
    _supports_tf_logs = True

    def __init__(
        self, has_ended: Callable[[], bool], tell_empty: TellEmpty = lambda is_empty: None
    ):
        self._has_ended = has_ended
        self._tell_empty = tell_empty
        self._has_batch = False  # in this epoch, and has trained on it
        self._has_passed_over = False  # a step in it
        self._watch = EpochWatch()
        self._names: list[str] = []  # of the logs of an epoch with batches
        self.model: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        self._tell_empty(False)
        if together := self._together():
            together.node_is_over = self._is_over

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._has_passed_over:
            self._tell_empty(False)
        self._has_batch = self._has_passed_over = False
        if is_skipping(self.model):  # Strategies of tf.distribute keep steps that can't be read.
            self._watch.begin(self.model)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if is_skipping(self.model):
            self._has_passed_over = True
        else:
            self._has_batch = True
            self._watch.add_batch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        together = self._together()
        if together.all_are_over if together else self._is_over():
            self.model.stop_training = True
            logs.update(dict.fromkeys([*logs, *self._names], math.nan))
            self._tell_empty(True)
        elif self._has_passed_over and self._watch.is_empty(self.model):
            # All of it was trained on before the checkpoint that this fit goes on from.
            logs.update({name: math.nan for name in logs if not name.startswith("val_")})
            self._tell_empty(True)
        elif self._has_batch:
            self._names = list(logs)

    def end(self, returned: bool) -> None:
        """``fit`` has ended, however it did."""

    def _is_over(self) -> bool:
        """Whether this node had no batch in the epoch, and none will come."""
        return not self._has_batch and self._has_ended()

    def _together(self) -> Any:
        """What joins the optimizer with those of other nodes; None where it trains alone."""
        return getattr(self.model.optimizer, "_together", None)
