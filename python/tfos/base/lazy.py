"""Public names of packages that are imported when they are first used.

Nodes and feed tasks import packages of which they need one module; what the others import, such as
TensorFlow, would cost each of them seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for ``package``, which has a list ``__all__``.

    ``modules`` says for each public name in which module it is defined. A name that stands for the
    module itself maps to that, as ``errors`` to ``tfos.errors``.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(modules[name])
        return module if modules[name] == f"{package}.{name}" else getattr(module, name)

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names
