"""Graphs of TF1-style sessions: their elements by name, and values for their variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def element(graph: Any, name: str) -> Any:
    """The tensor or operation of that name; a tensor also by the name of its operation."""
    found = graph.as_graph_element(name)
    return found.outputs[0] if isinstance(found, tf.Operation) and found.outputs else found


def variables_by_name(graph: Any) -> dict[str, Any]:
    """The variables of the graph."""
    with graph.as_default():
        return {
            variable.name: variable
            for variable in (
                *tf1.global_variables(),
                *tf1.local_variables(),
                *tf1.trainable_variables(),
            )
        }


def local_names(graph: Any) -> list[str]:
    """The names of variables that are not global."""
    with graph.as_default():
        shared = {variable.name for variable in tf1.global_variables()}
        return [variable.name for variable in tf1.local_variables() if variable.name not in shared]


def load(session: Any, variables: Sequence[Any], values: Iterable[np.ndarray]) -> None:
    """Gives variables values without adding to the graph."""
    # Variables that were made from one tensor are set one by one: a run feeds it one value.
    runs: list[dict[str, tuple[Any, Any, np.ndarray]]] = []
    for variable, value in zip(variables, values, strict=True):
        given = variable.initializer.inputs[1]
        fitting = next((run for run in runs if given.name not in run), None)
        if fitting is None:
            runs.append(fitting := {})
        fitting[given.name] = variable.initializer, given, value
    for run in runs:
        session.run(
            [operation for operation, _, _ in run.values()],
            {given: value for _, given, value in run.values()},
        )
