"""The parts of the checks with Clang and its sanitizers: they hold all tests, and each gets its turn."""

import hashlib
import os
import re
import subprocess

import pytest

import sanitizer_parts
from support.places import ROOT

PARTS = sanitizer_parts.parts_of_ci()
CPP_TESTS = sorted(path.relative_to(ROOT) for path in (ROOT / "src").rglob("*_test.cc"))


def run(*command, **environment):
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, **environment},
    )


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


def test_make_fuzz_runs_each_fuzz_target():
    """It runs those that have a folder in fuzz/corpus."""
    built = re.findall(
        r"^tfos_fuzzer\(\w+/(\w+)", (ROOT / "fuzz/CMakeLists.txt").read_text(), re.MULTILINE
    )
    assert sorted(built) == sorted(path.name for path in (ROOT / "fuzz/corpus").iterdir())
    assert sorted(built) == sorted(path.stem for path in (ROOT / "fuzz").glob("*/*_fuzz.cc"))


def test_each_part_gets_its_turn():
    hashes = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(1000)]
    chosen = {sanitizer_parts.choose(commit).name for commit in hashes}
    assert chosen == {part.name for part in PARTS}
    assert len({part.command for part in PARTS}) == len(PARTS)


def test_a_commit_is_what_git_knows():
    head = run("git", "rev-parse", "HEAD").stdout.strip()
    done = run("tools/sanitizer_parts.py", "choose", "HEAD")
    assert done.stdout.strip() == sanitizer_parts.choose(head).name
    refused = run("tools/sanitizer_parts.py", "choose", "no-such-commit")
    assert refused.returncode == 2
    assert "Git knows no commit 'no-such-commit' here" in refused.stderr


def test_a_commit_chooses_the_same_part_by_the_beginning_of_its_hash():
    commit = "7be89b61d3f0000000000000000000000000000a"
    assert sanitizer_parts.choose(commit) == sanitizer_parts.choose(commit[:8])


def test_each_part_leaves_time_for_lint_and_test():
    assert {part.name for part in PARTS} == set(sanitizer_parts.MINUTES)
    assert max(part.minutes for part in PARTS) <= sanitizer_parts.LONGEST


def test_the_command_of_each_part_is_one_that_make_knows():
    for part in PARTS:
        # `make test` runs this, and a make within a make says which directory it enters.
        done = run("make", "--no-print-directory", "--dry-run", *part.command.split()[1:])
        assert done.returncode == 0, done.stderr
        if "/" in part.name:
            sanitizer, name = part.name.split("/")
            assert done.stdout.split() == ["tools/sanitize.sh", sanitizer, f'"{name}"']


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (["tools/sanitize.sh", "address", "nosuch"], {}),
        (["tools/sanitizer_parts.py", "labels", "nosuch"], {}),
        (["tools/sanitizer_parts.py", "command", "nosuch"], {}),
        ([".ci/run"], {"TFOS_CI_PART": "nosuch"}),
    ],
    ids=lambda value: " ".join(value),
)
def test_an_unknown_part_is_refused_before_anything_runs(command, environment):
    done = run(*command, **environment)
    assert done.returncode == 2
    assert "there is no part 'nosuch'" in done.stderr
    assert done.stdout == ""


def test_an_unknown_sanitizer_is_refused():
    done = run("tools/sanitize.sh", "memory")
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: tools/sanitize.sh address|thread [PART]" in done.stderr
