"""Reads sizes, times and ports as people and Spark write them."""

from __future__ import annotations

import math
import re
from numbers import Integral
from typing import Any

from tfos.errors import BadInputError

_PORTS = re.compile(r"\d+(-\d+)?")
_WITH_UNIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([A-Za-z]+)")
#: What each word behind a number stands for, by the unit of the setting.
_UNITS: dict[str, dict[str, float]] = {
    "seconds": {
        "ms": 0.001,
        **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
        **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
        **dict.fromkeys(("h", "hour", "hours"), 3600),
        **dict.fromkeys(("d", "day", "days"), 24 * 3600),
    },
    # Spark's sizes: powers of 1024, with or without the b of "kb".
    "bytes": {
        "b": 1,
        **{
            letter + end: 1024**power
            for power, letter in enumerate("kmgt", 1)
            for end in ("", "b", "ib")
        },
    },
}


def read_number(value: Any, unit: str, *, whole: bool) -> float:
    """A number of ``unit``; a text may name another unit of the same kind, such as 256m of "bytes"
    or 10min of "seconds". ValueError, TypeError or OverflowError where it is none."""
    if isinstance(value, bool):
        raise TypeError(value)
    factor: float = 1
    if isinstance(value, str):
        match = _WITH_UNIT.fullmatch(value.strip())
        if match and match.group(2).lower() in _UNITS.get(unit, {}):
            value, factor = float(match.group(1)), _UNITS[unit][match.group(2).lower()]
        elif whole:
            value = int(value)
    if not whole:
        return float(value) * factor
    number = value * factor
    if int(number) != number:
        raise ValueError(value)
    return int(number)


def whole_number(name: str, value: Any) -> int:
    """A number of things as an int: also one of NumPy's. ``name`` is the argument that it came by.

    Raises :class:`tfos.errors.BadInputError` for all else.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadInputError(f"{name}={value!r}: must be a whole number")
    return int(value)


def seconds(name: str, value: Any) -> float:
    """A time of 0 or more as seconds; a text may name another unit, such as 10min. ``name`` is the
    argument that it came by.

    Raises :class:`tfos.errors.BadInputError` for all else.
    """
    try:
        number = read_number(value, "seconds", whole=False)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not number >= 0:
        raise BadInputError(f"{name}={value!r}: must be seconds, or a text such as '10min'")
    return number


def is_size(text: str) -> bool:
    """Whether Java takes it for a size, as in ``-Xmx256m``."""
    return re.fullmatch(r"\d+[kmgtKMGT]?", text) is not None


def is_port_range(text: str) -> bool:
    """Whether it is a port, or a range of them such as ``5000-5100``."""
    if not _PORTS.fullmatch(text):
        return False
    first, last = port_range(text)
    return first <= last <= 65535


def port_range(text: str) -> tuple[int, int]:
    """The first and the last port of such a text."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)
