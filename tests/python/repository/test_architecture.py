"""docs/architecture.md shows the tree as it is: its names exist, no room is left out, and what a
room may use is what the checks of layers say."""

import pathlib
import re
import subprocess
import sys

import pytest

import check_layers
import flows
import layers_java
import layers_python
from support.places import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
_SOURCE = re.compile(r"[\w./-]+\.(?:cc|h|java|py|sh|svg|toml)")
#: In a picture, between other words.
_ROOM = re.compile(r"\b(?:src|python|jvm|tools|tests)/[\w./-]*\w")
#: A row of a table of rooms: a path, what is in it, and what it may use.
_ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]*)\|$", re.MULTILINE)


def paths_of(page):
    """What a page names as code that is a path, or the name of a source."""
    return {
        code for code in _CODE.findall(page) if _PATH.fullmatch(code) or _SOURCE.fullmatch(code)
    }


def uses_of(page):
    """By room, what the tables say that it may use."""
    return {
        path: {name for name in uses.strip().split(", ") if name}
        for path, uses in _ROW.findall(page)
    }


def folders_with(suffix, below):
    """The folders below one that have sources, as paths from the root."""
    return {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / below).rglob(f"*{suffix}")}


def rooms():
    """What the page must name: every folder of src, also those without sources of their own, and
    every package. Of an old API the whole is enough."""
    native = folders_with(".cc", "src") | folders_with(".h", "src")
    native |= {str(above) for room in native for above in pathlib.PurePosixPath(room).parents}
    old = {f"python/{path.name}" for path in (ROOT / "python").iterdir()} - {"python/tfos"}
    packages = {
        next((api for api in old if f"{package}/".startswith(f"{api}/")), package)
        for package in folders_with(".py", "python")
    }
    return (native - {".", "src"}) | packages | folders_with(".java", "jvm/src/main/java")


def python_path(layer):
    path = pathlib.PurePosixPath("python/tfos", *layer.split("."))
    return str(path if (ROOT / path).is_dir() else path.with_suffix(".py"))


def test_a_path_is_told_from_other_code():
    page = "`src/base` `a/b.cc` `roster.cc` `/metrics` `hdfs://` `tfos.run` `make test` `*/*.h`"
    assert paths_of(page) == {"src/base", "a/b.cc", "roster.cc"}


def test_a_row_says_what_a_room_may_use():
    page = "| `src/a` | rows |  |\n| `src/b` | the `x` | a, c/d |\n| `src/c` | two columns |\n"
    assert uses_of(page) == {"src/a": set(), "src/b": {"a", "c/d"}}


@pytest.mark.parametrize("path", sorted(paths_of(PAGE)))
def test_each_path_exists(path):
    assert (ROOT / path).exists(), f"docs/architecture.md names {path}, which is not there"


@pytest.mark.parametrize("room", sorted(rooms()))
def test_each_room_is_named(room):
    assert room in paths_of(PAGE), f"docs/architecture.md does not say what {room} holds"


def test_each_room_may_use_what_the_checks_allow():
    allowed_to = {f"src/{name}": allowed for name, allowed in check_layers.ALLOWED.items()}
    allowed_to |= {python_path(name): allowed for name, allowed in layers_python.ALLOWED.items()}
    allowed_to |= {
        "jvm/src/main/java/" + name.replace(".", "/"): allowed
        for name, allowed in layers_java.ALLOWED.items()
    }
    said = {path: uses for path, uses in uses_of(PAGE).items() if path in allowed_to}
    assert said == allowed_to


def test_the_pictures_are_what_the_script_draws_and_the_page_shows_them():
    subprocess.run([sys.executable, ROOT / "tools/pages/draw_flows.py", "--check"], check=True)
    for picture in flows.FLOWS:
        assert f"](images/{picture.name}.svg)" in PAGE


@pytest.mark.parametrize("picture", flows.FLOWS, ids=lambda picture: picture.name)
def test_each_path_of_a_picture_fits_into_its_box(picture):
    """A character of the pictures' font, 11.5 pixels high, is at most 7 pixels wide."""
    too_long = [room.path for room in picture.rooms.values() if 8 + 7 * len(room.path) > room.width]
    assert not too_long


@pytest.mark.parametrize("picture", flows.FLOWS, ids=lambda picture: picture.name)
def test_each_room_of_a_picture_exists(picture):
    words = "\n".join(
        "\n".join((room.path, *room.notes)) for frame in picture.frames for room in frame.rooms
    )
    named = _ROOM.findall(words)
    assert named
    assert [room for room in named if not (ROOT / room).exists()] == []
