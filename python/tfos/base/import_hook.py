"""Something to do when a program imports a module, without importing it for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def call_after_import(
    name: str, action: Callable[[], Any], before: Callable[[], Any] | None = None
) -> None:
    """Calls ``action`` once, when the module ``name`` has been imported: now if it has been.
    ``before``: called when that import begins.

    An error of either is one of the import. Threads: call it before others import the module.
    """
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action, before or (lambda: None)))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the others do, and has its loader call an action at the end. Stays until
    that has happened: programs look for modules that they then do not import."""

    def __init__(self, name: str, action: Callable[[], Any], before: Callable[[], Any]):
        self._name = name
        self._action = action
        self._before = before
        self._asking = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            self._act_after(spec.loader)
        return spec

    def _act_after(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            # A loader may be that of other modules, too: a zip file has one for all.
            acts = self in sys.meta_path and module.__name__ == self._name
            if acts:
                self._before()
            execute(module)
            if acts and self in sys.meta_path:
                sys.meta_path.remove(self)
                self._action()

        # On the object, whose type stays what it is: resources and sources are looked up by that.
        loader.exec_module = execute_and_act
