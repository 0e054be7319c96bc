"""The state of Keras' callbacks that can end a training, change its rate or swap its weights, and
the best result of those that keep it: for a node that joins, and for a checkpoint. Without it the
node would keep its learning rate where the others lower theirs, or train on alone. A training
that goes on would wait anew before it ends, or take averages of the weights for the weights.

Errors: none. Threads: the one that trains.
"""

from __future__ import annotations

import base64
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: Of Keras 3 and of legacy Keras, by the names of the classes.
_REMEMBERED = {
    "EarlyStopping": ("monitor", "best", "wait", "best_epoch", "stopped_epoch", "best_weights"),
    "ReduceLROnPlateau": ("monitor", "best", "wait", "cooldown_counter"),
    "ModelCheckpoint": ("monitor", "filepath", "best"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
}
#: What tells a callback from another one of its class.
_WHICH = ("monitor", "filepath")
#: Of these, what belongs to the model and to files as they are, in the middle of an epoch, too.
_OF_NOW = ("ModelCheckpoint", "SwapEMAWeights")

_PACKAGES = ("keras", "tf_keras")

#: By the name of the class: what each callback of it remembers, in their order. Chiefs may have
#: callbacks of other classes than workers.
State = dict[str, list[dict[str, Any]]]


def state_of(callbacks: Iterable[Any]) -> State:
    """That of those among them. Callbacks replace what is in it and change none of it, so it stays
    as it is."""
    return {
        kind: [
            {name: vars(each)[name] for name in _REMEMBERED[kind] if name in vars(each)}
            for each in those
        ]
        for kind, those in _with_state(callbacks).items()
    }


def kinds_of(callbacks: Iterable[Any]) -> list[str]:
    """The classes of those among them that have such a state."""
    return list(_with_state(callbacks))


def state_within(callbacks: Iterable[Any], begun: State) -> State:
    """That of a training that begins the epoch at hand once more, or goes on within it. ``begun``:
    that of when the epoch began."""
    now = state_of(callbacks)
    return begun | {kind: now[kind] for kind in _OF_NOW if kind in now}


def adopt(callbacks: Iterable[Any], state: State) -> None:
    """Has them remember what those of another node do, or did. One that watches something else now,
    or writes elsewhere, begins anew."""
    for kind, those in _with_state(callbacks).items():
        for callback, values in zip(those, state.get(kind, ()), strict=False):
            if all(values.get(name) == getattr(callback, name, None) for name in _WHICH):
                vars(callback).update(values)


def has_ended_training(callbacks: Iterable[Any]) -> bool:
    """Whether one of them had ended the training when its state was saved, which it has by
    :func:`adopt`. A callback that has more patience now lets it go on."""
    stopping = _with_state(callbacks)["EarlyStopping"]
    return any(each.stopped_epoch > 0 and each.wait >= each.patience for each in stopping)


def _as_base64(array: np.ndarray) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(file.getvalue()).decode()


def _of_base64(text: str) -> np.ndarray:
    array: np.ndarray = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return array


def encoded(value: Any, keep: Callable[[np.ndarray], str] = _as_base64) -> bytes:
    """As JSON: lists, dicts with texts as keys, and in them numbers, texts, None and arrays.

    ``keep`` returns the text that stands for an array, of a type that NumPy's files have. By
    default that is the array itself, as a ``.npy`` file in Base64.
    """
    return json.dumps(value, default=lambda one: _as_text(one, keep)).encode()


def decoded(text: bytes, find: Callable[[str], np.ndarray] = _of_base64) -> Any:
    """What was given to :func:`encoded`. ``find`` returns the array that a text of ``keep`` stands
    for. Raises ValueError for other texts."""
    return json.loads(text, object_hook=lambda given: _as_array(given, find))


_ARRAY, _TYPE = "array of NumPy", "type"


def _as_text(value: Any, keep: Callable[[np.ndarray], str]) -> dict[str, str]:
    """An array or a number of NumPy's, for JSON: a pickle could run what its author wants."""
    array, text = np.asarray(value), {}
    if array.dtype.isbuiltin != 1:  # Such as bfloat16, which is not NumPy's own.
        text[_TYPE] = array.dtype.name
        array = array.view(f"u{array.itemsize}")
    return {_ARRAY: keep(array), **text}


def _as_array(given: dict[str, Any], find: Callable[[str], np.ndarray]) -> Any:
    if _ARRAY not in given:
        return given
    array = find(given[_ARRAY])
    if _TYPE in given:
        import ml_dtypes

        array = array.view(getattr(ml_dtypes, given[_TYPE]))
    return array if array.ndim else array.item()


def _with_state(callbacks: Iterable[Any]) -> dict[str, list[Any]]:
    found = defaultdict(list)
    for callback in callbacks:
        for kind in type(callback).__mro__:
            if kind.__name__ in _REMEMBERED and kind.__module__.split(".")[0] in _PACKAGES:
                found[kind.__name__].append(callback)
                break
    return found
