"""What is in the project's Markdown: code blocks, hidden code, headings, links."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from support.places import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

_FRAGMENT = re.compile(r"<!-- fragment: (?P<why>\S.*?) -->\s*", re.DOTALL)
_HIDDEN = re.compile(r"<!-- python\n(?P<code>.*?)-->\s*", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Block:
    """Code of a page. `fragment` says why it can't run by itself; "" if it can."""

    page: pathlib.Path
    line: int
    language: str
    code: str
    fragment: str = ""

    def __str__(self) -> str:
        return f"{name(self.page)}:{self.line}"


def name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


def _tokens(page: pathlib.Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def blocks(page: pathlib.Path) -> Iterator[Block]:
    """The page's blocks in their order; those in comments, `<!-- python ... -->`, too."""
    fragment = ""
    for token in _tokens(page):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            marked, hidden = _FRAGMENT.fullmatch(token.content), _HIDDEN.fullmatch(token.content)
            if hidden:
                yield Block(page, line, "python", hidden["code"])
            fragment = marked["why"] if marked else ""
        elif token.type == "fence":
            yield Block(page, line, token.info.strip(), token.content, fragment)
            fragment = ""


def inline_code(page: pathlib.Path) -> Iterator[tuple[int, str]]:
    """(line, code) of what stands between backticks."""
    for token in _tokens(page):
        for child in token.children or []:
            if child.type == "code_inline":
                yield (token.map[0] + 1 if token.map else 0), child.content


def links(page: pathlib.Path) -> Iterator[tuple[int, str]]:
    """(line, target) of links and images."""
    for token in _tokens(page):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target:
                yield (token.map[0] + 1 if token.map else 0), str(target)


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors that GitHub makes of the page's headings."""
    tokens = _tokens(page)
    found: set[str] = set()
    for heading, content in zip(tokens, tokens[1:], strict=False):
        if heading.type != "heading_open":
            continue
        text = "".join(child.content for child in content.children or []).lower()
        kept = "".join(c for c in text if c in " -_" or unicodedata.category(c)[0] in "LN")
        anchor = base = kept.replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{base}-{number}"
        found.add(anchor)
    return found
