"""The base class of callbacks for Keras 3 and for legacy Keras."""

from __future__ import annotations

from typing import Any


def _ignore(self: Any, *arguments: Any, **options: Any) -> None:
    """A hook that nobody has overridden."""


_ignore._is_default = True  # type: ignore[attr-defined]  # So both find hooks that they need not call for each batch.


class Callback:
    """A base class that derives from neither Keras' own, as a program may have models of both."""

    on_train_begin = on_train_end = on_epoch_begin = on_epoch_end = _ignore
    on_test_begin = on_test_end = on_predict_begin = on_predict_end = _ignore
    on_batch_begin = on_batch_end = on_train_batch_begin = on_train_batch_end = _ignore
    on_test_batch_begin = on_test_batch_end = _ignore
    on_predict_batch_begin = on_predict_batch_end = _ignore

    def set_model(self, model: Any) -> None:
        self.model = model

    def set_params(self, params: Any) -> None:
        self.params = params

    def _implements_train_batch_hooks(self) -> bool:
        """Legacy Keras asks for this and the next two."""
        return self._overrides("train_batch")

    def _implements_test_batch_hooks(self) -> bool:
        return self._overrides("test_batch")

    def _implements_predict_batch_hooks(self) -> bool:
        return self._overrides("predict_batch")

    def _overrides(self, hooks: str) -> bool:
        return any(
            getattr(type(self), f"on_{hooks}_{when}") is not _ignore for when in ("begin", "end")
        )
