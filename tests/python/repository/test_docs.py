"""Pages that are made from code are up to date, and what they name is there."""

import ast
import functools
import importlib
import inspect
import re
import subprocess
import sys

import pytest

import docstrings
from support.places import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def test_the_api_page_is_what_the_sources_say():
    """So a change of the public API shows in the page."""
    subprocess.run([sys.executable, ROOT / "tools/pages/api_page.py", "--check"], check=True)


@pytest.mark.parametrize(
    "module", ["tfos", "tfos.inference", "tfos.parameter_server", "tfos.records"]
)
def test_the_api_page_has_every_public_name(module):
    page = (ROOT / "docs/api.md").read_text()
    for name in set(importlib.import_module(module).__all__) - {"__version__"}:
        assert re.search(rf"^##+ `?{module}\.{name}`?$", page, re.MULTILINE), name


def test_the_api_page_has_whole_docstrings():
    """So the arguments and what follows the first sentence are on the site."""
    page = (ROOT / "docs/api.md").read_text()
    train = page.partition("#### `Cluster.train`\n")[2].partition("\n#### ")[0]
    assert "**Arguments**" in train
    for argument in ("decimals", "feed_timeout", "queue"):
        assert re.search(rf"(?m)^- `{argument}`: \w", train), argument
    for error in ("NodeFailedError", "ClusterStoppedError"):
        assert error in page.partition("### `tfos.Cluster`\n")[2].partition("\n#### ")[0]


def in_the_api_page():
    """(heading, what it is about) of each entry in the API page."""
    owner = None
    for level, name in re.findall(r"(?m)^(###+) `([\w.]+)`$", (ROOT / "docs/api.md").read_text()):
        if level == "###":
            module, _, last = name.rpartition(".")
            owner = getattr(importlib.import_module(module), last)
            yield name, owner
        else:
            found = inspect.getattr_static(owner, name.partition(".")[2])
            if isinstance(found, property):
                found = found.fget
            elif isinstance(found, functools.cached_property):
                found = found.func
            yield name, inspect.unwrap(getattr(found, "__func__", found))


def test_the_api_page_has_every_class_that_a_call_returns():
    """A program that has got an object from tfos finds out what it can do with it."""
    classes = {
        node.name
        for path in (ROOT / "python/tfos").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    entries = dict(in_the_api_page())
    returned = {
        name: classes & set(re.findall(r"\w+", str(returns)))
        for name, shown in entries.items()
        if (returns := getattr(shown, "__annotations__", {}).get("return"))
    }
    assert returned["NodeContext.feed"] == {"DataFeed"}
    assert returned["Cluster.watch"] == {"Watch"}
    shown = {name.rpartition(".")[2] for name in entries if name.startswith("tfos.")}
    missing = {name: found - shown for name, found in returned.items() if found - shown}
    assert not missing
    assert "tfos.feed.batches.Ragged" in entries, "docstrings refer to it"


def test_the_api_page_leaves_out_what_is_for_tfos_itself():
    entries = dict(in_the_api_page())
    assert not [
        name
        for name, shown in entries.items()
        if (inspect.getdoc(shown) or "").startswith("For tfos itself")
    ]
    internal = {"NodeStatus.from_message", "Settings.resolve", "tfos.collective.wire_of"}
    assert not internal & entries.keys()


def test_the_api_page_has_the_values_of_defaults():
    page = (ROOT / "docs/api.md").read_text()
    assert "`inference(data, feed_timeout=7200.0, " in page
    assert not re.findall(r"(?m)^`\w+\(.*=[A-Z_]{2,}[,)].*", page)


def test_docstrings_become_markdown():
    text = "Does it\nwell: see :func:`tfos.run`.\n\nArgs:\n    a, b: the\n        ends.\n    c: ``x | y``.\n\nThreads: any."
    assert docstrings.markdown(text) == [
        "Does it well: see `tfos.run`.",
        "**Arguments**",
        "- `a`, `b`: the ends.\n- `c`: `x \\| y`.",
        "Threads: any.",
    ]
    code = "Do\nthis:\n\n    for a in b:\n        a | b\n\n    done()\n\nThat\n    is all."
    assert docstrings.markdown(code) == [
        "Do this:",
        "<!-- fragment: of a docstring -->\n```python\nfor a in b:\n    a | b\n\ndone()\n```",
        "That is all.",
    ]


def test_the_settings_page_is_what_the_settings_say():
    subprocess.run([sys.executable, ROOT / "tools/pages/settings_page.py", "--check"], check=True)


def test_the_commands_page_is_what_the_commands_say():
    subprocess.run([sys.executable, ROOT / "tools/pages/commands_page.py", "--check"], check=True)


def test_make_targets_named_in_the_docs_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"(?m)^make ([a-z-]+)", page.read_text()):
            assert re.search(rf"(?m)^{target}:", makefile), f"{page.name} names make {target}"
