"""Command lines that look as those of the executable: argparse with its help, and more types."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tfos.base.printable import printable


def complain(command: str, problem: object) -> None:
    """Says on standard error why the command fails. What it names may come from a file of others:
    control characters, which a terminal obeys, are spaces; lines stay."""
    text = "\n".join(map(printable, str(problem).split("\n")))
    print(f"tfos {command}: {text}", file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """Its help reads as that of the commands in C++: what it does, then the usage."""

    def __init__(self, **keywords: Any):
        super().__init__(formatter_class=_Help, add_help=False, **keywords)
        self.add_argument("-h", "--help", action="help", help="print this help message and exit")

    def format_help(self) -> str:
        said, self.description = self.description, None
        try:
            text = super().format_help()
        finally:
            self.description = said
        return f"{said}\n{text}"


class _Help(argparse.HelpFormatter):
    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        names = {"positional arguments": "positionals"}  # Python's own heading
        super().start_section(_capital(heading and names.get(heading, heading)))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-n, --rows ROWS``, as from Python 3.13 on: older ones repeat the value."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return _capital(action.help)


def _capital(text: str | None) -> str | None:
    return text and text[0].upper() + text[1:]


def at_least(least: int) -> Callable[[str], int]:
    """Reads a whole number of at least so much."""

    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text}; it must be at least {least}")
        return number

    read.__name__ = "whole number"  # argparse says so where it is none
    return read
