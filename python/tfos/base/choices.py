"""What an argument may be, where it is one of a few words."""

from __future__ import annotations

from collections.abc import Iterable

from tfos.errors import BadInputError


def check_choice(subject: str, value: object, choices: Iterable[str]) -> None:
    """Raises :class:`BadInputError`, as :func:`not_a_choice` makes it, unless ``value`` is one of
    ``choices``."""
    names = list(choices)
    if value not in names:
        raise not_a_choice(subject, value, names)


def not_a_choice(
    subject: str, value: object, choices: Iterable[str], hint: str = ""
) -> BadInputError:
    """The error "SUBJECT must be A, B or C, not VALUE"; ``hint`` follows at its end."""
    *others, last = choices
    words = f"{', '.join(others)} or {last}" if others else last
    return BadInputError(f"{subject} must be {words}, not {value!r}{hint}")
