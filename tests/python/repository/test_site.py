"""The site of the pages (`make docs`): whole, without a network, with a search that works from files."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from support.page.browsers import browser, complaints
from support.places import ROOT
from support.waiting import wait_for


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site. `--strict`: a link that leads nowhere, or a page that no menu has, fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


#: What a browser loads by itself, in HTML and in style sheets.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=[\"']?(?P<source>[^\"' >]+)"
    r"|<link\b[^>]*?\bhref=[\"']?(?P<link>[^\"' >]+)"
    r"|url\([\"']?(?P<style>[^\"')]+)"
)


def loaded_from_elsewhere(folder):
    return sorted(
        {
            f"{file.relative_to(folder)}: {target}"
            for pattern in ("*.html", "*.css")
            for file in folder.rglob(pattern)
            for found in LOADED.finditer(file.read_text())
            if re.match(r"(?:\w+:)?//", target := next(filter(None, found.groups())))
        }
    )


def test_no_page_loads_anything_from_elsewhere(site):
    assert not loaded_from_elsewhere(site)


def test_what_comes_from_elsewhere_is_noticed(tmp_path):
    (tmp_path / "page.html").write_text(
        '<a href="https://a.example"></a><script src="https://b.example/x.js"></script>'
        '<link rel="stylesheet" href="//c.example/x.css"><img src="images/x.png">'
    )
    (tmp_path / "x.css").write_text("a { background: url(https://d.example/x.png) }")
    assert loaded_from_elsewhere(tmp_path) == [
        "page.html: //c.example/x.css",
        "page.html: https://b.example/x.js",
        "x.css: https://d.example/x.png",
    ]


def test_readers_do_not_get_what_is_for_tests(site):
    """Code that pages run and do not show."""
    with_comments = [
        str(page.relative_to(site))
        for page in site.rglob("*.html")
        if "source" not in page.relative_to(site).parts and "<!-- " in page.read_text()
    ]
    assert not with_comments


@pytest.mark.parametrize(
    "page, text",
    [
        ("index.html", "TensorFlow on Spark, native"),
        ("changelog.html", "(unreleased)"),
        ("source/examples/quickstart.py.html", "tfos"),
        ("source/examples/index.html", "mnist_spark.py"),
    ],
)
def test_pages_outside_the_folder_of_pages_are_there(site, page, text):
    assert text in re.sub(r"<[^>]+>", "", (site / page).read_text())


def test_the_search_works_from_files(site):
    with browser() as driver:
        driver.get((site / "index.html").as_uri())
        driver.find_element("css selector", "[data-md-component=search-query]").send_keys(
            "answerTimeout"
        )

        def found():
            script = (
                "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
            )
            links = driver.execute_script(script)
            return {pathlib.PurePosixPath(link.partition("?")[0]).name for link in links}

        wait_for(lambda: "settings.html" in found(), lambda: f"{found()} {complaints(driver)}")
        assert not complaints(driver)


def test_the_search_finds_pages_and_no_code(site):
    index = json.loads((site / "search/search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"diagnosis.html", "settings.html", "formats/feed-protocol.html"} <= found
    assert {place for place in found if place.startswith("source/")} == {
        "source/examples/index.html",
        "source/examples/emr/index.html",
        "source/examples/standalone/index.html",
    }


def test_the_head_of_a_table_is_shown_if_it_has_words(site):
    with browser() as driver:
        driver.get((site / "jvm.html").as_uri())
        heads = driver.execute_script(
            "return [...document.querySelectorAll('thead')]"
            ".map(head => [head.textContent.trim() !== '', head.offsetHeight > 0])"
        )
    assert [True, True] in heads and [False, False] in heads
    assert all(words == shown for words, shown in heads)


def test_the_command_says_where_the_site_is():
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    site_dir = re.search(r"^site_dir: (\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert site_dir and f"/{site_dir[1]}/index.html" in recipe
