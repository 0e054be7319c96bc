"""Pages that are made from code are up to date, and links between pages lead somewhere."""

import re
import subprocess
import sys

import pytest
from support.places import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def test_the_settings_page_is_what_the_settings_say():
    subprocess.run([sys.executable, ROOT / "tools/settings_page.py", "--check"], check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_named_in_the_docs_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"(?m)^make ([a-z]+)", page.read_text()):
            assert re.search(rf"(?m)^{target}:", makefile), f"{page.name} names make {target}"
