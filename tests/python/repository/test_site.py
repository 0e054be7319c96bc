"""The site of the pages (`make docs`): whole, without a network, with a search that works from files."""

from __future__ import annotations

import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

import markdown
import pytest

from support.page.browsers import browser, complaints
from support.places import ROOT
from support.waiting import wait_for

#: Pages that lie outside docs/, and where the site has them.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site. `--strict`: a link that leads nowhere, or a page that no menu has, fails.
    With `--quiet`, MkDocs would count no warnings, and nothing would fail."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
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


class Html(html.parser.HTMLParser):
    """What must fit of a page of the site: headings, tables, what it links to, and its text
    outside of code."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.rows, self.ids, self.links, self.text = [], [], set(), [], ""
        self._open = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(value for name, value in attributes if name in ("id", "name") and value)
        if target := values.get("href") or values.get("src"):
            self.links.append(target)
        if tag in ("img", "link", "input", "meta", "br", "hr"):
            return
        self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        while tag in self._open and self._open.pop() != tag:
            pass

    def handle_data(self, text):
        if not {"code", "pre", "script", "style"} & set(self._open):
            self.text += text
        if {"h1", "h2", "h3", "h4", "h5", "h6"} & set(self._open):
            self.headings[-1] += text
        if "td" in self._open:
            self.rows[-1][-1] += text


@pytest.fixture(scope="module")
def pages(site):
    """{path: the page} of the whole site."""
    return {path: Html(path.read_text()) for path in site.rglob("*.html")}


def words_of(heading):
    """A heading without markup, and without the mark that leads to it."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"\W+", " ", heading).strip()


def test_each_heading_of_a_page_is_one_of_the_site(site, pages):
    places = {path: site / place for path, place in OUTSIDE.items()}
    for page in ROOT.glob("docs/**/*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html")
        places[str(page.relative_to(ROOT))] = site / place
    missing = []
    for path, place in places.items():
        text = re.sub(r"^ *(```+).*?^ *\1", "", (ROOT / path).read_text(), flags=re.M | re.S)
        place = place.with_suffix(".html")
        if place.name == "README.html":
            place = place.with_name("index.html")
        shown = {words_of(heading) for heading in pages[place].headings}
        headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
        missing += [f"{path}: {line}" for line in headings if words_of(line) not in shown]
    assert len(places) > 40 and not missing


def broken_tables(page):
    """The rows of a page that are none, because Markdown takes what is below a table for its last
    row; and what marks a table where there is none."""
    alone = [cells[0] for cells in page.rows if len(cells) > 1 and not any(cells[1:])]
    return [text for text in alone if text.strip()] + re.findall(r"\|[-: ]*--[-|: ]*\|", page.text)


def test_tables_have_their_rows_and_nothing_else(site, pages):
    broken = {
        str(path.relative_to(site)): found
        for path, page in pages.items()
        if (found := broken_tables(page))
    }
    assert not broken


@pytest.mark.parametrize("below", ["## Below\n", "Some text.\n", "\n## Below\n"])
def test_a_table_that_takes_what_is_below_it_is_noticed(below):
    text = markdown.markdown(f"Text.\n\n|a|b|\n|---|---|\n|1|2|\n{below}", extensions=["tables"])
    assert bool(broken_tables(Html(text))) == (not below.startswith("\n"))
    text = markdown.markdown("Text.\n|a|b|\n|---|---|\n|1|2|\n", extensions=["tables"])
    assert broken_tables(Html(text)) == ["|---|---|"]


def test_links_within_the_site_lead_somewhere(site, pages):
    """To files that are there, pictures and styles included, and to anchors that these have."""
    dead = []
    for path, page in pages.items():
        for link in page.links:
            address, _, anchor = link.partition("#")
            if re.match(r"(\w+:|//)", address):
                continue
            target = path if not address else pathlib.Path(os.path.normpath(path.parent / address))
            if (
                address.startswith("/")
                or not target.is_file()
                or (anchor and target in pages and anchor not in pages[target].ids)
            ):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead


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


#: What people look for, or paste, and the pages of which one is among the first three results.
SEARCHES = {
    "answerTimeout": {"settings"},
    "spark.tfos.node.answerTimeout": {"settings"},
    "spark.tfos.maxLostNodes": {"settings"},
    "max_lost_nodes": {"settings", "training", "reliability"},
    "feed_memory": {"settings"},
    "freeze": {"diagnosis"},
    "frozen node": {"diagnosis"},
    "hang": {"diagnosis"},
    "history server": {"page"},
    "no sign of life": {"diagnosis", "page", "troubleshooting"},
    "stop a cluster": {"operate"},
    "tfos stop": {"operate"},
    "tfos doctor": {"commands", "troubleshooting"},
    "tfos records convert": {"commands"},
    "checkpoint": {"checkpoints"},
    "parameter server": {"parameter-servers"},
    "Ray": {"migration"},
    "slow": {"diagnosis", "feeding"},
    "stuck": {"diagnosis"},
    "tune feeding": {"feeding"},
    "gpu": {"gpus"},
}


def test_the_search_works_from_files_and_finds_the_pages_for_users_first(site):
    script = (
        "return [...document.querySelectorAll('.md-search-result__item')]"
        ".map(item => item.querySelector('a').href)"
    )
    with browser() as driver:
        for words, pages in SEARCHES.items():
            # In the address: each search begins with no results of the one before.
            driver.get("about:blank")
            driver.get(f"{(site / 'index.html').as_uri()}?q={urllib.parse.quote(words)}")

            def found():
                links = driver.execute_script(script)
                return [pathlib.PurePosixPath(link.partition("?")[0]).stem for link in links][:3]

            wait_for(found, lambda: f"{words}: nothing {complaints(driver)}")
            assert pages & set(found()), f"{words}: {found()}"
        assert not complaints(driver)


def test_the_search_finds_pages_and_no_code(site):
    index = json.loads((site / "search/search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"diagnosis.html", "settings.html", "formats/feed-protocol.html"} <= found
    assert {place for place in found if place.startswith("source/")} == {
        "source/examples/index.html",
        "source/examples/emr/index.html",
        "source/examples/notebooks/scoring.ipynb.html",
        "source/examples/notebooks/training.ipynb.html",
        "source/examples/standalone/index.html",
    }


def test_names_of_settings_are_whole_on_a_phone(site):
    with browser() as driver:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        driver.get((site / "settings.html").as_uri())
        lines, width = driver.execute_script(
            "return [[...document.querySelectorAll('td:first-child code')]"
            ".map(key => key.getClientRects().length), document.documentElement.scrollWidth]"
        )
    assert len(lines) > 30 and set(lines) == {1}
    assert width <= 390, "the table is scrolled, not the page"


def test_notebooks_are_shown_with_their_outputs(site):
    """Not as the JSON that they are stored as: with what cells have printed, and with their curves."""
    with browser() as driver:
        driver.get((site / "source/examples/notebooks/training.ipynb.html").as_uri())
        curves = driver.execute_script(
            "return [...document.querySelectorAll('.output svg polyline')]"
            ".map(line => line.getBoundingClientRect().width)"
        )
        text = driver.execute_script("return document.querySelector('article').innerText")
        assert not complaints(driver)
    assert len(curves) >= 2 and min(curves) > 100
    assert "of the unseen digits are right" in text and '"cell_type"' not in text


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


def test_a_link_that_leads_nowhere_fails_the_command():
    """MkDocs counts no warnings with `--quiet`."""
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs:")[2].partition("\n\n")[0]
    assert "mkdocs build --strict'" in recipe
