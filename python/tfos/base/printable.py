"""Texts of others, such as nodes and files, for terminals and logs."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """One line, with spaces for control characters, which terminals obey."""
    return _CONTROL.sub(" ", text)
