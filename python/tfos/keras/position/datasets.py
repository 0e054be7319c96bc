"""Which datasets go through the batches of ``ctx.dataset`` one by one, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfos.keras.callback import Callback

#: What passes each element on: the classes of tf.data that ``map``, ``prefetch`` and
#: ``with_options`` make.
_PASSES_ON = frozenset(
    {"_MapDataset", "_ParallelMapDataset", "_PrefetchDataset", "_OptionsDataset"}
)


def is_step_by_step(model: Any, params: Any, companions: Sequence[Any]) -> bool:
    """Whether each step of a ``fit`` trains on the next batch of the feed, and on nothing else: by
    what Keras has told a callback, and by its companions."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    given = [each.data for each in companions if isinstance(each, Callback)]
    return (
        params.get("steps") is None
        and model.steps_per_execution == 1
        and not getattr(optimizer, "gradient_accumulation_steps", None)
        and is_batch_by_batch(next((data for data in given if data is not None), None))
    )


def is_batch_by_batch(dataset: Any) -> bool:
    """Whether element n of a dataset, as ``fit`` is given it, is made of batch n of ``ctx.dataset``
    and of nothing else. That is not so for one that is shuffled, filtered, repeated, or cut into
    other batches."""
    below = dataset
    # As ``map`` may be told, or all of the dataset.
    if getattr(getattr(dataset, "options", dict)(), "deterministic", True) is False:
        return False
    while not getattr(below, "is_of_tfos_feed", False):
        if type(below).__name__ not in _PASSES_ON:
            return False
        if getattr(below, "_deterministic", "default") == "false":
            return False
        below = getattr(below, "_input_dataset", None)
    return True
