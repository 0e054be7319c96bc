"""Programs of examples/ import nothing that lies beside them, so each can be copied alone, and tell
their nodes full paths."""

import argparse
import ast
import os
import runpy
import sys
from importlib import metadata

import pytest

from support.places import ROOT
from tfos.examples import spark_session

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


#: Options whose paths go to nodes.
PATHS = {"--directory", "--export-dir", "--weights"}
#: Its driver alone uses the path.
OF_THE_DRIVER = "legacy/tensorspark_mnist.py"
WITH_PATHS = sorted(
    str(program)
    for program in PROGRAMS
    if program.parts[0] in (program.name, "legacy")
    and any(word in (EXAMPLES / program).read_text() for word in (*PATHS, "add_directory_argument"))
    and str(program) != OF_THE_DRIVER
)


class ParsedError(Exception):
    """Its argument is the parser, when the program would have parsed its command line."""


@pytest.mark.parametrize("program", WITH_PATHS)
def test_a_relative_path_is_made_absolute_for_the_nodes(program, monkeypatch):
    def stop(parser, *_):
        raise ParsedError(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    main = runpy.run_path(str(EXAMPLES / program))["main"]
    with pytest.raises(ParsedError) as caught:
        main()
    (parser,) = caught.value.args
    options = [action for action in parser._actions if PATHS & set(action.option_strings)]
    assert options
    for option in options:
        assert option.type is spark_session.full_path
        assert option.default is None or option.default == option.type(option.default)


def test_full_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    assert spark_session.full_path("out") == f"{here}/out"
    assert spark_session.full_path("../out/.") == f"{os.path.dirname(here)}/out"
    for path in ("/a/out", "hdfs://nn/u/out", "hdfs:/u/out", "file:///a/out", "s3a://b/out"):
        assert spark_session.full_path(path) == path
