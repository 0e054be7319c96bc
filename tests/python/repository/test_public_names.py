"""What programs import from tfos: it is there, and costs nothing before it is used."""

import ast
import importlib
import json
import pathlib
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from importlib import metadata

import pytest

import tfos
from support.places import ROOT
from tfos.base import executable

PACKAGES = ["tfos", "tfos.inference", "tfos.parameter_server", "tfos.records"]


def in_new_process(program):
    """What ``program`` prints, as JSON."""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(process.stdout)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_used_and_is_shown(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_know_the_names_of_programs(package):
    path = pathlib.Path(importlib.import_module(package).__file__)
    shown = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    own = {"jar_path"} if package == "tfos" else set()
    assert set(importlib.import_module(package).__all__) <= shown | own


def test_import_tfos_is_enough():
    names = in_new_process(
        "import json, tfos; print(json.dumps([tfos.inference.Model.__name__, tfos.records.read.__name__, "
        "tfos.parameter_server.Sgd.__name__, tfos.errors.TfosError.__name__, tfos.run.__name__, "
        "tfos.NodeContext.__name__]))"
    )
    assert names == ["Model", "read", "Sgd", "TfosError", "run", "NodeContext"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tfos' has no attribute 'ruin'"):
        tfos.ruin
    with pytest.raises(AttributeError, match="module 'tfos.records' has no attribute 'reed'"):
        tfos.records.reed


def test_where_a_cluster_is_looked_at_is_a_value():
    """So nobody guesses which of them are called. One is, as it waits."""
    members = vars(tfos.Cluster)
    found = {name for name in members if name.endswith(("_url", "_header", "_address", "_link"))}
    assert {"metrics_header", "status_header", "page_url"} <= found
    called = {name for name in found if not isinstance(members[name], property)}
    assert called == {"tensorboard_url"}


def test_importing_packages_imports_no_library():
    loaded = in_new_process(
        f"import importlib, json, sys; [importlib.import_module(name) for name in {PACKAGES}]; "
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    assert not {"numpy", "pyarrow", "pyspark", "tensorflow", "keras"} & set(loaded)


def test_type_checkers_see_the_extension():
    package = pathlib.Path(tfos.__file__).parent
    assert (package / "py.typed").is_file()
    stub = ast.parse((package / "_native.pyi").read_text())
    shown = {node.name for node in stub.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    native = importlib.import_module("tfos._native")
    assert {name for name, value in vars(native).items() if callable(value)} <= shown


def names_in(requirements):
    """The packages of requirements, as pyproject.toml or a file of pip's has them."""
    found = (re.match(r"\s*([\w.-]+)", line) for line in requirements)
    return {match.group(1).lower().replace("_", "-") for match in found if match}


def all_of(extra, extras):
    """The packages of an extra and of those that it names."""
    inside = [
        match.group(1).split(",")
        for line in extras[extra]
        if (match := re.match(r"tfos\[(.*)\]", line))
    ]
    return names_in(extras[extra]).union(
        *(all_of(name, extras) for names in inside for name in names)
    )


@pytest.mark.parametrize(
    ("extra", "files"),
    [("demo", ["requirements-run.txt"]), ("test", ["requirements-run.txt", "requirements.txt"])],
)
def test_extras_have_what_the_tools_install(extra, files):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = [
        line
        for name in files
        for line in (ROOT / "tools" / name).read_text().splitlines()
        if not line.startswith(("-", "#"))
    ]
    of_connect = [
        line for line in metadata.requires("pyspark") if re.search("extra == .connect", line)
    ]
    brought = {"setuptools"} | names_in(of_connect) | names_in(project["build-system"]["requires"])
    needed = names_in(lines) - brought
    there = all_of(extra, project["project"]["optional-dependencies"])
    assert needed - there <= names_in(project["project"]["dependencies"])


def test_one_version_is_everywhere():
    pom = ElementTree.parse(ROOT / "jvm/pom.xml").getroot()
    assert pom.findtext("{http://maven.apache.org/POM/4.0.0}version") == tfos.__version__
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changes, re.MULTILINE).group(1) == tfos.__version__
    pages = "".join(path.read_text() for path in ROOT.glob("docs/**/*.md"))
    assert set(re.findall(r"tfos_2\.13-([\d.]+)\.jar", pages)) == {tfos.__version__}
    native = subprocess.run(
        [executable.path(), "--version"], capture_output=True, text=True, check=True
    )
    assert native.stdout.strip() == tfos.__version__
