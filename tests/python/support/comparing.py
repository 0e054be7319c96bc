"""Two objects compared as what they are: by type and by value, at any depth."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np


def assert_same(found: Any, expected: Any, *, flags: bool = False) -> None:
    """The two cannot be told apart by type or value. With `flags` neither by whether their arrays can
    be written to."""
    difference = difference_of(found, expected, flags=flags)
    assert not difference, difference


def difference_of(found: Any, expected: Any, *, flags: bool = False, where: str = "") -> str:
    """Where the two differ first, in words; "" when they are the same."""
    place = where or "as a whole"
    if type(found) is not type(expected):
        return (
            f"{place}: found {type(found).__name__} {found!r}, "
            f"expected {type(expected).__name__} {expected!r}"
        )
    if isinstance(found, np.ndarray):
        forms = [
            (array.dtype, array.shape, array.flags.writeable if flags else None)
            for array in (found, expected)
        ]
        if forms[0] != forms[1]:
            return f"{place}: found an array of {forms[0]}, expected one of {forms[1]}"
        if found.dtype == object:
            return difference_of(found.tolist(), expected.tolist(), flags=flags, where=where)
        same = found.tobytes() == expected.tobytes()
    elif isinstance(found, np.generic):
        same = found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    elif isinstance(found, float):
        same = struct.pack("<d", found) == struct.pack("<d", expected)
    elif isinstance(found, dict):
        if list(found) != list(expected):
            return f"{place}: found the keys {list(found)}, expected {list(expected)}"
        return _first(
            difference_of(found[key], expected[key], flags=flags, where=f"{where}[{key!r}]")
            for key in found
        )
    elif isinstance(found, (list, tuple)):
        fields = [getattr(row, "__fields__", None) for row in (found, expected)]
        if fields[0] != fields[1]:
            return f"{place}: found a row of {fields[0]}, expected one of {fields[1]}"
        if len(found) != len(expected):
            return f"{place}: found {len(found)} elements, expected {len(expected)}"
        return _first(
            difference_of(a, b, flags=flags, where=f"{where}[{index}]")
            for index, (a, b) in enumerate(zip(found, expected))
        )
    else:
        same = found == expected
    return "" if same else f"{place}: found {found!r}, expected {expected!r}"


def _first(differences: Any) -> str:
    return next(filter(None, differences), "")


def assert_goes_on(
    resumed: list[dict[str, Any]], undisturbed: list[dict[str, Any]], moment: tuple[int, int]
) -> None:
    """What each node has returned of ``programs.checkpoints.resumable``, where all were killed at
    that moment, is what it would have returned without that, bit for bit. Statistics of layers are
    the first node's."""
    epochs = undisturbed[0]["epochs"]
    assert epochs[0] == 0
    for rank, (ours, theirs) in enumerate(zip(resumed, undisturbed, strict=True)):
        assert theirs["epochs"] == epochs
        assert ours["epochs"] == epochs[moment[0] :]
        same = [np.array_equal(*both) for both in zip(ours["all"], theirs["all"], strict=True)]
        # BatchNormalization's mean and variance of a worker are those of its own rows.
        assert same.count(False) <= (0 if rank == 0 else 2), same
