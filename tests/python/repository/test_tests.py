"""The tests themselves: they share through `support` alone, and none vanishes for want of a module."""

from __future__ import annotations

import ast

import pytest

from support.places import TESTS

MODULES = sorted(TESTS.rglob("test_*.py"))


def imported_by(tree):
    """Full names of the modules that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_of_tests_takes_nothing_from_another(path):
    parts = {part for name in imported_by(ast.parse(path.read_text())) for part in name.split(".")}
    assert not parts & {"conftest", *(module.stem for module in MODULES)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_missing_module_skips_a_test(path):
    attributes = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert "importorskip" not in attributes, "make test has all that tests import: import it"


def test_what_a_test_needs_is_its_marker(request):
    """By the tests that this run has collected."""
    for item in request.session.items:
        markers = {marker.name for marker in item.iter_markers()}
        needs = {"spark", "hdfs", "yarn", "s3", "namespaces"}
        assert ("quick" in markers) != bool(markers & needs), item.nodeid
        assert "spark" not in item.fixturenames or "spark" in markers, item.nodeid
