"""Checks that a program prints what examples/README.md shows of its output, except for numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from support import pages
from support.places import ROOT

_PAGE = ROOT / "examples" / "README.md"
_BLOCK = re.compile(r"^(?P<paragraph>\S.*)\n\n```text\n(?P<lines>(?:.*\n)+?)```$", re.MULTILINE)
_RULE_OF_A_TABLE = re.compile(r"\+[-+]+")
#: What differs from run to run: hosts, paths, quoted words, numbers.
_VARYING = {
    "host": r"(?<= on )[\w.-]+(?=\))",
    "path": r"(?:file:|hdfs:)?/\S+",
    "word": r"'[^']*'",
    "number": r"[-+]?\d[\d,.]*(?:E-?\d+)?",
}


def shown(program: str) -> list[str]:
    """The lines below a paragraph of the page whose first code is the program."""
    for block in _BLOCK.finditer(_PAGE.read_text()):
        if re.match(rf"[^`]*`{re.escape(program)}[ `]", block["paragraph"]):
            return block["lines"].splitlines()
    raise AssertionError(f"{pages.name(_PAGE)} shows no output of {program}")


def assert_as_shown(program: str, printed: str) -> None:
    """The lines that the page shows are among the printed ones, in this order."""
    rest = printed.splitlines()
    previous = ""
    for line, pattern in _patterns(shown(program)):
        # A shorter run has fewer lines of a kind.
        if pattern == previous:
            continue
        previous = pattern
        found = [at for at, other in enumerate(rest) if re.fullmatch(pattern, other)]
        assert found, f"{program} printed no such line as {line!r}, but this:\n{printed}"
        del rest[: found[0] + 1]


def _patterns(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(line, what a printed line must match). "..." stands for lines that the page leaves out, and
    nothing is asked of the rows of a table."""
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if _RULE_OF_A_TABLE.fullmatch(line):
            yield line, _RULE_OF_A_TABLE.pattern
        elif not line.startswith("|"):
            if line != "...":
                yield line, _pattern(line)
        elif all(map(_RULE_OF_A_TABLE.fullmatch, (before, after))):
            names = (re.escape(name.strip()) for name in line.strip("|").split("|"))
            yield line, rf"\|{''.join(rf' *{name} *[|]' for name in names)}"
        else:
            yield line, r"\|.*"


def _pattern(line: str) -> str:
    varying = re.compile("|".join(f"(?P<{kind}>{kinds})" for kind, kinds in _VARYING.items()))
    pattern, end = "", 0
    for match in varying.finditer(line):
        pattern += re.escape(line[end : match.start()]) + _VARYING[match.lastgroup or ""]
        end = match.end()
    return pattern + re.escape(line[end:])
