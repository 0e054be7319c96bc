"""Pages that are made from code are up to date, and what they name is there."""

import importlib
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


def test_docstrings_become_markdown():
    text = "Does it\nwell: see :func:`tfos.run`.\n\nArgs:\n    a, b: the\n        ends.\n    c: ``x | y``.\n\nThreads: any."
    assert docstrings.markdown(text) == [
        "Does it well: see `tfos.run`.",
        "**Arguments**",
        "- `a`, `b`: the ends.\n- `c`: `x \\| y`.",
        "Threads: any.",
    ]


def test_the_settings_page_is_what_the_settings_say():
    subprocess.run([sys.executable, ROOT / "tools/pages/settings_page.py", "--check"], check=True)


def test_make_targets_named_in_the_docs_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"(?m)^make ([a-z-]+)", page.read_text()):
            assert re.search(rf"(?m)^{target}:", makefile), f"{page.name} names make {target}"
