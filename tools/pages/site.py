"""What the site of the pages needs beyond MkDocs, which calls this file (mkdocs.yml: `hooks`).

The pages are written to be read in the repository. So some lie outside docs/ (README.md becomes the
first page), and some link to programs and folders of the repository. The site has a page for each
of those: a file's text, or the list of a folder's files. Nothing in it leads to a place that only a
checkout has.
"""

from __future__ import annotations

import os.path
import pathlib
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from notebook_text import markdown_of

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: Pages that lie outside docs/, by their paths in the repository.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
#: Below this folder of the site lie the repository's files that pages link to.
SOURCES = "source"

#: What the search multiplies the score of a page by, by the beginning of its path. The first pages
#: have all words of tfos, and are for those who work on it. The next ones name everything once. The
#: last ones are for those who look for help.
BOOSTS = {
    "formats/": 0.1,
    "architecture.md": 0.2,
    "changelog.md": 0.2,
    "contributing.md": 0.2,
    "reliability.md": 0.3,
    "api.md": 0.5,
    "commands.md": 0.5,
    "dependencies.md": 0.5,
    "glossary.md": 0.3,
    "source/": 0.5,
    "settings.md": 0.5,
    "troubleshooting.md": 0.8,
    "diagnosis.md": 2,
    "page.md": 1.5,
}

#: Languages of files' text, by suffix, as code blocks name them. Other files are plain text.
LANGUAGES = {
    ".py": "python",
    ".sh": "sh",
    ".yaml": "yaml",
}

#: Links and images, also those in the middle of a picture's link.
_LINK = re.compile(r"\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
#: Comments that only tests and the programs of bench/ read, with the blank lines around them.
_COMMENT = re.compile(
    r"\n*^<!-- (?:python\n|fragment: |bench/|end ).*?-->\n*", re.DOTALL | re.MULTILINE
)


def place_of(path: str) -> str | None:
    """Where the site has a file or folder of the repository; None: there is none of that path."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    target = ROOT / path
    if target.is_dir():
        return f"{SOURCES}/{path}/index.md"
    return f"{SOURCES}/{path}.md" if target.is_file() else None


def folder_of(place: str) -> str:
    """The folder of the repository from which a page's links start."""
    for path, outside in OUTSIDE.items():
        if place == outside:
            return os.path.dirname(path)
    if place.startswith(f"{SOURCES}/"):
        return os.path.dirname(place.removeprefix(f"{SOURCES}/"))
    return os.path.dirname(f"docs/{place}")


def with_links(text: str, place: str) -> tuple[str, set[str]]:
    """A page's text with links that work in the site, and the paths of sources that it links to."""
    folder = folder_of(place)
    sources = set()

    def moved(link: re.Match[str]) -> str:
        path = os.path.normpath(os.path.join(folder, link["path"]))
        target = place_of(path)
        if target is None:
            return link[0]  # MkDocs names it.
        if target.startswith(f"{SOURCES}/"):
            sources.add(path)
        relative = os.path.relpath(target, os.path.dirname(place) or ".")
        return f"]({relative}{link['anchor'] or ''})"

    return _LINK.sub(moved, without_comments(text)), sources


def without_comments(text: str) -> str:
    """The text without what only tests read. A blank line stays: Markdown takes the line below a
    table for its last row, and a table below a paragraph for a part of it."""
    return _COMMENT.sub("\n\n", text)


def is_prose(path: str) -> bool:
    """Whether a file or folder of the repository has a text that is written to be read."""
    return path.endswith((".md", ".ipynb")) or (ROOT / path / "README.md").exists()


def page_of_source(path: str) -> str:
    """The page of a file or folder of the repository."""
    source = ROOT / path
    if source.is_dir():
        readme = source / "README.md"
        names = sorted(
            entry.name + ("/" if entry.is_dir() else "")
            for entry in source.iterdir()
            if not entry.name.startswith((".", "__")) and entry != readme
        )
        listed = "".join(f"- `{name}`\n" for name in names)
        before = readme.read_text() if readme.exists() else f"# {path}\n"
        return f"{before}\n## Files\n\n{listed}"
    if source.suffix == ".md":
        return source.read_text()
    if source.suffix == ".ipynb":
        return markdown_of(source.read_text())
    language = LANGUAGES.get(source.suffix, "text")
    # More backticks than any line of the file begins with.
    return f"# {path}\n\n````{language}\n{source.read_text()}\n````\n"


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Adds the pages that do not lie in docs/, and those of all sources that pages lead to."""
    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text()))
    for file in [file for file in files if file.src_uri.endswith(".py")]:
        files.remove(file)
    unseen = [file for file in files if file.is_documentation_page()]
    while unseen:
        page = unseen.pop()
        _, sources = with_links(page.content_string, page.src_uri)
        for path in sources:
            place = place_of(path)
            assert place is not None
            if files.get_file_from_path(place) is None:
                file = File.generated(config, place, content=page_of_source(path))
                # Reached by links alone: the list of pages is the nav's.
                file.inclusion = file.inclusion.NOT_IN_NAV
                files.append(file)
                unseen.append(file)
    return files


def on_config(config: MkDocsConfig, **_: Any) -> MkDocsConfig:
    """Leaves out the page for addresses that are not there: only servers know where to show it."""
    config.theme.static_templates.discard("404.html")
    return config


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page's text as the site shows it. The search leaves out code, which has the words of the
    pages more often than these. It shows a page that fewer readers look for below the others."""
    place = page.file.src_uri
    for begin, boost in BOOSTS.items():
        if place.startswith(begin):
            page.meta["search"] = {"boost": boost}
    if place.startswith(f"{SOURCES}/"):
        path = place.removeprefix(f"{SOURCES}/").removesuffix(".md").removesuffix("/index")
        if not is_prose(path):
            page.meta["search"] = {"exclude": True}
    text, _ = with_links(markdown, place)
    return text
