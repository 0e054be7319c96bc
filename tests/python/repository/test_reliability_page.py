"""docs/reliability.md is made from marks in the tests, and each of its cells has a test or a reason."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reliability_page
from support.places import ROOT

TEXTS = {
    "phases": {"starting": "first", "training": "then"},
    "failures": {"node killed": {"means": "It dies.", "happens": "It is named."}},
}

PYTHON = """
import pytest

@pytest.mark.failure("node killed", "starting")
@pytest.mark.parametrize("n", [pytest.param(1, marks=[pytest.mark.failure("node killed", "training")]), 2])
def test_it(n):
    pass
"""

CPP = """
// Covers: node killed / starting, training
TEST_F(NodeTest, IsNamed) {
"""


@pytest.fixture
def tests_in(tmp_path):
    """What is wrong with the marks in sources: {path: text}, and with reasons: {phases: reason}."""

    def look(sources, reasons=None):
        for name, text in sources.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        failure = {**TEXTS["failures"]["node killed"], "in": reasons or {}}
        texts = {**TEXTS, "failures": {"node killed": failure}}
        return reliability_page.table_of(texts, reliability_page.marks_in(tmp_path))

    return look


def test_the_page_is_what_the_tests_say():
    tool = ROOT / "tools/pages/reliability_page.py"
    subprocess.run([sys.executable, tool, "--check"], check=True)


def test_marks_are_found_at_tests_and_at_parameters(tests_in):
    table, wrong = tests_in({"tests/python/test_x.py": PYTHON})
    assert not wrong
    shown = "[`test_it`](../tests/python/test_x.py)"
    assert [cell.shown for cell in table["node killed"].values()] == [shown, shown]


def test_marks_of_cpp_are_comments_above_a_test(tests_in):
    table, wrong = tests_in({"src/a/x_test.cc": CPP})
    assert not wrong
    shown = "[`NodeTest.IsNamed`](../src/a/x_test.cc)"
    assert [cell.shown for cell in table["node killed"].values()] == [shown, shown]


@pytest.mark.parametrize(
    ("sources", "reasons", "said"),
    [
        ({"tests/python/test_x.py": PYTHON.replace('"training"', '"triaging"')}, None, "no such"),
        ({"tests/python/test_x.py": PYTHON.replace('"node killed", "tr', '"nod", "tr')}, None, "no such"),
        ({"src/x_test.cc": CPP.replace(" / ", " - ")}, None, "no such cell"),
        ({"src/x_test.cc": CPP.replace("TEST_F", "// Why.\nTEST_F")}, None, "belongs to no test"),
        ({"tests/python/test_x.py": 'mark = pytest.mark.failure("node killed", "starting")'}, None, "to no"),
        ({}, {"starting": {"never": "it can't"}}, "training: the cell must have a test or one reason"),
        ({"src/x_test.cc": CPP}, {"starting": {"untested": "hard"}}, "a test and a reason"),
        ({"src/x_test.cc": CPP}, {"stating": {"happens": "this"}}, "unknown or there twice"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(tests_in, sources, reasons, said):
    _, wrong = tests_in(sources, reasons)
    assert any(said in line for line in wrong), wrong
