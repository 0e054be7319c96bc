"""Checks the English of pages, comments, docstrings and messages by tools/checks/prose.toml.

    .venv/bin/python tools/checks/prose.py          # pages must be clean
    .venv/bin/python tools/checks/prose.py FILE...  # every finding in pages or sources
    .venv/bin/python tools/checks/prose.py --code   # every finding in all sources

Exits with 1 where a page or the last commit's message breaks a rule, or where sources have more
findings than `code_findings`. A message is a literal of three words or more. Tables, indented code
and literals of several lines have no sentences to measure.
Markdown is read by markdown-it-py, so code, links' targets and comments of HTML are left out, and a
cell of a table is a text by itself.
"""

from __future__ import annotations

import argparse
import ast
import io
import pathlib
import re
import subprocess
import sys
import textwrap
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = pathlib.Path(__file__).with_name("prose.toml")

#: Stands for code in a text: one word, in which no pattern is found.
CODE = "CODE"
#: Where a sentence ends; after a colon or semicolon before a capital, code, a bracket or a quote.
SENTENCE_END = re.compile(
    r"(?<=[.!?])\s+|(?<=[:;])\s+(?=[A-Z(\"'])|(?<=[.!?])[\"')]\s+(?=[A-Z(\"'])"
)
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|al|[A-Z])\.$")
#: How an item of a list begins, or of those that a function takes.
ITEM = re.compile(r"[-*] |\S+ {2,}|.* {3,}|\d+[.)] |@\w+ |[`\w*][`\w*, ]*: ")
#: What literals have that are code or a page.
NO_SENTENCES = re.compile(r"\n|\\[nds]|^\s*<")
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


def texts_of_python(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, lengths) of each docstring, of each literal, and of each run of comments."""
    docstrings: set[int] = set()
    parts: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                docstrings.add(node.body[0].lineno)
                yield node.body[0].lineno, re.sub(r"``[^`]*``", CODE, text), True
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
        _Comment(token.start[0], token.string.lstrip("#:"), token.start[1], token.line)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from _joined(comments)


def texts_of_c_family(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, lengths) of the comments of C++, Java or JavaScript, and of their literals. Runs
    of lines of comments are one text, as are literals that follow one another."""
    lines = source.splitlines()
    comments = []
    literal = r'"(?:\\.|[^"\\\n])*"'
    pattern = re.compile(rf"{literal}(?:\s*\+?\s*{literal})*|//[^\n]*|/\*.*?\*/", re.DOTALL)
    for found in pattern.finditer(source):
        first = source.count("\n", 0, found.start()) + 1
        column = found.start() - (source.rfind("\n", 0, found.start()) + 1)
        if found[0].startswith("//"):
            text = found[0].lstrip("/!<")
            comments.append(_Comment(first, text, column, lines[first - 1]))
        elif found[0].startswith("/*"):
            for number, line in enumerate(found[0][2:-2].splitlines(), first):
                text = re.sub(r"^\s*\*+", "", line.rstrip())
                comments.append(_Comment(number, text, column, ""))
        else:
            yield from _message(first, re.sub(r'"\s*\+?\s*"', "", found[0])[1:-1])
    yield from _joined(comments)


def texts_of_shell(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, text, lengths) of each run of lines that are comments, of a script, CMake or make."""
    yield from _joined(
        [
            _Comment(number, line.lstrip().lstrip("#"), line.index("#"), line)
            for number, line in enumerate(source.splitlines(), 1)
            if re.match(r"\s*#+ ", line)
        ]
    )


def _message(line: int, literal: str) -> Iterator[tuple[int, str, bool]]:
    """A literal that people read: it has three words or more. Those of several lines, of markup and
    of regular expressions have no sentences to measure."""
    if len(literal.split()) > 2:
        yield line, re.sub(r"`[^`]*`", CODE, literal), not NO_SENTENCES.search(literal)


@dataclass(frozen=True)
class _Comment:
    """One line of a comment: `text` without its marks, `line` with what is before it."""

    number: int
    text: str
    column: int
    line: str

    def is_behind_code(self) -> bool:
        return bool(self.line[: self.column].strip())


#: What reads sources, by the end of their names.
TEXTS = {
    ".py": texts_of_python,
    **dict.fromkeys([".c", ".cc", ".h", ".java", ".js", ".scala"], texts_of_c_family),
}


def _joined(comments: list[_Comment]) -> Iterator[tuple[int, str, bool]]:
    """The texts of runs of lines that are comments. A comment behind code begins a paragraph."""
    last: _Comment | None = None
    begin = 0
    parts: list[str] = []
    for comment in comments:
        if last is not None and comment.number != last.number + 1:
            yield begin, textwrap.dedent("\n".join(parts)), True
            last, parts = None, []
        if last is None:
            begin = comment.number
        elif comment.is_behind_code() or comment.column != last.column:
            parts.append("")
        parts.append(re.sub(r"`[^`]*`", CODE, comment.text))
        last = comment
    if parts:
        yield begin, textwrap.dedent("\n".join(parts)), True


def passages(text: str) -> Iterator[str]:
    """The paragraphs and items of a comment or docstring, without tables and indented code."""
    passage: list[str] = []
    indent = 0
    is_item = False
    for line in [*re.sub(r"`+[^`]*`+", CODE, text).splitlines(), ""]:
        words = line.strip()
        begins = ITEM.match(words) is not None
        deeper = len(line) - len(line.lstrip())
        if is_item and len(passage) == 1 and deeper > indent and not begins:
            indent = deeper  # The item goes on below its text.
        if passage and (not words or begins or deeper != indent):
            yield " ".join(passage)
            passage = []
        if not words or words.startswith("|"):
            continue
        if not passage:
            if deeper > 0 and not begins:
                continue
            indent, is_item = deeper, begins
        passage.append(words)


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
    line = re.sub(r"\s+", " ", text)
    for name, pattern, better in rules.patterns:
        for found in pattern.finditer(line):
            start = max(0, found.start() - 30)
            yield f'"{name}" in "...{line[start : found.end() + 20]}...": {better}'
    for passage in passages(text) if lengths else ():
        for sentence in sentences(passage):
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
        found = TEXTS.get(path.suffix, texts_of_shell)(text)
    return [
        f"{name}:{line}: {finding}"
        for line, piece, lengths in found
        for finding in findings(piece, rules, lengths)
    ]


def check_commit(root: pathlib.Path, rules: Rules) -> list[str]:
    """Lines of findings in the message of the commit that is checked out; none without git's."""
    if not (root / ".git").exists():
        return []
    message = subprocess.run(
        ["git", "log", "-1", "--format=%B"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    return [f"HEAD's message: {finding}" for finding in findings(message, rules, lengths=True)]


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
    pages += check_commit(ROOT, rules)
    code = [line for path in named(rules.sources, rules.of_others) for line in check(path, rules)]
    print("\n".join(pages + (code if options.code else [])))
    print(
        f"Pages and the last commit's message: {len(pages)} findings (0 allowed). "
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
