"""Programs of examples/ import nothing that lies beside them, so each can be copied alone."""

import ast
import sys
from importlib import metadata

import pytest

from support.places import ROOT

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py"))
#: What programs of other systems import, which tests don't install.
OF_OTHERS = {"horovod", "ray", "torch"}
#: The walk-through of the old learning notes sends files with --py-files, as these do.
SENT = {path.stem for path in EXAMPLES.glob("standalone/mnist_*.py")}


def imported(source):
    """The first names of all modules that a program imports, wherever it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "").partition(".")[0]


def test_all_ways_to_import_are_seen():
    source = (
        "import a.b, c\ndef f():\n    from d.e import g\n    from . import h\n    from .i import j"
    )
    assert set(imported(source)) == {"a", "c", "d", ".", ".i"}


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_it_imports_only_what_is_installed(program):
    source = (EXAMPLES / program).read_text()
    installed = sys.stdlib_module_names | metadata.packages_distributions().keys() | OF_OTHERS
    sent = SENT if program.parent.name == "standalone" else set()
    assert set(imported(source)) <= installed | sent
    assert "sys.path" not in source
