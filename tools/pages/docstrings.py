"""Docstrings of Google's style as Markdown."""

from __future__ import annotations

import re
import textwrap

#: What a section lists, by its head. Other heads, such as "Give one of", stay as they are.
_HEADS = {"Args": "Arguments", "Attributes": "Values", "Raises": "Errors"}
#: The head of a section: words, a colon, and indented lines below it.
_SECTION = re.compile(r"(?m)^([A-Z][A-Za-z ]*):\n((?: {4}.*(?:\n|$)|\n(?= {4}))+)")

#: Indented lines below an empty one, which are code and may have empty lines among them, or a
#: paragraph.
_PART = re.compile(
    r"(?m)^ {4}.*\n?(?:^ {4}.*\n?|^\n(?=\n* {4}))*|^(?! {4}).*\S.*\n?(?:^.*\S.*\n?)*"
)


def in_markdown(text: str) -> str:
    """The markup of a docstring's text."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    # Programs read "docs/training.md", and the page is beside it.
    text = re.sub(r"\bdocs/([\w/-]+\.md)\b", r"[\1](\1)", text)
    return text.replace("|", r"\|")


def entries(lines: str) -> list[tuple[str, str]]:
    """(names, meaning) of each entry of a section. A line without a name is a text of its own."""
    found = []
    for entry in re.split(r"(?m)^ {4}(?=\S)", lines)[1:]:
        names, mark, meaning = entry.partition(": ")
        if not mark or not re.fullmatch(r"[\w*., ]+", names):
            names, meaning = "", entry
        found.append((names, in_markdown(" ".join(meaning.split()))))
    return found


def sections(docstring: str) -> dict[str, list[tuple[str, str]]]:
    return {head: entries(lines) for head, lines in _SECTION.findall(docstring)}


def markdown(docstring: str, without: frozenset[str] = frozenset()) -> list[str]:
    """The blocks of a whole docstring: paragraphs, and a list for each section."""
    blocks: list[str] = []
    # Text, and then by turns a head, its lines and the text below them.
    text, *rest = _SECTION.split(docstring)
    blocks += paragraphs(text)
    for head, lines, below in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if head not in without:
            listed = [
                f"- {'`' + '`, `'.join(re.split(', *', names)) + '`: ' if names else ''}{meaning}"
                for names, meaning in entries(lines)
            ]
            blocks += [f"**{_HEADS.get(head, head)}**", "\n".join(listed)]
        blocks += paragraphs(below)
    return blocks


def paragraphs(text: str) -> list[str]:
    """Each on one line, and code as it is; a line that begins with "Threads:" or the like begins
    one."""
    text = re.sub(r"(?m)^(?=(?:Owner and lifetime|Threads|Errors|Units|Returns): )", "\n", text)
    return [
        _code(part) if part.startswith("    ") else in_markdown(" ".join(part.split()))
        for part in _PART.findall(text)
    ]


def _code(part: str) -> str:
    """A program that others can only read: it has no beginning."""
    return f"<!-- fragment: of a docstring -->\n```python\n{textwrap.dedent(part).strip()}\n```"
