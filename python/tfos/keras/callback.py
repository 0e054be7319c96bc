"""The base class of callbacks for Keras 3 and for legacy Keras."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any


def _ignore(self: Any, *arguments: Any, **options: Any) -> None:
    """A hook that nobody has overridden."""


_ignore._is_default = True  # type: ignore[attr-defined]  # So both find hooks that they need not call for each batch.


def add_to_fit(
    package: Any, kind: type[Callback], make: Callable[[Any], Any], *, first: bool = False
) -> None:
    """Has each ``fit`` of models of ``package``, Keras 3 or legacy Keras, get one more callback,
    the last, or with ``first`` the one after those that lead: ``make(model)``, which is of
    ``kind``. Once for each kind. Its ``end(returned)`` is called when ``fit`` has ended, however it
    did."""

    def joined(others: Any, ours: Any) -> list[Any]:
        others = [each for each in others if not isinstance(each, kind)]
        if not first:
            return [*others, ours]
        leading = [each for each in others if getattr(each, "leads", False)]
        return [*leading, ours, *(each for each in others if each not in leading)]

    trainer = next(each for each in package.Model.__mro__ if "fit" in vars(each))
    plain = trainer.fit
    kinds = getattr(plain, "kinds_of_tfos", ())
    if kind in kinds:
        return
    signature = inspect.signature(plain)

    @functools.wraps(plain)
    def fit(self: Any, *arguments: Any, **options: Any) -> Any:
        given = signature.bind(self, *arguments, **options)
        callbacks = given.arguments.get("callbacks")
        ours = make(self)
        ours.data = given.arguments.get("x")
        if isinstance(callbacks, package.callbacks.CallbackList):
            # It has told its callbacks already what it knows.
            ours.set_params(callbacks.params)
            ours.set_model(self)
            callbacks.callbacks[:] = joined(callbacks.callbacks, ours)
        elif isinstance(callbacks, (list, tuple)):
            given.arguments["callbacks"] = joined(callbacks, ours)
        else:
            given.arguments["callbacks"] = joined([] if callbacks is None else [callbacks], ours)
        returned = False
        try:
            result = plain(*given.args, **given.kwargs)
            returned = True
        finally:
            ours.end(returned)
        return result

    fit.kinds_of_tfos = (*kinds, kind)  # type: ignore[attr-defined]
    trainer.fit = fit


def tell_companions(package: Any) -> None:
    """Has each ``fit`` of models of ``package`` tell callbacks of ours which others it has, as
    their ``companions``. May be called any number of times, even while the arguments of a ``fit``
    are evaluated."""
    kind = package.callbacks.CallbackList
    plain = kind.set_model
    if hasattr(plain, "tells_companions"):
        return

    @functools.wraps(plain)
    def set_model(self: Any, model: Any) -> None:
        for each in self.callbacks:
            if isinstance(each, Callback):
                each.companions = tuple(self.callbacks)
        plain(self, model)

    set_model.tells_companions = True  # type: ignore[attr-defined]
    kind.set_model = set_model


class Callback:
    """A base class that derives from neither Keras' own, as a program may have models of both."""

    #: Those of the program hear of everything later, and those that were added as the first.
    leads = False
    #: What ``fit`` was given to train on, of those that were added to it; None of others.
    data: Any = None
    #: All callbacks of the ``fit``, where :func:`tell_companions` was called before.
    companions: Sequence[Any] = ()

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
