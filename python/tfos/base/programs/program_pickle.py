"""Pickles functions and classes of a user's program, with the names of their files.

From 3.1.3 on, cloudpickle gives all code that it pickles the file ``<dynamic-code>``. With it,
tracebacks, stacks and profiles of a node would name no file of the program, and show no lines.
``cloudpickle.loads`` reads what this writes, where tfos is installed.
"""

from __future__ import annotations

import collections
import io
import types
from collections.abc import Callable
from typing import IO, Any

import cloudpickle


def dump(value: Any, file: IO[bytes]) -> None:
    """Pickles ``value`` into ``file``."""
    _Pickler(file).dump(value)


def dumps(value: Any) -> bytes:
    """``value``, pickled."""
    content = io.BytesIO()
    dump(value, content)
    return content.getvalue()


def _reduced(code: types.CodeType) -> tuple[Callable[..., types.CodeType], tuple[Any, ...]]:
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return _with_file, (code.co_filename, make, arguments)


def _with_file(
    name: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]
) -> types.CodeType:
    """Code of that file. Code within it is among the arguments, and has its file already."""
    return make(*arguments).replace(co_filename=name)


class _Pickler(cloudpickle.Pickler):
    dispatch_table = collections.ChainMap(
        {types.CodeType: _reduced}, cloudpickle.Pickler.dispatch_table
    )
