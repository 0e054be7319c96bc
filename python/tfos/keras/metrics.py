"""The callback that averages metrics over nodes: what is behind ``ctx.average_metrics``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfos import collective
from tfos.errors import BadInputError
from tfos.keras.callback import Callback
from tfos.keras.skipping import is_skipping

_TRAINING, _VALIDATION = "", "val_"  # Which names in the logs begin with.


class AverageMetrics(Callback):
    """Replaces the metrics at the end of an epoch by those of the rows of all training nodes, which
    must come to the end of as many epochs.

    A metric's variables are sums over rows: they are added up over the nodes, and the metric's
    result is that of one machine with the rows of all. Where a variable says that it isn't a sum
    (``add_variable(aggregation=)``), it becomes the mean of the nodes, by rows. So does what the
    logs have besides the model's metrics, such as what a ``train_step`` returns of its last batch.
    A node without a batch counts for nothing, and gets what the others have.

    Args:
        batch_norm: average the moving statistics of the model's BatchNormalization layers, too, in
            which nodes count alike, as they take as many steps each.
    """

    #: Its hooks for batches need no values: Keras 3 need not wait for them, nor need legacy Keras.
    async_safe = True
    _supports_tf_logs = True

    def __init__(self, batch_norm: bool):
        self._batch_norm = batch_norm
        self._found: dict[str, _Found] = {}
        self._has_batch = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._found = {}
        self._has_batch = False

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._has_batch = self._has_batch or not is_skipping(self.model)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Validation begins by forgetting what training has counted.
        self._found[_TRAINING] = _found_by(self.model, self._has_batch)
        self._has_batch = False

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._has_batch = True

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        self._found[_VALIDATION] = _found_by(self.model, self._has_batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        if _TRAINING not in self._found:
            self._found[_TRAINING] = _found_by(self.model, self._has_batch)
        own = {part: self._logged(part, logs) for part in self._found}
        nodes = _gather(
            {part: found.description(own[part], part) for part, found in self._found.items()}
        )
        for part in (_TRAINING, _VALIDATION):
            described = [node[part] for node in nodes if part in node]
            if described:
                plan = _plan(described, everywhere=len(described) == len(nodes))
                logs.update(self._averaged(part, plan, own.get(part, {})))
        statistics = self._statistics() if self._batch_norm else []
        if statistics:
            means = collective.all_reduce(
                [tf.convert_to_tensor(moving) for moving in statistics], name="moving statistics"
            )
            for moving, mean in zip(statistics, means, strict=True):
                moving.assign(mean)

    def _logged(self, part: str, logs: dict[str, Any]) -> dict[str, np.ndarray]:
        """What the logs have of this part of the epoch. Without a batch that means nothing."""
        if not self._found[part].weight:
            return {}
        validates = _VALIDATION in self._found
        return {
            name: np.asarray(value, np.float64)
            for name, value in logs.items()
            if (validates and name.startswith(_VALIDATION)) == (part == _VALIDATION)
        }

    def _averaged(self, part: str, plan: _Plan, own: dict[str, np.ndarray]) -> dict[str, Any]:
        found = self._found.get(part, _NOTHING)
        weight = np.asarray(found.weight)
        nothing = np.zeros(())
        sums = collective.all_reduce(
            {
                "weight": weight,
                "states": [
                    # Whatever a metric begins with, of a node without a batch it counts nothing.
                    (state if weight else np.zeros_like(state)) * (1.0 if is_sum else weight)
                    for state, (is_sum, _) in zip(found.states, plan.states, strict=True)
                ]
                if plan.states
                else [],
                "weights": [weight if name in own else nothing for name in plan.averaged],
                "values": [
                    weight * own[name] if name in own else np.zeros(plan.shapes[name])
                    for name in plan.averaged
                ],
            },
            "sum",
            name=f"metrics {', '.join(plan.shapes)}",
        )
        total = np.asarray(sums["weight"])
        means = {
            name: np.divide(value, of, out=np.full(value.shape, np.nan), where=np.asarray(of) > 0)
            for name, value, of in zip(
                plan.averaged, map(np.asarray, sums["values"]), sums["weights"], strict=True
            )
        }
        results: dict[str, np.ndarray] = {}
        if plan.states and total > 0:
            states = [
                np.asarray(state) / (1.0 if is_sum else total)
                for state, (is_sum, _) in zip(sums["states"], plan.states, strict=True)
            ]
            with _holding(_variables_of(self.model), states):
                results = {part + name: value for name, value in _results_of(self.model).items()}
        return {
            name: _plain(
                means[name] if name in means else results.get(name, np.full(shape, np.nan))
            )
            for name, shape in plan.shapes.items()
        }

    def _statistics(self) -> list[Any]:
        return [
            moving
            for layer in self.model._flatten_layers()
            if hasattr(layer, "moving_mean") and hasattr(layer, "moving_variance")
            for moving in (layer.moving_mean, layer.moving_variance)
        ]


class _Found(NamedTuple):
    """What a node found in the training of an epoch, or in its validation.

    Attributes:
        weight: of this node in means: its rows, or 1 where no metric counts them; 0 without a
            batch.
        kinds: of each of the metrics' variables, whether it is a sum, and its shape; None where
            they don't say all that the results do.
        states: their values.
        results: of the metrics, by name.
    """

    weight: float
    kinds: list[tuple[bool, list[int]]] | None
    states: list[np.ndarray]
    results: dict[str, np.ndarray]

    def description(self, own: dict[str, np.ndarray], part: str) -> dict[str, Any]:
        """For the other nodes, as JSON. ``own``: what the logs have."""
        return {
            "kinds": self.kinds,
            "values": {
                name: [value.shape, self._is_result(name.removeprefix(part), value)]
                for name, value in sorted(own.items())
            },
        }

    def _is_result(self, name: str, value: np.ndarray) -> bool:
        """Whether a value is that of the metric, and not one that a step has returned."""
        result = self.results.get(name)
        return (
            result is not None
            and result.shape == value.shape
            and np.allclose(result.astype(np.float64), value, rtol=1e-5, atol=0, equal_nan=True)
        )


_NOTHING = _Found(0.0, None, [], {})


class _Plan(NamedTuple):
    """What the nodes do with a part of an epoch, the same on all of them.

    Attributes:
        shapes: of what the logs are to have, by name.
        averaged: the names of which the values are averaged, and not what they are results of.
        states: whether each of the metrics' variables is a sum, and its shape; none where the
            nodes' differ.
    """

    shapes: dict[str, list[int]]
    averaged: list[str]
    states: list[Any]


def _plan(nodes: Sequence[dict[str, Any]], *, everywhere: bool) -> _Plan:
    """Of what nodes tell. ``everywhere``: all of them do. Raises BadInputError if the shapes of a
    metric differ."""
    kinds = nodes[0]["kinds"]
    alike = everywhere and all(node["kinds"] == kinds for node in nodes)
    shapes: dict[str, list[int]] = {}
    averaged = set()
    for node in nodes:
        for name, (shape, is_result) in node["values"].items():
            if shapes.setdefault(name, shape) != shape:
                raise BadInputError(
                    f"the metric {name} has the shape {tuple(shapes[name])} on one node, and "
                    f"{tuple(shape)} on another"
                )
            if not (alike and kinds and is_result):
                averaged.add(name)
    return _Plan(shapes, sorted(averaged), kinds if alike and kinds else [])


def _gather(own: dict[str, Any]) -> list[dict[str, Any]]:
    """What all nodes tell."""
    text = np.frombuffer(json.dumps(own).encode() + b"\n", np.uint8)
    every = collective.all_gather(text, name="which metrics there are")
    return [json.loads(line) for line in np.asarray(every).tobytes().splitlines()]


def _found_by(model: Any, has_batch: bool) -> _Found:
    variables = _variables_of(model)
    # One that has none keeps what it counts elsewhere.
    complete = all(metric.variables for metric in _flat_metrics_of(model))
    return _Found(
        weight=_rows_of(model) if has_batch else 0.0,
        kinds=[(_is_sum(each), [*map(int, each.shape)]) for each in variables]
        if complete
        else None,
        states=[_copy_of(each).astype(np.float64) for each in variables],
        # Without a batch, they may not have what they count in.
        results=_results_of(model) if has_batch else {},
    )


def _variables_of(model: Any) -> list[Any]:
    return [variable for metric in model.metrics for variable in metric.variables]


def _flat_metrics_of(model: Any) -> list[Any]:
    # Keras 3 has metrics of several; legacy Keras' have an empty list, being layers.
    return [
        each for metric in model.metrics for each in getattr(metric, "metrics", None) or [metric]
    ]


def _rows_of(model: Any) -> float:
    """How many rows the model's loss is the mean of; 1 where no metric keeps the loss."""
    loss = next((metric for metric in model.metrics if metric.name == "loss"), None)
    return float(np.asarray(getattr(loss, "count", 0))) or 1.0


