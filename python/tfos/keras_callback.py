"""A Keras callback that averages over nodes: what is behind ``ctx.average_metrics``."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfos import collective


class AverageMetrics(keras.callbacks.Callback):
    """Replaces the metrics at the end of an epoch by their means over the training nodes, each node
    counting alike; all of them have to have the same metrics and come to the end of as many epochs.

    Args:
        batch_norm: average the moving statistics of the model's BatchNormalization layers, too.
    """

    def __init__(self, batch_norm: bool):
        super().__init__()
        self._batch_norm = batch_norm

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs:
            names = sorted(logs)
            means = collective.all_reduce(
                tf.constant([float(logs[name]) for name in names], tf.float64),
                name=f"metrics {', '.join(names)}")
            logs.update(zip(names, np.asarray(means).tolist(), strict=True))
        statistics = self._statistics() if self._batch_norm else []
        if statistics:
            means = collective.all_reduce([tf.convert_to_tensor(moving) for moving in statistics],
                                          name="moving statistics")
            for moving, mean in zip(statistics, means, strict=True):
                moving.assign(mean)

    def _statistics(self) -> list[Any]:
        return [moving for layer in self.model._flatten_layers()
                if isinstance(layer, keras.layers.BatchNormalization)
                for moving in (layer.moving_mean, layer.moving_variance)]
