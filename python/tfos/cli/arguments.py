"""Arguments of command lines that argparse has no type for."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least so much."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text}; it must be at least {least}")
        return number

    read.__name__ = "whole number"  # argparse says so where it is none
    return read
