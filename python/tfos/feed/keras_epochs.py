"""Has Keras read each epoch of the feed to its end.

Nodes share the rows anew in each epoch, so a node's number of batches is another one each time.
Keras takes the number of the first epoch for that of all. It would end later ones too early, with
rows left unread, and legacy Keras would end the training at an epoch that is shorter.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

from tfos.base import import_hook

#: The module and the class that looks out for the end of an epoch, and where it keeps the number:
#: in Keras 3, in Keras 3 before 3.7, and in legacy Keras.
_READERS = (
    ("keras.src.trainers.epoch_iterator", "EpochIterator", "_num_batches"),
    ("keras.src.backend.tensorflow.trainer", "TFEpochIterator", "_num_batches"),
    ("tf_keras.src.engine.data_adapter", "DataHandler", "_inferred_steps"),
)


@functools.cache
def prepare() -> None:
    """For datasets that don't know how many batches they have; those that do stay as they are.
    Imports neither Keras: it may come later."""
    for module, kind, number in _READERS:
        import_hook.call_after_import(
            module, functools.partial(_forget_number_of, module, kind, number)
        )


def _forget_number_of(module: str, kind: str, number: str) -> None:
    _forget_number(getattr(sys.modules[module], kind), number)


def _forget_number(reader: Any, number: str) -> None:
    plain = vars(reader).get("catch_stop_iteration")
    if plain is None:  # Another class has it, in this version of Keras.
        return

    @functools.wraps(plain)
    @contextlib.contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        known = getattr(self, number)
        with plain(self):
            yield
        setattr(self, number, known)

    reader.catch_stop_iteration = catch_stop_iteration
