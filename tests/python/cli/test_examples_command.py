"""``tfos examples``, of the installed wheel."""

from __future__ import annotations

import os
import subprocess

import pytest

from support.places import ROOT
from tfos.base import executable


def run(*words, folder):
    return subprocess.run(
        [executable.path(), "examples", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def files_below(folder):
    return {
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
        if not at.endswith("__pycache__")
    }


def test_all_examples_are_copied_as_they_are(tmp_path):
    done = run("copy", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    copies = tmp_path / "tfos-examples"
    tracked = files_below(ROOT / "examples")
    assert "notebooks/training.ipynb" in tracked
    assert files_below(copies) == tracked
    for name in tracked:
        original = ROOT / "examples" / name
        assert (copies / name).read_bytes() == original.read_bytes()
        assert os.access(copies / name, os.X_OK) == os.access(original, os.X_OK)
    assert "tfos-examples/quickstart.py\n" in done.stdout.partition("Run one")[2]
    assert "tfos-examples/README.md says" in done.stdout


@pytest.mark.parametrize(
    ("name", "copied"),
    [
        ("quickstart", {"quickstart.py"}),
        ("mnist_spark.py", {"mnist_spark.py"}),
        ("notebooks/", {"notebooks/scoring.ipynb", "notebooks/training.ipynb"}),
        ("standalone/mnist_tf", {"standalone/mnist_tf.py"}),
    ],
)
def test_some_are_copied_to_a_folder(tmp_path, name, copied):
    done = run("copy", name, "--to", "some/where", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert files_below(tmp_path / "some" / "where") == copied


def test_nothing_is_replaced(tmp_path):
    (tmp_path / "text.py").write_text("mine")
    done = run("copy", "quickstart", "text", "--to", ".", folder=tmp_path)
    assert done.returncode == 1
    assert "text.py is there already, and nothing was copied" in done.stderr
    assert files_below(tmp_path) == {"text.py"}
    assert (tmp_path / "text.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["frob", ".", "", "../errors"])
def test_what_is_no_example_is_a_wrong_command_line(tmp_path, name):
    done = run("copy", name, folder=tmp_path)
    assert done.returncode == 2
    assert f"there is no example {name!r}" in done.stderr
    assert files_below(tmp_path) == set()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("there", "--to there\n"),
        ("to/be/made", "--to to/be/made\n"),
        ("./my own", "--to './my own'\n"),
    ],
)
def test_a_folder_in_place_of_a_name_leads_to_the_option(tmp_path, name, words):
    (tmp_path / "there").mkdir()
    done = run("copy", name, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(f"To copy to a folder, write {words}")


def test_a_name_alone_is_not_taken_for_a_folder(tmp_path):
    assert "--to" not in run("copy", "frob", folder=tmp_path).stderr


def test_the_list_says_what_each_shows(tmp_path):
    shown = run("list", folder=tmp_path).stdout
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert lines["quickstart.py"].startswith("The native API in a few lines")
    assert lines["notebooks/training.ipynb"] == "Training on Spark from a notebook"
    assert next(iter(lines)) == "asynchronous.py", "those of the top come first"
    programs = {name for name in files_below(ROOT / "examples") if name.endswith(".py")}
    assert programs <= set(lines), "each says something about itself"
