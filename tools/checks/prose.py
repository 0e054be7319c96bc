"""Checks the English of pages, comments, docstrings and messages by tools/checks/prose.toml.

    .venv/bin/python tools/checks/prose.py          # pages must be clean
    .venv/bin/python tools/checks/prose.py FILE...  # every finding in pages or sources
    .venv/bin/python tools/checks/prose.py --code   # every finding in all sources

Exits with 1 where a page breaks a rule, or where sources have more findings than `code_findings`.
A message is a literal of three words or more.
Markdown is read by markdown-it-py, so code, links' targets and comments of HTML are left out, and a
cell of a table is a text by itself.
"""

from __future__ import annotations

import argparse
import ast
import io
import pathlib
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = pathlib.Path(__file__).with_name("prose.toml")

#: Stands for code in a text: one word, in which no pattern is found.
CODE = "CODE"
#: Where a sentence ends: before a capital, code, a bracket or a mark of emphasis.
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z(\"'])|(?<=[.!?])[\"')]\s+(?=[A-Z(\"'])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|al|[A-Z])\.$")
WORD = re.compile(r"[A-Za-z0-9][\w'’%./,-]*")


@dataclass(frozen=True)
class Rules:
    """The contents of prose.toml, with its patterns compiled."""

    longest_sentence: int
    code_findings: int
    pages: list[str]
    sources: list[str]
    of_others: list[str]
    layouts: list[str]
    patterns: list[tuple[str, re.Pattern[str], str]]


def read_rules(path: pathlib.Path = RULES) -> Rules:
    rules = tomllib.loads(path.read_text())
    patterns = [
        (
            pattern["name"],
            re.compile(pattern["regex"], re.IGNORECASE | re.MULTILINE),
            pattern["better"],
        )
        for pattern in rules["pattern"]
    ]
    return Rules(
        rules["longest_sentence"],
        rules["code_findings"],
        rules["pages"],
        rules["sources"],
        rules["of_others"],
        rules["layouts"],
        patterns,
    )


def texts_of_page(markdown: str, cells_too: bool = True) -> Iterator[tuple[int, str, bool]]:
    """(line, text, lengths) of each paragraph, heading, item and cell. Code is `CODE`.
    `lengths` says whether to check its sentences' lengths; for cells only with `cells_too`."""
    line = 1
    lengths = True
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type in ("table_open", "table_close"):
            lengths = cells_too or token.type == "table_close"
        if token.map:
            line = token.map[0] + 1
        if token.type != "inline":
            continue
        parts = []
        for child in token.children or []:
            if child.type == "code_inline":
                parts.append(CODE)
            elif child.type in ("text", "image"):
                parts.append(child.content)
            elif child.type in ("softbreak", "hardbreak"):
                parts.append(" ")
        yield line, "".join(parts), lengths