def _is_sum(variable: Any) -> bool:
    # Keras 3 has a word for it, TensorFlow's variables one of an enumeration.
    aggregation = getattr(variable, "aggregation", "sum")
    return str(getattr(aggregation, "name", aggregation)).lower() == "sum"


@contextmanager
def _holding(variables: Sequence[Any], values: Sequence[np.ndarray]) -> Iterator[None]:
    """Gives variables these values for as long as it lasts."""
    before = [_copy_of(variable) for variable in variables]
    _assign(variables, values)
    try:
        yield
    finally:
        _assign(variables, before)


def _copy_of(variable: Any) -> np.ndarray:
    return np.asarray(variable).copy()  # What TensorFlow gives may be its own memory.


def _assign(variables: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value.astype(tf.as_dtype(variable.dtype).as_numpy_dtype))


def _results_of(model: Any) -> dict[str, np.ndarray]:
    return _flat(model.get_metrics_result())


def _flat(results: dict[str, Any]) -> dict[str, np.ndarray]:
    """As Keras has them in the logs, where the values of a metric stand among the others."""
    flat: dict[str, np.ndarray] = {}
    for name, value in results.items():
        flat.update(_flat(value) if isinstance(value, dict) else {name: np.asarray(value)})
    return flat


def _plain(value: np.ndarray) -> Any:
    """As Keras has it in the logs: a number, where it is a single one."""
    return float(value.item()) if value.size == 1 else value
