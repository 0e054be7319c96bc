"""The callback that averages metrics over nodes: what is behind ``ctx.average_metrics``."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfos import collective
from tfos.keras.callback import Callback


class AverageMetrics(Callback):
    """Replaces the metrics at the end of an epoch by their means over the training nodes; all of
    them must have the same metrics and come to the end of as many epochs.

    Keras' means (losses, accuracies, errors) weigh by what they are means of on each node: rows, or
    the sum of the sample weights, so they become what one machine would find with the rows of all.
    Other metrics, such as an AUC, weigh by rows: close to that of all rows where the nodes' rows
    are alike. Other values, such as a learning rate, do so, too.

    Args:
        batch_norm: average the moving statistics of the model's BatchNormalization layers, too, in
            which nodes count alike, as they take as many steps each.
    """

    def __init__(self, batch_norm: bool):
        self._batch_norm = batch_norm
        self._weights: dict[str, float] = {}

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._weights = {}

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._note_weights("")  # Validation begins by forgetting what training has counted.

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        self._note_weights("val_")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None and "loss" not in self._weights:
            self._note_weights("")
        if logs is not None and "loss" not in logs and hasattr(self.model, "get_metrics_result"):
            # Keras 3 logs nothing for an epoch without a batch; here it logs what the others do.
            logs.update(
                {
                    name: _plain(np.asarray(value))
                    for name, value in self.model.get_metrics_result().items()
                }
            )
        if logs:
            names = sorted(logs)
            # A metric may be several numbers, such as an F1 score for each class.
            own = [np.asarray(logs[name], np.float64) for name in names]
            sizes = [value.size for value in own]
            weights = np.repeat([self._weight_of(name) for name in names], sizes)
            values = np.concatenate([value.ravel() for value in own])
            # Without weight there is nothing that it could be the mean of.
            weighted = np.where(weights > 0, weights * values, 0.0)
            sums = np.asarray(
                collective.all_reduce(
                    tf.constant([weighted, weights], tf.float64),
                    "sum",
                    name=f"metrics {', '.join(names)}",
                )
            )
            means = np.divide(sums[0], sums[1], out=np.full(len(values), np.nan), where=sums[1] > 0)
            parts = np.split(means, np.cumsum(sizes)[:-1])
            for name, value, part in zip(names, own, parts, strict=True):
                logs[name] = _plain(part.reshape(value.shape))
        statistics = self._statistics() if self._batch_norm else []
        if statistics:
            means = collective.all_reduce(
                [tf.convert_to_tensor(moving) for moving in statistics], name="moving statistics"
            )
            for moving, mean in zip(statistics, means, strict=True):
                moving.assign(mean)

    def _note_weights(self, prefix: str) -> None:
        """Keeps what the model's means are means of, by the names that they have in the logs."""
        # Keras 3 has metrics of several; legacy Keras' have an empty list, being layers.
        flat = [
            each
            for metric in self.model.metrics
            for each in getattr(metric, "metrics", None) or [metric]
        ]
        for metric in flat:
            if hasattr(metric, "total") and hasattr(metric, "count"):
                self._weights[prefix + metric.name] = float(np.asarray(metric.count))

    def _weight_of(self, name: str) -> float:
        loss = "val_loss" if name.startswith("val_") else "loss"
        # The loss is the mean over all rows.
        return self._weights.get(name, self._weights.get(loss, 1.0))

    def _statistics(self) -> list[Any]:
        return [
            moving
            for layer in self.model._flatten_layers()
            if hasattr(layer, "moving_mean") and hasattr(layer, "moving_variance")
            for moving in (layer.moving_mean, layer.moving_variance)
        ]


def _plain(value: np.ndarray) -> Any:
    """As Keras has it in the logs: a number, where it is a single one."""
    return float(value.item()) if value.size == 1 else value