def texts_of_python(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each docstring, of each literal, and of each run of comments."""
    docstrings: set[int] = set()
    parts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                docstrings.add(node.body[0].lineno)
                yield node.body[0].lineno, re.sub(r"``[^`]*``", CODE, text)
        elif isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
            pieces = [v.value if isinstance(v, ast.Constant) else CODE for v in node.values]
            yield from _message(node.lineno, "".join(map(str, pieces)))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in parts
            and node.lineno not in docstrings
        ):
            yield from _message(node.lineno, node.value)
    comments = [
        (token.start[0], token.string.lstrip("#: "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from _joined(comments)


def texts_of_c_family(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the comments of C++, Java or JavaScript, and of their literals. Runs of lines
    of comments are one text, as are literals that follow one another."""
    lines = []
    literal = r'"(?:\\.|[^"\\\n])*"'
    pattern = re.compile(rf"{literal}(?:\s*\+?\s*{literal})*|//[^\n]*|/\*.*?\*/", re.DOTALL)
    for found in pattern.finditer(source):
        first = source.count("\n", 0, found.start()) + 1
        if found[0].startswith("//"):
            lines.append((first, found[0].lstrip("/!< ")))
        elif found[0].startswith("/*"):
            for number, line in enumerate(found[0][2:-2].splitlines()):
                lines.append((first + number, line.strip(" *")))
        else:
            yield from _message(first, re.sub(r'"\s*\+?\s*"', "", found[0])[1:-1])
    yield from _joined(lines)


def texts_of_shell(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each run of lines that are comments, as of a script, CMake or make."""
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    yield from _joined(
        [(number, line.lstrip("# ")) for number, line in lines if re.match(r"#+ ", line)]
    )


def _message(line: int, literal: str) -> Iterator[tuple[int, str]]:
    """A literal that people read: it has three words or more."""
    if len(literal.split()) > 2:
        yield line, re.sub(r"`[^`]*`", CODE, literal)


#: What reads sources, by the end of their names.
TEXTS = {
    ".py": texts_of_python,
    **dict.fromkeys([".c", ".cc", ".h", ".java", ".js", ".scala"], texts_of_c_family),
}


def _joined(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    begin, last = 0, -1
    parts: list[str] = []
    for number, text in lines:
        if parts and number != last + 1:
            yield begin, " ".join(parts)
            parts = []
        if not parts:
            begin = number
        parts.append(re.sub(r"`[^`]*`", CODE, text))
        last = number
    if parts:
        yield begin, " ".join(parts)


def sentences(text: str) -> list[str]:
    found: list[str] = []
    for part in SENTENCE_END.split(text):
        if found and ABBREVIATION.search(found[-1]):
            found[-1] += " " + part
        else:
            found.append(part)
    return found


def findings(text: str, rules: Rules, lengths: bool) -> Iterator[str]:
    """What is wrong with a text; `lengths`: also sentences that are too long."""
    text = re.sub(r"\s+", " ", text)
    for name, pattern, better in rules.patterns:
        for found in pattern.finditer(text):
            start = max(0, found.start() - 30)
            yield f'"{name}" in "...{text[start : found.end() + 20]}...": {better}'
    if lengths:
        for sentence in sentences(text):
            words = len(WORD.findall(sentence))
            if words > rules.longest_sentence:
                yield f'{words} words (at most {rules.longest_sentence}): "{sentence[:70]}..."'


def check(path: pathlib.Path, rules: Rules) -> list[str]:
    """Lines of findings in a page or source: `file:line: finding`."""
    text = path.read_text()
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    if path.suffix == ".md":
        cells_too = not name.startswith(tuple(rules.layouts))
        found = texts_of_page(text, cells_too)
    else:
        texts = TEXTS.get(path.suffix, texts_of_shell)
        found = ((line, piece, False) for line, piece in texts(text))
    return [
        f"{name}:{line}: {finding}"
        for line, piece, lengths in found
        for finding in findings(piece, rules, lengths)
    ]


def named(patterns: list[str], excluded: Sequence[str] = ()) -> list[pathlib.Path]:
    """The files that `patterns` match and `excluded` does not."""
    left_out = {path for pattern in excluded for path in ROOT.glob(pattern)}
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(found - left_out)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--code", action="store_true", help="show each finding in sources")
    parser.add_argument("files", nargs="*", type=lambda name: pathlib.Path(name).resolve())
    options = parser.parse_args()
    rules = read_rules()

    if options.files:
        found = [line for path in options.files for line in check(path, rules)]
        print("\n".join(found) or "No finding.")
        return 1 if found else 0
    pages = [line for path in named(rules.pages) for line in check(path, rules)]
    code = [line for path in named(rules.sources, rules.of_others) for line in check(path, rules)]
    print("\n".join(pages + (code if options.code else [])))
    print(
        f"Pages: {len(pages)} findings (0 allowed). "
        f"Comments, docstrings and messages: {len(code)} (at most {rules.code_findings})."
    )
    if pages or len(code) > rules.code_findings:
        print(
            "CONTRIBUTING.md explains the rules of tools/checks/prose.toml; "
            "--code shows all findings.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
