"""The callback that draws a node's feed in TensorBoard: what is behind ``ctx.summaries``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfos.keras.callback import Callback
from tfos.keras.rates import Rates
from tfos.keras.variables import synchronize, whole_value


class Summaries(Callback):
    """Writes the rates of this node's counters as scalars, at most every ``interval`` seconds and
    at the end of each epoch. Their step is that of the optimizer.

    Owner and lifetime: the program; one ``fit`` after the other. Threads: the one that trains.
    Errors: those of TensorFlow's files, as of Keras's own callback.

    directory: of the event files, on any file system of TensorFlow; of this node alone. counters:
    called for the counters of the feed, by the names of docs/metrics.md.
    """

    #: Keras 3 need not wait for the values of each step because of it.
    async_safe = True

    def __init__(
        self,
        directory: str,
        counters: Callable[[], Mapping[str, float]],
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._directory = directory
        self._counters = counters
        self._interval = interval
        self._clock = clock
        self._rates: Rates | None = None
        self._last = -math.inf
        self._step = -1  # Of the last scalars.
        self._writer: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._directory)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        # Not before: callbacks behind this one restore the step when training begins.
        if self._rates is None:
            self._last = self._clock()
            self._rates = Rates(self._last, self._now(), least_seconds=0.0)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._clock() - self._last >= self._interval:
            self._write()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._write()

    def on_train_end(self, logs: Any = None) -> None:
        self._writer.flush()

    def _write(self) -> None:
        now = self._now()
        if self._rates is None or now["step"] == self._step:
            return  # A rate over no step would look like a standstill.
        self._step = now["step"]
        self._last = self._clock()
        with self._writer.as_default():
            for name, value in self._rates.look(now, self._last).items():
                tf.summary.scalar(f"node/{name}", value, step=now["step"])

    def _now(self) -> dict[str, Any]:
        synchronize(self.model)
        return {
            **self._counters(),
            "step": whole_value(self.model.optimizer.iterations),
            "cpu_seconds": time.process_time(),
        }
