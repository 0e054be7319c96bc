"""Has Keras 3 take the batches of ``ctx.batches``: ``model.fit(ctx.batches(128, label="y"))``.

Keras knows arrays, the loaders of TensorFlow, PyTorch and Grain, and generators, which it can read
for one epoch only. Its adapter for those is what this makes one for batches of.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from tfos.base import import_hook
from tfos.errors import BadInputError

_ADAPTERS = "keras.src.trainers.data_adapters"
#: A look takes the steps of one execution, and a few more.
_MOST_LOOKED_AT = 64


@functools.cache
def prepare(kind: type) -> None:
    """For objects of ``kind``. Does not import Keras: it may come later."""
    import_hook.call_after_import(_ADAPTERS, functools.partial(_add_adapter, kind))


def _add_adapter(kind: type) -> None:
    adapters: Any = sys.modules[_ADAPTERS]
    plain = getattr(adapters, "get_data_adapter", None)
    if plain is None:
        return  # An older Keras 3, which says itself that it doesn't know the type.

    class BatchesAdapter(adapters.GeneratorDataAdapter):
        """Before Keras begins it may look at the first batches, and some more where a device is
        given them ahead. It reads them again then."""

        def __init__(self, batches: Any):
            # Imports the adapters itself, so it can't be imported with them.
            from keras.src.trainers.epoch_iterator import EpochIterator

            self._batches = batches
            #: Older ones don't say when they have looked enough.
            self._says_when_it_begins = hasattr(EpochIterator, "reset")
            self._looked_at: list[Any] = []
            self._looks = True
            #: Whether the look came to the end of the epoch.
            self._saw_end = False
            self._again: list[Any] = []

        def generator(self) -> Iterator[Any]:
            """One epoch."""
            if self._looks and self._looked_at:
                self._begin()
            while self._again:
                yield self._again.pop(0)
            if self._saw_end:
                self._saw_end = False
                return
            for batch in self._batches:
                if not isinstance(batch, tuple):
                    batch = (batch,)
                if self._looks:
                    self._looked_at.append(batch)
                    if len(self._looked_at) > _MOST_LOOKED_AT:
                        self._looks, self._looked_at = False, []
                yield batch
            self._saw_end = self._looks and self._says_when_it_begins
            if not self._saw_end:
                self._looks, self._looked_at = False, []

        def on_epoch_end(self) -> None:
            """An epoch has ended, or Keras has looked enough."""
            super().on_epoch_end()
            if self._looks and self._says_when_it_begins:
                self._begin()

        def _begin(self) -> None:
            self._looks = False
            self._again, self._looked_at = self._looked_at, []

        def get_tf_dataset(self) -> Any:
            raise BadInputError(
                "with Keras' TensorFlow backend, fit takes ctx.dataset instead of ctx.batches"
            )

    @functools.wraps(plain)
    def get_data_adapter(
        x: Any, y: Any = None, sample_weight: Any = None, *args: Any, **options: Any
    ) -> Any:
        if not isinstance(x, kind):
            return plain(x, y, sample_weight, *args, **options)
        if any(given is not None for given in (y, sample_weight, options.get("class_weight"))):
            raise BadInputError(
                "Keras takes features, labels and weights from ctx.batches: name them there "
                "(label=), and pass no y, sample_weight or class_weight"
            )
        return BatchesAdapter(x)

    adapters.get_data_adapter = get_data_adapter
