"""Writes docs/reliability.md from the marks of tests; with --check only compares.

    .venv/bin/python tools/pages/reliability_page.py [--check]

The page says what happens when a process, a host or a network fails, in each phase of a cluster,
and which test shows it. A test says which cells of the table it shows, in decorators or parameters:

    @pytest.mark.failure("node killed", "training", "inference")        # a failure and its phases
    // Covers: node killed / training, inference                        above a TEST of C++

reliability.toml has the failures, the phases, and the reason for each cell without a test. A cell
without either is an error, and so is a reason beside a test or a mark of an unknown cell.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = pathlib.Path(__file__).with_name("reliability.toml")
PAGE = ROOT / "docs" / "reliability.md"

#: Why a cell has no test: the key in reliability.toml, and what the overview shows.
REASONS = {"untested": "no test", "hole": "**hole**", "never": "–"}

_MARKERS = ("pytest.mark.failure", "failure")
_COVERED = re.compile(
    r"^(?P<marks>(?:// Covers: .*\n)+)(?:TEST\w*\((?P<suite>\w+),\s*(?P<name>\w+)\))?", re.MULTILINE
)

HEAD = """# When something fails

What tfos does when a process, a host or a network fails, in each phase of a cluster.
For each case, the page names the tests that show it, or says why there is none.

This page is made from the marks of the tests and from tools/pages/reliability.toml by
`.venv/bin/python tools/pages/reliability_page.py`.

"""


class Mark(NamedTuple):
    """One cell that a test shows. ``file`` and ``test`` are empty if the mark is at no test."""

    failure: str
    phase: str
    file: str
    test: str


def marks_of_python(path: pathlib.Path, root: pathlib.Path) -> Iterator[Mark]:
    file = str(path.relative_to(root))
    tree = ast.parse(path.read_text())
    tests = {
        call: node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        for call in ast.walk(decorator)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in _MARKERS:
            what, *phases = [ast.literal_eval(argument) for argument in call.args]
            for phase in phases:
                yield Mark(what, phase, file, tests.get(call, ""))


def marks_of_cpp(path: pathlib.Path, root: pathlib.Path) -> Iterator[Mark]:
    file = str(path.relative_to(root))
    for found in _COVERED.finditer(path.read_text()):
        test = f"{found['suite']}.{found['name']}" if found["suite"] else ""
        for line in found["marks"].splitlines():
            what, _, phases = line.removeprefix("// Covers: ").partition(" / ")
            for phase in phases.split(", "):
                yield Mark(what, phase, file, test)


def marks_in(root: pathlib.Path) -> list[Mark]:
    """The marks of all tests, in a fixed order."""
    found: list[Mark] = []
    for path in sorted(root.glob("tests/python/**/test_*.py")):
        found += marks_of_python(path, root)
    for path in sorted(root.glob("src/**/*_test.cc")):
        found += marks_of_cpp(path, root)
    return found


class Cell(NamedTuple):
    """What happens, and what shows it: tests, or the kind of a reason and the reason."""

    happens: str
    kind: str
    shown: str


def table_of(texts: dict[str, Any], marks: list[Mark]) -> tuple[dict[str, dict[str, Cell]], list]:
    """{failure: {phase: cell}}, and what is wrong with texts and marks."""
    phases, failures = texts["phases"], texts["failures"]
    wrong = [f"{mark.file}: a mark belongs to no test" for mark in marks if not mark.test]
    wrong += [
        f"{mark.file}: {mark.test} is marked {mark.failure!r} / {mark.phase!r}: no such cell"
        for mark in marks
        if mark.failure not in failures or mark.phase not in phases
    ]
    table: dict[str, dict[str, Cell]] = {}
    for failure, said in failures.items():
        own: dict[str, dict[str, str]] = {}
        for names, value in said.get("in", {}).items():
            for phase in names.split(", "):
                if phase not in phases or phase in own:
                    wrong.append(f"{failure}: the phase {phase!r} is unknown or there twice")
                own[phase] = value
        row = table[failure] = {}
        for phase in phases:
            value = own.get(phase, {})
            tests = {
                f"[`{mark.test}`](../{mark.file})": None
                for mark in marks
                if (mark.failure, mark.phase) == (failure, phase)
            }
            kinds = [kind for kind in REASONS if kind in value]
            if bool(tests) == bool(kinds) or len(kinds) > 1:
                has = "a test and a reason" if tests else "neither a test nor a reason"
                wrong.append(f"{failure} / {phase}: the cell must have a test or one reason: {has}")
                continue
            kind = kinds[0] if kinds else "tested"
            happens = "" if kind == "never" else value.get("happens", said["happens"])
            row[phase] = Cell(happens, kind, value[kind] if kinds else "<br>".join(tests))
    return table, wrong


def page_of(texts: dict[str, Any], table: dict[str, dict[str, Cell]]) -> str:
    return "".join([HEAD, *_summary(texts, table), *_details(texts, table)])


def _summary(texts: dict[str, Any], table: dict[str, dict[str, Cell]]) -> Iterator[str]:
    kinds = [cell.kind for row in table.values() for cell in row.values()]
    count = {kind: kinds.count(kind) for kind in ("tested", *REASONS)}
    yield f"{len(table)} failures in {len(texts['phases'])} phases make {len(kinds)} cells. "
    yield f"{count['never']} of them can't occur. Of the others, {count['tested']} have a test, "
    yield f"{count['untested']} have none, with a reason. Known holes: {count['hole']}.\n\n"
    yield "| phase | |\n|---|---|\n"
    for phase, meaning in texts["phases"].items():
        yield f"| {phase} | {meaning} |\n"
    yield f"\n| | {' | '.join(texts['phases'])} |\n|---{'|---' * len(texts['phases'])}|\n"
    for failure, row in table.items():
        shown = [REASONS.get(cell.kind, "tested") for cell in row.values()]
        anchor = failure.lower().replace(" ", "-")
        yield f"| [{failure}](#{anchor}) | {' | '.join(shown)} |\n"


def _details(texts: dict[str, Any], table: dict[str, dict[str, Cell]]) -> Iterator[str]:
    """A section for each failure. Phases of which the same is said share a line."""
    for failure, row in table.items():
        yield f"\n## {failure}\n\n{texts['failures'][failure]['means']}\n\n"
        yield "| phase | what happens | shown by |\n|---|---|---|\n"
        lines: dict[Cell, list[str]] = {}
        for phase, cell in row.items():
            lines.setdefault(cell, []).append(phase)
        for cell, phases in lines.items():
            happens = cell.happens or "can't occur"
            before = {"untested": "no test: ", "hole": "known hole: "}.get(cell.kind, "")
            yield f"| {', '.join(phases)} | {happens} | {before}{cell.shown} |\n"


def main() -> int:
    texts = tomllib.loads(TEXTS.read_text())
    table, wrong = table_of(texts, marks_in(ROOT))
    if wrong:
        print("\n".join(wrong))
        return 1
    page = page_of(texts, table)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        print(f"{PAGE.relative_to(ROOT)} differs from the tests: run {sys.argv[0]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
