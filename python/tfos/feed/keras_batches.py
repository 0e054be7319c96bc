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
        def __init__(self, batches: Any):
            self._batches = batches
            self._readings = 0
            self._looked_at: list[Any] = []

        def generator(self) -> Iterator[Any]:
            """One epoch. Keras may look at the first batch of all before it begins, and reads it
            again then."""
            self._readings += 1
            first = self._readings == 1
            yield from self._take_looked_at()
            for number, batch in enumerate(self._batches):
                if not isinstance(batch, tuple):
                    batch = (batch,)
                if first:
                    self._looked_at = [batch] if number == 0 else []
                yield batch
            # All were read: Keras did more than look, even if there was one batch alone.
            self._looked_at = []

        def _take_looked_at(self) -> list[Any]:
            looked_at, self._looked_at = self._looked_at, []
            return looked_at

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
