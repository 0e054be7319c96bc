"""The state of Keras' callbacks that can end a training or change its rate, for a node that joins.
Without it the node would keep its learning rate where the others lower theirs, or train on alone.

Errors: none. Threads: the one that trains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

#: Of Keras 3 and of legacy Keras, by the names of the classes.
_REMEMBERED = {
    "EarlyStopping": ("best", "wait", "best_epoch", "stopped_epoch", "best_weights"),
    "ReduceLROnPlateau": ("best", "wait", "cooldown_counter"),
}

_PACKAGES = ("keras", "tf_keras")

#: By the name of the class: what each callback of it remembers, in their order. Chiefs may have
#: callbacks of other classes than workers.
State = dict[str, list[dict[str, Any]]]


def state_of(callbacks: Iterable[Any]) -> State:
    """That of those among them. It is not a copy."""
    return {
        kind: [
            {name: vars(each)[name] for name in _REMEMBERED[kind] if name in vars(each)}
            for each in those
        ]
        for kind, those in _with_state(callbacks).items()
    }


def adopt(callbacks: Iterable[Any], state: State) -> None:
    """Has them remember what those of another node do."""
    for kind, those in _with_state(callbacks).items():
        for callback, values in zip(those, state.get(kind, ()), strict=False):
            vars(callback).update(values)


def _with_state(callbacks: Iterable[Any]) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for callback in callbacks:
        for kind in type(callback).__mro__:
            if kind.__name__ in _REMEMBERED and kind.__module__.split(".")[0] in _PACKAGES:
                found[kind.__name__].append(callback)
                break
    return found
