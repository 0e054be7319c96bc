"""How a ``fit`` passes over steps that were made before: by nodes that this one joins, or before
the checkpoint that it goes on from. It does so with Keras 3 alone: a model of legacy Keras trains
on these batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfos.keras.variables import kept_rate

#: What a node does then, for people.
OF_A_CHECKPOINT = "passing over steps that a checkpoint has"
OF_OTHERS = "passing over steps that the others have made"


def skip_steps(model: Any, steps: int, *, reads: bool = True, doing: str = OF_A_CHECKPOINT) -> bool:
    """Has the first epoch of ``fit`` read past so many batches, or all that it has here: then
    :func:`skip_no_more` at its end. Callbacks hear of their steps, and count as on the other nodes.
    Their logs mean nothing. Returns whether it can. ``reads``: the data has these batches.
    ``doing``: what it does so long, for people."""
    plain = getattr(model, "train_function", None)
    if plain is None or not hasattr(model, "steps_per_execution"):
        return False
    left = steps
    results = model.get_metrics_result

    def results_so_far() -> Any:
        # Keras makes the metrics of ``compile`` when it trains on a batch.
        compiled = getattr(model, "_compile_metrics", None)
        if compiled is None or compiled.built:
            return results()
        return {each.name: each.result() for each in model.metrics if each is not compiled}

    def train_function(iterator: Any) -> Any:
        nonlocal left
        if left == 0:  # Only now, so that callbacks of the last one that was skipped see that.
            skip_no_more(model)
            return plain(iterator)
        for _ in range(min(left, model.steps_per_execution)):
            if reads:
                next(iterator)
            left -= 1
        return results_so_far()

    train_function.of_keras = plain  # type: ignore[attr-defined]
    train_function.skips = steps, doing  # type: ignore[attr-defined]
    model.train_function = train_function
    model.get_metrics_result = results_so_far  # Keras asks at the end of the epoch, too.
    return True


class RateWithin:
    """The learning rate of a ``fit`` that goes on within an epoch. Callbacks have changed it
    before, as the epoch began and after the steps that are passed over, and must not do so twice.
    A callback behind those of the program hands on what it hears."""

    def __init__(self) -> None:
        self._give_again: Callable[[], None] | None = None
        self._has_begun = False

    def keep(self, model: Any) -> None:
        """That of now, before the epoch begins."""
        self._give_again, self._has_begun = kept_rate(model.optimizer), False

    def begin_epoch(self) -> None:
        if self._has_begun:
            self._give_again = None
        elif self._give_again is not None:
            self._give_again()
        self._has_begun = True

    def end_batch(self, model: Any) -> None:
        if self._give_again is not None and is_skipping(model):
            self._give_again()


def is_skipping(model: Any) -> bool:
    """For callbacks: whether ``fit`` has not trained on the batch that has just ended."""
    return hasattr(getattr(model, "train_function", None), "of_keras")


def note_error(model: Any, error: Exception) -> None:
    """That this ``error`` has ended ``fit``. Where that was passing over steps, the other nodes
    have done without this one meanwhile: see :func:`was_skipping`."""
    if is_skipping(model):
        # Past its own __setattr__: a frozen dataclass takes no attributes.
        vars(error)["ended_skipping"] = True


def was_skipping(error: BaseException | None) -> bool:
    """Whether a ``fit`` was passing over steps when this error ended it, or one that this comes
    of."""
    # An error and its cause may each come of the other: `raise wrapper.__cause__`.
    seen: list[BaseException] = []
    left = [error]
    while left:
        error = left.pop()
        if error is None or any(error is other for other in seen):
            continue
        if getattr(error, "ended_skipping", False):
            return True
        seen.append(error)
        left += [error.__cause__, error.__context__]
    return False


def steps_to_skip(model: Any) -> tuple[int, str]:
    """How many steps the first epoch of ``fit`` passes over, and what that is for people. (0, "")
    where it trains on all batches."""
    skips: tuple[int, str] = getattr(getattr(model, "train_function", None), "skips", (0, ""))
    return skips


def skip_no_more(model: Any) -> None:
    """Has ``fit`` train on all batches from now on. Nothing changes where it does already."""
    plain = getattr(getattr(model, "train_function", None), "of_keras", None)
    if plain is not None:
        model.train_function = plain
        del model.get_metrics_result
