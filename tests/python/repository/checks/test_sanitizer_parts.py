"""The parts of the tests that the sanitizers run: together they hold all."""

import re
import subprocess

import pytest

import sanitizer_parts
from support.places import ROOT

CPP_TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "src").rglob("*_test.cc"))


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)


def label_of(test):
    """The folder of the CMakeLists.txt that registers a test, as cmake/TfosTargets.cmake says it."""
    return next(
        str(folder) for folder in test.parents if (ROOT / folder / "CMakeLists.txt").exists()
    )


@pytest.mark.parametrize("test", CPP_TESTS, ids=lambda test: test.stem)
def test_a_cpp_test_is_in_one_part(test):
    label = label_of(test)
    parts = [
        name for name in sanitizer_parts.FOLDERS if re.search(sanitizer_parts.labels(name), label)
    ]
    assert len(parts) == 1, f"{test} is in the parts {parts}"
    built = [target.removesuffix("/all") for target in sanitizer_parts.targets(parts[0])]
    assert any(label == folder or label.startswith(f"{folder}/") for folder in built)


def test_the_folders_of_the_parts_are_folders_of_the_build():
    for folders in sanitizer_parts.FOLDERS.values():
        for folder in folders:
            assert (ROOT / folder / "CMakeLists.txt").exists(), folder


def test_a_benchmark_is_built_by_one_part():
    """Nothing runs them, so one that does not link any more would stay so."""
    folders = {str(path.parent.relative_to(ROOT)) for path in (ROOT / "bench").rglob("*.cc")}
    built = [
        target.removesuffix("/all")
        for part in sanitizer_parts.FOLDERS
        for target in sanitizer_parts.targets(part)
        if target.startswith("bench/")
    ]
    assert sorted(built) == sorted(folders)


def test_a_label_is_no_beginning_of_another():
    """As src/feed and a src/feed_of_another would be."""
    assert re.search(sanitizer_parts.labels("feed"), "src/feed/wire")
    assert not re.search(sanitizer_parts.labels("feed"), "src/feed_of_another")


def test_an_unknown_sanitizer_is_refused():
    done = run("tools/sanitize.sh", "memory")
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: tools/sanitize.sh address|thread [PART]" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("tools/sanitize.sh", "address", "nosuch"),
        ("tools/checks/sanitizer_parts.py", "labels", "nosuch"),
    ],
    ids=" ".join,
)
def test_an_unknown_part_is_refused_before_anything_runs(command):
    done = run(*command)
    assert done.returncode == 2
    assert "there is no part 'nosuch'" in done.stderr
    assert done.stdout == ""
